import { LockOptionsError } from '../../provider/errors.js';
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
import { isGivenWay, isLockedByOthers, OldSnapshot } from './errors.js';
import { checkOptions, type PostgresProviderOptions, type Settings } from './options.js';
import type { Query, Table } from './schema.js';
import { type Layout, Session } from './session.js';
import type { Call } from './statement.js';
import type { Attempt, Guarding } from './statements.js';
import { NOT_OPEN, noTransaction, transactionOf } from './transaction.js';

/** Rows that one statement answers or deletes. */
const PAGE = 5_000;

/**
 * Locks in a table of a PostgreSQL database (12 or later), or in one that Java's ShedLock made. Nothing is
 * contacted before first use. The clock is the server's.
 *
 * Every call is one statement, in a transaction of its own. With a `pool` (or `sql`, `pglite`) it never joins a transaction of
 * the application; a `client` that has one open is refused. A `client` does not reconnect, and is for
 * joblatch alone: give a pool where there is one.
 *
 * Errors of idle connections are listened to while the provider is used, so that they do not end the process; `close`
 * takes the listener away and nothing else.
 *
 * @throws LockOptionsError for options that can not be right
 */
export function postgresProvider(options: PostgresProviderOptions): LockProvider {
  return new PostgresProvider(checkOptions(options));
}

/**
 * How many keys are remembered as taken by others. A statement that could take a key costs the server four times what
 * a read costs, though it is prepared; so who was refused looks first the next time. The others, who mostly
 * win, have their answer in one round trip.
 */
const CONTENDED_MAX = 10_000;

class PostgresProvider implements LockProvider {
  readonly name = 'postgres';
  readonly #contended = new Set<string>();
  readonly #session: Session;
  readonly #inProcess: boolean;
  readonly #timeoutMs: number;

  constructor(settings: Settings) {
    this.#timeoutMs = settings.timeoutMs;
    this.#session = new Session(settings);
    this.#inProcess = settings.source.kind === 'pglite';
  }

  abilities(options?: CallOptions): Promise<ProviderAbilities> {
    return this.#session.run('connect', undefined, options, async ({ table }) => ({
      multiProcess: !this.#inProcess,
      serverClock: !this.#inProcess,
      fencing: table.hasToken,
      slots: table.hasSlot,
      inspect: true,
    }));
  }

  acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult> {
    return this.#session.run('acquire', request.key, options, async (layout, query) => {
      checkFits(request, layout.table);
      const result =
        (this.#contended.has(request.key) && (await look(layout, query, request))) ||
        (await attempt(layout, query, request));
      this.#remember(request.key, !result.ok);
      const wantsSlot = request.slot !== undefined || request.oncePerMs !== undefined;
      // Somebody was faster, and the record as it was before does not tell whether with this very slot.
      if (!result.ok && result.leftMs === undefined && result.reason === 'held' && wantsSlot)
        return attempt(layout, query, request);
      return result;
    });
  }

  #remember(key: string, refused: boolean): void {
    if (!refused) this.#contended.delete(key);
    else if (this.#contended.size < CONTENDED_MAX) this.#contended.add(key);
    // Rather all than the oldest: what is still contended is soon here again.
    else this.#contended.clear();
  }

  async renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]> {
    if (requests.length === 0) return [];
    const key = requests.length === 1 ? requests[0]?.key : undefined;
    return this.#session.run('renew', key, options, async ({ statements }, query) => {
      const answers: RenewResult[] = requests.map(() => 'unknown');
      try {
        const rows = await query<[index: number, renewed: boolean, open: boolean]>(
          statements.renewMany(requests),
        );
        for (const [index, renewed, open] of rows)
          answers[index] = renewed ? 'ok' : open ? 'unknown' : 'lost';
      } catch (error) {
        if (!isGivenWay(error) && !isLockedByOthers(error)) throw error;
      }
      return answers;
    });
  }

  release(request: ReleaseRequest, options?: CallOptions): Promise<boolean> {
    const { key, slot } = request;
    return this.#session.run('release', key, options, async ({ table, statements }, query) => {
      if (slot !== undefined && !table.hasSlot) throw noSlots(key, table);
      return changed(await query(statements.release(request))) > 0;
    });
  }

  async inspect(request: InspectRequest, options?: CallOptions): Promise<readonly LockRecord[]> {
    const { key, limit = Number.POSITIVE_INFINITY } = request;
    const found: LockRecord[] = [];
    while (found.length < limit) {
      const size = Math.min(PAGE, limit - found.length);
      const page = await this.#session.run('inspect', key, options, ({ statements }, query) =>
        query<RecordRow>(statements.inspect({ key, after: found.at(-1)?.key ?? '', limit: size })),
      );
      for (const row of page) found.push(toRecord(row));
      if (key !== undefined || page.length < size) break;
    }
    return found;
  }

  /**
   * Locks the row of the grant FOR KEY SHARE, by one statement in the transaction: a `Client` of pg, the `sql` that `sql.begin`
   * of postgres.js hands over, the `tx` of PGlite's `transaction()`. Renewals pass that lock, take-overs do not. A
   * rollback to a savepoint that is older than the guard takes it back.
   *
   * Under REPEATABLE READ and SERIALIZABLE call it first, before anything that reads. Where the transaction's snapshot is
   * older than the last change of the record, a connection of the provider's own has a look as well; where the transaction can not
   * lock what it does not see, that is an error, and never `false`.
   *
   * From here on the server ends the connection (`idle_in_transaction_session_timeout`, for this transaction) when
   * the transaction sits idle for longer than `leftMs`, so that a paused holder does not keep the key for ever. It knows nothing of
   * renewals: a holder who lives, and does something else for longer than that between two statements, is ended too. He
   * can set that time-out for his transaction after the guard. Errors of a pg client are listened to, so that
   * this does not end the process.
   *
   * Java's ShedLock takes over by a plain update, which does not see the lock: on a table that is shared with it, the
   * guard keeps out only those who use joblatch. Java can take the key as soon as the lease has ended.
   */
  async guard(request: GuardRequest, transaction: object, options?: CallOptions): Promise<boolean> {
    const { key, owner } = request;
    const within = transactionOf(transaction, key);
    return this.#session.guard(key, options, async ({ statements }, query) => {
      const answer = await within.ask(statements.guard(request, this.#timeoutMs));
      const [marked, locked, live, sure] = JSON.parse(answer.rows[0] as string) as Guarding;
      if (!(answer.open ?? marked)) throw noTransaction(key, NOT_OPEN);
      // What was committed in one process while the transaction is open is its own.
      if (sure || this.#inProcess) return live;
      const [row] = await query<RecordRow>(statements.inspect({ key, after: '', limit: 1 }));
      const held = row !== undefined && row.owner === owner && (row.left ?? 0) > 0;
      if (held && !locked) throw new OldSnapshot();
      return held;
    });
  }

  forceRelease(key: string, options?: CallOptions): Promise<boolean> {
    return this.#session.run('forceRelease', key, options, async ({ statements }, query) => {
      return changed(await query(statements.forceRelease(key))) > 0;
    });
  }

  async purge(request: { readonly idleMs: number }, options?: CallOptions): Promise<number> {
    for (let gone = 0; ; ) {
      const page = await this.#session.run('purge', undefined, options, async ({ statements }, query) =>
        changed(await query(statements.purge(request.idleMs, PAGE))),
      );
      gone += page;
      if (page < PAGE) return gone;
    }
  }

  async close(): Promise<void> {
    this.#session.close();
  }
}

