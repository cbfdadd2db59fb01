import { abandonable } from '../../provider/abandoning.js';
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
import type { Runtime } from '../../provider/runtime.js';
import { type RecordRow, toRecord } from '../sql/records.js';
import { withinTime } from '../sql/within-time.js';
import type { Reply } from './client.js';
import { isGivenWay, isTakenByOthers, OpenTransaction } from './errors.js';
import { guardInside, insideOf } from './guard.js';
import { checkOptions, type MysqlProviderOptions, type Settings } from './options.js';
import type { Query, Table } from './schema.js';
import { type Layout, Session } from './session.js';
import { unhex } from './statement.js';
import { asksForSlot, type Checked, LAST_TIMESTAMP_MS, PAGE, type Seen } from './statements.js';

/**
 * Locks in a table of a MariaDB (10.6 or later) or MySQL (8.0.17 or later) database, or in one that Java's ShedLock
 * made. Nothing is contacted before first use. The clock is the server's.
 *
 * Every call is one or two statements, each in a transaction of its own. With a `pool` it never joins a transaction of
 * the application; a connection that has one open, or that has autocommit off, is refused. A `connection` does not
 * reconnect, and is for joblatch alone: give a pool where there is one.
 *
 * @throws LockOptionsError for options that can not be right
 */
export function mysqlProvider(options: MysqlProviderOptions): LockProvider {
  return new MysqlProvider(checkOptions(options));
}

/** For a connection of ours, of which the application may have taken all: then the guard goes on without the look. */
const LOOK_MS = 500;

class MysqlProvider implements LockProvider {
  readonly name = 'mysql';
  readonly #session: Session;
  readonly #runtime: Runtime;

  constructor(settings: Settings) {
    this.#session = new Session(settings);
    this.#runtime = settings.runtime;
  }

  abilities(options?: CallOptions): Promise<ProviderAbilities> {
    return this.#session.run('connect', undefined, options, async ({ table }) => ({
      multiProcess: true,
      serverClock: true,
      fencing: table.hasToken,
      slots: table.hasSlot,
      inspect: true,
    }));
  }

  acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult> {
    return this.#session.run('acquire', request.key, options, async (layout, query, signal) => {
      checkFits(request, layout.table, this.#runtime.wall());
      // A free key may be locked for a moment, even by somebody who wants a key beside it: InnoDB locks gaps too.
      const result = await this.#session.retry(signal, () => attempt(layout, query, request));
      return result ?? { ok: false, reason: 'held' };
    });
  }

  async renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]> {
    const answers: RenewResult[] = [];
    const key = requests.length === 1 ? requests[0]?.key : undefined;
    for (let start = 0; start < requests.length; start += PAGE) {
      const chunk = requests.slice(start, start + PAGE);
      try {
        answers.push(
          ...(await this.#session.run('renew', key, options, (layout, query) => renew(layout, query, chunk))),
        );
      } catch (error) {
        if (start === 0) throw error;
        // What is known of the others is worth more than the error; these are asked for again.
        answers.push(...chunk.map(() => 'unknown' as const));
      }
    }
    return answers;
  }

  release(request: ReleaseRequest, options?: CallOptions): Promise<boolean> {
    const { key, slot } = request;
    return this.#session.run('release', key, options, async ({ table, statements }, query) => {
      if (slot !== undefined && !table.hasSlot) throw noSlots(key, table);
      const { changed } = await query(statements.release(request));
      if (changed === 0) await expectAlone(query, statements);
      return changed > 0;
    });
  }

  async inspect(request: InspectRequest, options?: CallOptions): Promise<readonly LockRecord[]> {
    const { key, limit = Number.POSITIVE_INFINITY } = request;
    const found: LockRecord[] = [];
    while (found.length < limit) {
      const { rows } = await this.#session.run('inspect', key, options, ({ statements }, query) =>
        query(statements.inspect(key, found.at(-1)?.key)),
      );
      for (const row of rows) found.push(recordOf(JSON.parse(row) as RecordRow));
      if (key !== undefined || rows.length < PAGE) break;
    }
    return found.slice(0, limit);
  }

  forceRelease(key: string, options?: CallOptions): Promise<boolean> {
    return this.#session.run('forceRelease', key, options, async ({ statements }, query) => {
      const { changed } = await query(statements.forceRelease(key));
      if (changed === 0) await expectAlone(query, statements);
      return changed > 0;
    });
  }

  async purge({ idleMs }: { readonly idleMs: number }, options?: CallOptions): Promise<number> {
    for (let gone = 0; ; ) {
      const { found, purged } = await this.#session.run(
        'purge',
        undefined,
        options,
        async ({ statements }, query) => {
          const { rows } = await query(statements.idle(idleMs));
          if (rows.length === 0) return { found: 0, purged: 0 };
          const purged = await purgeSome(query, statements, rows, idleMs);
          if (purged === 0) await expectAlone(query, statements);
          return { found: rows.length, purged };
        },
      );
      gone += purged;
      // What somebody has locked stays, and would be found again.
      if (found < PAGE || purged === 0) return gone;
    }
  }

  guard(request: GuardRequest, transaction: object, options?: CallOptions): Promise<boolean> {
    return this.#session.run('guard', request.key, options, async ({ statements }, query, signal) => {
      const connection = insideOf(transaction);
      // Who looks for what is not there locks the gap where it would be, and keeps out others until the end.
      const limits = { runtime: this.#runtime, timeoutMs: LOOK_MS };
      const look = withinTime(undefined, limits, (limit) =>
        abandonable(query(statements.isThere(request)), limit),
      );
      // If it fails, the statement in the transaction will tell.
      const seen = await look.catch(() => undefined);
      if (seen?.rows.length === 0) return false;
      return abandonable(guardInside(connection, statements, request, this.#runtime), signal);
    });
  }

  async close(): Promise<void> {
    this.#session.close();
  }
}

