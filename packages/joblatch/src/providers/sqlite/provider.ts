import { LockStoreError } from '../../provider/errors.js';
import type {
  AcquireRequest,
  AcquireResult,
  CallOptions,
  GuardRequest,
  InspectRequest,
  LockProvider,
  LockRecord,
  ProviderAbilities,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from '../../provider/lock-provider.js';
import { type RecordRow, toRecord } from '../sql/records.js';
import type { SqliteValue } from './client.js';
import type { Connection } from './connection.js';
import { isStaleSnapshot } from './errors.js';
import { checkOptions, type Settings, type SqliteProviderOptions } from './options.js';
import { quoteTable } from './schema.js';
import { Session } from './session.js';
import { ABSENT, type Statements, statementsFor } from './statements.js';

/** Rows that one step reads or deletes before the event loop gets its turn. */
const PAGE = 1_000;

/**
 * Locks in a SQLite database: for the processes of one host that share a file, or for one process
 * (`':memory:'`). The table is made on first use; nothing is opened before.
 *
 * The clock is the host's, read by SQLite: one host, one clock. Set forward, leases end early; set back by an
 * hour, they last an hour longer, and tokens still grow.
 *
 * Not supported: a file on a network file system, or shared between machines or between containers that do not
 * share a kernel (file locks and shared memory do not reach that far); a file that one process opens with two
 * different drivers (closing one drops the file locks of the other, a property of SQLite on POSIX systems).
 * Whoever deletes or replaces the file forgets its locks; a `path` is then opened anew, a `database` can not be.
 *
 * A `path` is switched to WAL mode, with `synchronous = full`: what was acquired, and which slot was claimed,
 * survives a power cut. A `database` keeps its journal mode and its `synchronous`; in WAL mode with NORMAL the
 * last commits before a power cut may be lost, and with them a claimed slot.
 *
 * @throws LockOptionsError for options that can not be right; a driver that is missing is told on first use
 */
export function sqliteProvider(options: SqliteProviderOptions): LockProvider {
  return new SqliteProvider(checkOptions(options));
}

class SqliteProvider implements LockProvider {
  readonly name = 'sqlite';
  readonly #session: Session;
  readonly #sql: Statements;

  constructor(settings: Settings) {
    this.#session = new Session(settings);
    this.#sql = statementsFor(quoteTable(settings.table));
  }

  abilities(options?: CallOptions): Promise<ProviderAbilities> {
    return this.#session.run('connect', undefined, options, (connection) => ({
      multiProcess: connection.file() !== undefined,
      serverClock: false,
      fencing: true,
      slots: true,
      inspect: true,
    }));
  }

  acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult> {
    return this.#session.run('acquire', request.key, options, (connection) =>
      this.#attempt(connection, request),
    );
  }

  /** All of it in one turn, and again from the start when the file was busy: then the key may be held. */
  #attempt(connection: Connection, request: AcquireRequest): AcquireResult {
    const asked = [request.key, request.slot ?? ABSENT, request.oncePerMs ?? ABSENT] as const;
    const refusal = this.#look(connection, asked);
    if (refusal) return refusal;
    const [taken] = connection.write<[token: number, now: number]>(
      this.#sql.take,
      ...asked,
      request.owner,
      request.leaseMs,
      request.claim ?? 'acquire',
      request.minToken ?? 0,
    );
    // Someone else took it between our look and our write; a second look tells for how long, unless it was
    // given back meanwhile.
    if (taken === undefined) return this.#look(connection, asked) ?? { ok: false, reason: 'held' };
    const [token, now] = taken;
    const { slot, oncePerMs } = request;
    const compared = oncePerMs === undefined ? slot : Math.floor(now / oncePerMs) * oncePerMs;
    return { ok: true, token, leftMs: request.leaseMs, ...(compared !== undefined && { slot: compared }) };
  }

  #look(
    connection: Connection,
    asked: readonly [key: string, slot: SqliteValue, period: SqliteValue],
  ): AcquireResult | undefined {
    const [seen] = connection.read<[left: number, slotRefused: 0 | 1, type: string]>(
      this.#sql.look,
      ...asked,
    );
    const [left, slotRefused, type] = seen as [number, number, string];
    if (type === 'text' || type === 'blob') {
      throw new Error(`the record holds a ${type} in lock_until, where epoch milliseconds belong.`);
    }
    if (left <= 0 && !slotRefused) return undefined;
    return { ok: false, reason: slotRefused ? 'slot' : 'held', ...(left > 0 && { leftMs: Math.ceil(left) }) };
  }

  async renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]> {
    if (requests.length === 0) return [];
    const list = JSON.stringify(requests.map((r) => [r.key, r.owner, r.leaseMs, r.atLeastMs ?? 0]));
    const key = requests.length === 1 ? requests[0]?.key : undefined;
    const renewed = await this.#session.run('renew', key, options, (connection) =>
      connection.write<[key: string, owner: string]>(this.#sql.renewMany, list),
    );
    // A key has one record, so one owner.
    const owners = new Map(renewed);
    return requests.map((r) => (owners.get(r.key) === r.owner ? 'ok' : 'lost'));
  }

  release(request: ReleaseRequest, options?: CallOptions): Promise<boolean> {
    const { key, owner, keepMs, slot } = request;
    return this.#session.run(
      'release',
      key,
      options,
      (connection) => connection.write(this.#sql.release, key, owner, keepMs ?? 0, slot ?? ABSENT).length > 0,
    );
  }

  async inspect(request: InspectRequest, options?: CallOptions): Promise<readonly LockRecord[]> {
    const { key, limit = Number.POSITIVE_INFINITY } = request;
    if (limit <= 0) return [];
    if (key !== undefined) {
      return this.#session.run('inspect', key, options, (connection) =>
        connection.read<RecordRow>(this.#sql.inspectOne, key).map(toRecord),
      );
    }
    const found: LockRecord[] = [];
    for (;;) {
      const size = Math.min(PAGE, limit - found.length);
      const page = await this.#session.run('inspect', undefined, options, (connection) =>
        connection.read<RecordRow>(this.#sql.inspectPage, found.at(-1)?.key ?? '', size),
      );
      for (const row of page) found.push(toRecord(row));
      if (page.length < size || found.length >= limit) return found;
      await this.#session.turn();
    }
  }

  forceRelease(key: string, options?: CallOptions): Promise<boolean> {
    return this.#session.run(
      'forceRelease',
      key,
      options,
      (connection) => connection.write(this.#sql.forceRelease, key).length > 0,
    );
  }

  async purge(request: { readonly idleMs: number }, options?: CallOptions): Promise<number> {
    for (let gone = 0; ; await this.#session.turn()) {
      const page = await this.#session.run('purge', undefined, options, (connection) =>
        connection.write(this.#sql.purge, request.idleMs, PAGE),
      );
      gone += page.length;
      if (page.length < PAGE) return gone;
    }
  }

  /**
   * The write lock of the file is what keeps the key: nobody can write anything until the transaction ends. It
   * is taken first, so that the grant is looked at as it is then.
   */
  guard(request: GuardRequest, transaction: object, options?: CallOptions): Promise<boolean> {
    const { key, owner } = request;
    return this.#session.runWithin(request, transaction, options, (connection) => {
      try {
        connection.exec(this.#sql.lockFile);
      } catch (error) {
        throw isStaleSnapshot(error) ? staleSnapshot(key, error) : error;
      }
      return connection.rows(this.#sql.isLive, key, owner).length > 0;
    });
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

function staleSnapshot(key: string, cause: unknown): LockStoreError {
  return new LockStoreError(
    `${JSON.stringify(key)} can not be guarded in this transaction: it has read before, and somebody else has written to the ` +
      'file since, so that it can not write any more. Roll back, and begin immediate, or call guard first.',
    { operation: 'guard', key, cause },
  );
}