async function attempt(
  { statements }: Layout,
  query: Query,
  request: AcquireRequest,
): Promise<AcquireResult> {
  const answer = await ask(query, statements.acquire(request));
  if (answer === undefined) return { ok: false, reason: 'held' };
  const [token, waited, , , slot] = answer;
  if (token === null) return refusal(answer);
  // A lease that is over by now is not told as a refusal: the grant is there, and is given back.
  const leftMs = Math.max(1, request.leaseMs - Math.floor(waited));
  return { ok: true, token, leftMs, ...(slot !== null && { slot }) };
}

/** A refusal, if a read shows that there will be one; it decides nothing else. */
async function look(
  { statements }: Layout,
  query: Query,
  request: AcquireRequest,
): Promise<AcquireResult | undefined> {
  const answer = await ask(query, statements.look(request));
  if (answer === undefined) return { ok: false, reason: 'held' };
  const [, , left, slotRefused] = answer;
  return slotRefused || (left ?? 0) > 0 ? refusal(answer) : undefined;
}

/** Undefined if somebody is taking the key at this moment, or keeps the table locked. */
async function ask(query: Query, call: Call): Promise<Attempt | undefined> {
  try {
    return (await query<Attempt>(call))[0];
  } catch (error) {
    if (isGivenWay(error) || isLockedByOthers(error)) return undefined;
    throw error;
  }
}

/** What a statement answers that says how many rows it changed. */
function changed([count]: readonly unknown[]): number {
  return count as number;
}

function refusal([, , left, slotRefused]: Attempt): AcquireResult {
  const leftMs = left !== null && left > 0 ? left : undefined;
  return { ok: false, reason: slotRefused ? 'slot' : 'held', ...(leftMs !== undefined && { leftMs }) };
}

/** A table of an earlier time may be narrower; what does not fit is never cut. */
function checkFits({ key, owner, slot, oncePerMs }: AcquireRequest, table: Table): void {
  const { keyMax, ownerMax } = table;
  const column = (name: string): string =>
    `the column ${JSON.stringify(name)} of table ${JSON.stringify(table.names.shown)}`;
  if (keyMax !== undefined && [...key].length > keyMax) {
    throw new LockOptionsError(
      `The key ${JSON.stringify(key)} has ${[...key].length} characters, and ${column(table.names.columns.name)} ` +
        `holds ${keyMax}. Make it longer (alter table … alter column … type varchar(512)), or shorten the key.`,
      { key },
    );
  }
  // One character is for the mark of a release.
  if (ownerMax !== undefined && owner.length >= ownerMax) {
    throw new LockOptionsError(
      `The owner id has ${owner.length} characters, and ${column(table.names.columns.lockedBy)} holds ` +
        `${ownerMax}, one of them for a mark. Make it a varchar(255), as ShedLock has it.`,
      { key },
    );
  }
  if ((slot !== undefined || oncePerMs !== undefined) && !table.hasSlot) throw noSlots(key, table);
}

function noSlots(key: string, { names }: Table): LockOptionsError {
  return new LockOptionsError(
    `A slot was asked for with ${JSON.stringify(key)}, and table ${JSON.stringify(names.shown)} has no column ` +
      `${JSON.stringify(names.columns.slot)} for it. Add it with the command \`joblatch migrate\` or the function ` +
      '`migratePostgres()`; Java goes on to use the table as before.',
    { key },
  );
}