/** Undefined if the key was free, and could not be taken all the same. */
async function attempt(
  layout: Layout,
  query: Query,
  request: AcquireRequest,
): Promise<AcquireResult | undefined> {
  try {
    const seen = await look(layout, query, request);
    const refused = refusal(seen);
    if (refused) return refused;
    const { changed, insertId: token } = await take(layout, query, request, seen);
    return changed > 0 ? granted(request, seen, token) : undefined;
  } catch (error) {
    if (isTakenByOthers(error) || isGivenWay(error)) return undefined;
    throw error;
  }
}

async function look({ table, statements }: Layout, query: Query, request: AcquireRequest): Promise<Seen> {
  const { rows } = await query(statements.look(request));
  const seen = JSON.parse(rows[0] as string) as Seen;
  const [alone, , , , keyDigits] = seen;
  if (!alone) throw new OpenTransaction();
  const stored = keyDigits === null ? undefined : unhex(keyDigits);
  if (stored === undefined || stored === request.key) return seen;
  throw new LockOptionsError(
    `The key ${JSON.stringify(request.key)} falls together with ${JSON.stringify(stored)}: table ` +
      `${JSON.stringify(table.names.shown)} compares them by the collation ${table.key.collation}, which takes them for one. ` +
      `Use another key, or make the column compare byte for byte (collate ${table.dialect.collation}).`,
    { key: request.key },
  );
}

function refusal([, left, slotRefused]: Seen): AcquireResult | undefined {
  const leftMs = left !== null && left > 0 ? left : undefined;
  if (!slotRefused && leftMs === undefined) return undefined;
  return { ok: false, reason: slotRefused ? 'slot' : 'held', ...(leftMs !== undefined && { leftMs }) };
}

function take({ statements }: Layout, query: Query, request: AcquireRequest, seen: Seen): Promise<Reply> {
  const [, , , , keyDigits] = seen;
  return query(keyDigits === null ? statements.make(request, seen) : statements.take(request, seen));
}

function granted({ leaseMs }: AcquireRequest, [, , , slot]: Seen, token: number): AcquireResult {
  return { ok: true, token, leftMs: leaseMs, ...(slot !== null && { slot }) };
}

async function renew(
  { statements }: Layout,
  query: Query,
  requests: readonly RenewRequest[],
): Promise<readonly RenewResult[]> {
  const distinct = new Set(requests.map(({ key, owner }) => JSON.stringify([key, owner]))).size;
  const reply = await orNothing(query(statements.renewMany(requests)));
  // A row that is inserted over one that is there, and changes it, counts twice.
  const all = reply.changed === 2 * requests.length && distinct === requests.length;
  if (all) return requests.map(() => 'ok');
  await expectAlone(query, statements);
  const answers: (RenewResult | undefined)[] = requests.map(() => undefined);
  for (const row of (await query(statements.checkRenewed(requests, reply.insertId))).rows) {
    const [index, live, renewed] = JSON.parse(row) as Checked;
    answers[index] = !live ? 'lost' : renewed && reply.insertId > 0 ? 'ok' : 'unknown';
  }
  if (answers.includes(undefined)) {
    // Somebody else has these locked; who is not among them has lost it.
    for (const row of (await query(statements.stillThere(requests))).rows) {
      const [index] = JSON.parse(row) as readonly [number];
      answers[index] ??= 'unknown';
    }
  }
  return answers.map((answer) => answer ?? 'lost');
}

/** A record that a guard keeps spoils the statement for all: then half of them each, until it is alone. */
async function purgeSome(
  query: Query,
  statements: Layout['statements'],
  keys: readonly string[],
  idleMs: number,
): Promise<number> {
  try {
    return (await query(statements.purge(keys, idleMs))).changed;
  } catch (error) {
    if (!isTakenByOthers(error)) throw error;
    if (keys.length === 1) return 0;
    const half = Math.ceil(keys.length / 2);
    return (
      (await purgeSome(query, statements, keys.slice(0, half), idleMs)) +
      (await purgeSome(query, statements, keys.slice(half), idleMs))
    );
  }
}

/** As if it had changed nothing, if it had to give way: then nothing was. */
async function orNothing(reply: Promise<Reply>): Promise<Reply> {
  try {
    return await reply;
  } catch (error) {
    if (isTakenByOthers(error) || isGivenWay(error)) return { rows: [], changed: 0, insertId: 0 };
    throw error;
  }
}

/** Nothing was changed: because there was nothing to change, or because the connection is not for us. */
async function expectAlone(query: Query, { alone }: Layout['statements']): Promise<void> {
  const { rows } = await query(alone);
  const [isAlone] = JSON.parse(rows[0] as string) as readonly [unknown];
  if (!isAlone) throw new OpenTransaction();
}

/** ShedLock's table is narrower; what does not fit is never cut. */
function checkFits(request: AcquireRequest, table: Table, now: number): void {
  const { key, owner } = request;
  const column = (name: string): string =>
    `the column ${JSON.stringify(name)} of table ${JSON.stringify(table.names.shown)}`;
  const length = table.key.charset === undefined ? Buffer.byteLength(key) : [...key].length;
  if (length > table.key.max) {
    throw new LockOptionsError(
      `The key ${JSON.stringify(key)} has ${length} characters, and ${column(table.names.columns.name)} holds ` +
        `${table.key.max}. Make it longer (alter table … modify … varchar(512)), or shorten the key.`,
      { key },
    );
  }
  const { charset } = table.key;
  if (charset !== undefined && !(FITTING[charset] ?? ASCII).test(key)) {
    throw new LockOptionsError(
      `The key ${JSON.stringify(key)} has a character that may not fit into ${column(table.names.columns.name)}, which is in ` +
        `${charset}. Make it utf8mb4, or use other keys.`,
      { key },
    );
  }
  // By this host's clock: it is a day before the end.
  if (table.inSessionZone && now + request.leaseMs > LAST_TIMESTAMP_MS) {
    throw new LockOptionsError(
      `The lease of ${JSON.stringify(key)} would end after January 18, 2038, which ${column(table.names.columns.lockUntil)} can not hold: ` +
        'it is a TIMESTAMP. Make it DATETIME(6), or the lease shorter.',
      { key },
    );
  }
  // One character is for the mark of a release.
  if (owner.length >= table.owner.max) {
    throw new LockOptionsError(
      `The owner id has ${owner.length} characters, and ${column(table.names.columns.lockedBy)} holds ` +
        `${table.owner.max}, one of them for a mark. Make it a varchar(255), as ShedLock has it.`,
      { key },
    );
  }
  if (asksForSlot(request) && !table.hasSlot) throw noSlots(key, table);
}

/** What a character set has. Of the many small ones we only rely on what they all have. */
const FITTING: Readonly<Record<string, RegExp>> = {
  utf8mb4: /^/,
  utf8mb3: /^[^\u{10000}-\u{10FFFF}]*$/u,
  utf8: /^[^\u{10000}-\u{10FFFF}]*$/u,
};
const ASCII = /^[ -~]*$/;

function noSlots(key: string, { names }: Table): LockOptionsError {
  return new LockOptionsError(
    `A slot was asked for with ${JSON.stringify(key)}, and table ${JSON.stringify(names.shown)} has no column ` +
      `${JSON.stringify(names.columns.slot)} for it. Add it with the command \`joblatch migrate\` or the function ` +
      '`migrateMysql()`; Java goes on to use the table as before.',
    { key },
  );
}

function recordOf({ key, owner, ...row }: RecordRow): LockRecord {
  return toRecord({ ...row, key: unhex(key), owner: unhex(owner ?? '') });
}
