import type {
  AcquireRequest,
  GuardRequest,
  ReleaseRequest,
  RenewRequest,
} from '../../provider/lock-provider.js';
import { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { RELEASED_MARK } from '../../provider/released-owner.js';
import type { RecordRow } from '../sql/records.js';
import { ALONE, gate, PROBED, READY } from './gate.js';
import { quote } from './quote.js';
import type { Table } from './schema.js';
import { type Call, call, statement } from './statement.js';

/*
 * Why these statements are right.
 *
 * One instant a statement. `statement_timestamp()` is read by the server when it is told to execute, and does not
 * change any more. `now()` would be the start of the transaction, which begins with what comes before (to parse,
 * to bind, perhaps a round trip earlier); and a clock that is read anew for each comparison (`clock_timestamp()`) could call a lease over in one
 * clause and running in the next. While a statement waits, its instant grows old. That is the safe side: of
 * an old instant more leases are still running, and the lease that we write ends a little early, while the
 * holder counts from before it sent the request. And we hardly wait: rows that somebody has locked are skipped,
 * and `lock_timeout` ends what is left (somebody's uncommitted insert of the same key); see gate.ts.
 *
 * What others do meanwhile. A statement sees what was committed when it began, its snapshot. Under READ COMMITTED a
 * row that was changed since is looked at again when it is locked or updated: PostgreSQL takes the newest version
 * and asks the conditions on that row once more (EvalPlanQual). So every condition that must hold is asked of
 * the row itself, in the step that locks it; and what is written is computed from that version. Under REPEATABLE
 * READ and SERIALIZABLE the same case is an error instead, and the statement is tried again.
 *
 * Parts of one statement. All its CTEs see one snapshot, and none sees what another one writes. So `taken` (a row
 * was there) and `made` (none was) can not both act on a key: what `made` misses in the snapshot, `taken` missed
 * too. Two callers may both miss it; then the unique index lets one insert, and `on conflict do nothing` refuses
 * the other. And the last select shows a record as it was before.
 *
 * Locks. A take-over locks its row FOR UPDATE SKIP LOCKED. A renewal changes no key column, so it takes the
 * weaker FOR NO KEY UPDATE. A transaction that holds the row FOR KEY SHARE keeps take-overs out (they skip
 * the row, and are refused), and lets renewals pass: so does a guard, in a transaction of the application. Losers
 * lock nothing and write nothing: the condition is asked before the lock, and of a held key it is false.
 *
 * Guards. FOR KEY SHARE also locks the versions that came after the one in the snapshot, but it answers the one in the snapshot,
 * unless a take-over was among them: then that version is looked at (READ COMMITTED), or it is an error. So after the
 * lock an end that is still to come is proof enough: nobody takes the key before it, and nobody after the lock. An end
 * that has passed is the truth only of the newest version. READ COMMITTED has that, since its snapshot is of now. Of a
 * snapshot as old as the transaction it is known if `xmax` is 0, so that nobody has changed or locked the row
 * since; else somebody with a fresh snapshot has to look, which can be done after the lock was had.
 *
 * Values are bound as texts and cast here. Every client sends a text as it is; and of a number, a list or a JSON value
 * each has its own idea, or what the application has told it. (`varchar`, since one may have been told of `text` too.)
 */

/** How long an attempt may wait for what can not be skipped: about as long as a commit takes on a slow disk. */
const WAIT_MS = 50;
/** How long a release waits for somebody who has its record locked: it has no second chance but a retry. */
const RELEASE_WAIT_MS = 1_000;

const text = (place: number): string => `$${place}::varchar`;
const int = (place: number): string => `$${place}::varchar::bigint`;

/** The instant of the statement, in microseconds since 1970: a double has them all till the year 2100. */
const NOW_US = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint";
const NOW_MS = `(${NOW_US} / 1000)`;
/**
 * Tokens come from a clock that is read when they are made, after the snapshot was taken: so they pass the token of
 * a record that was purged between our instant and our snapshot.
 */
const CLOCK_US = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";

/** An instant that a person set to infinity must still fit into JSON. */
const FAR_S = '1e11';

const IDLE_TIMEOUT = 'idle_in_transaction_session_timeout';
/** How long who may have to roll back can take for it before the server does. */
const ROLLBACK_MS = 1_000;
/** The longest time-out that the server knows. */
const TIMEOUT_MAX_MS = 2 ** 31 - 1;
/** Whole milliseconds; and 0 would be for ever. */
const timeout = (ms: number): number => Math.min(TIMEOUT_MAX_MS, Math.max(1, Math.ceil(ms)));
/** The time-out that was set, which the server shows as '0' or like '90s', or `ms` if that is shorter. */
const shorter = (setting: string, ms: string): string =>
  `least(nullif((extract(epoch from ${setting}::interval) * 1000)::bigint, 0), ${ms})::text`;

/** Each statement has a snapshot of its own; otherwise all of a transaction share one. */
const SNAPSHOT_IS_NEW =
  "(current_setting('transaction_isolation') in ('read committed', 'read uncommitted'))";

export type Attempt = readonly [
  /** Null if refused. */
  token: number | null,
  /** How long the statement took until it was granted. */
  waited: number,
  /** Of the record before; null if there was none. */
  left: number | null,
  slotRefused: boolean,
  slot: number | null,
];

export type Guarding = readonly [
  /** The transaction was open before; known only where the mark of it was set. */
  open: boolean,
  /** The row is locked until the end of the transaction. */
  locked: boolean,
  /** By the version of the row in the snapshot, the grant is live. */
  live: boolean,
  /** That version is the newest one. */
  sure: boolean,
];

/** The statements for one table. Each answers rows of one text with JSON in it. */
export interface Statements {
  /** → one {@link Attempt}. */
  acquire(request: AcquireRequest): Call;
  /** → one {@link Attempt} that takes nothing: a plain read, which costs the server a fraction. */
  look(request: AcquireRequest): Call;
  /** → `[index of the request, renewed, still shown as ours]` for each request. */
  renewMany(requests: readonly RenewRequest[]): Call;
  /** → 1 if the grant was live, else 0. */
  release(request: ReleaseRequest): Call;
  /** In a transaction of the application → one {@link Guarding}. */
  guard(request: GuardRequest, waitMs: number): Call;
  /** → {@link RecordRow}s. */
  inspect(request: {
    readonly key?: string | undefined;
    readonly after: string;
    readonly limit: number;
  }): Call;
  /** → 1 if the key was not free, else 0. */
  forceRelease(key: string): Call;
  /** → how many records are gone. */
  purge(idleMs: number, limit: number): Call;
}

export function statementsFor({ names, hasToken, hasSlot, ownerMax }: Table): Statements {
  const table = names.quoted;
  const key = quote(names.columns.name);
  const until = quote(names.columns.lockUntil);
  const at = quote(names.columns.lockedAt);
  const by = quote(names.columns.lockedBy);
  const token = quote(names.columns.fencingToken);
  const slot = quote(names.columns.slot);
  /** Part of a statement for a table that has the column. */
  const ifToken = (sql: string): string => (hasToken ? sql : '');
  const ifSlot = (sql: string): string => (hasSlot ? sql : '');

  /**
   * The statement's instant as a value of a column's own type. 'epoch' is 1970 in UTC in a column with a time zone,
   * and 1970 on the wall clock in one without, which ShedLock writes in UTC; an interval without days takes
   * no notice of zones. So one statement serves both types, in whatever zone the session is, even when the type
   * of the column is changed later.
   */
  const instant = (column: string, microseconds: string): string =>
    `(coalesce((null::${table}).${column}, 'epoch') + ${microseconds} * interval '1 microsecond')`;
  const now = (column: string): string => instant(column, NOW_US);
  const millis = (ms: string): string => `${ms} * interval '1 millisecond'`;

  /** How many milliseconds an instant of row `t` lies ahead; null without one (`least` would pass over a null). */
  const ahead = (column: string): string =>
    `case when t.${column} is not null then ceil(
    greatest(-${FAR_S}, least(${FAR_S}, extract(epoch from t.${column}))) * 1000 - ${NOW_US} / 1000.0)::bigint end`;

  /** The end of a release: whole milliseconds, so that a column with three digits does not round it up. */
  const released = `greatest(date_trunc('milliseconds', ${now(until)}), coalesce(t.${at}, 'epoch'))`;

  /** An owner of somebody else's may fill the column. */
  const marked =
    ownerMax === undefined
      ? `'${RELEASED_MARK}' || t.${by}`
      : `left('${RELEASED_MARK}' || t.${by}, ${ownerMax})`;

  /** The slot that is asked for, named or by the period. */
  const slotAsked = (named: number, period: number): string =>
    `coalesce(${int(named)}, ${NOW_MS} / ${int(period)} * ${int(period)})`;
  /** Stale, or too far ahead. */
  const outOfRange = (asked: string): string =>
    `(${asked} <= ${NOW_MS} - ${SLOT_MEMORY_MS} or ${asked} > ${NOW_MS} + ${SLOT_AHEAD_MS})`;

  /** What an attempt answers: of the record as it was before, if there was one. */
  const answer = (granted: string, waited: string, asked: string | undefined, condition: string): string =>
    `select json_build_array(${granted}, ${waited}, ${ahead(until)},
  ${asked ? `coalesce(t.${slot} >= ${asked}, false) or ${outOfRange(asked)}` : 'false'}, ${asked ?? 'null'})::text
from (select) as always left join ${table} t on t.${key} = ${text(1)} where ${condition}`;

  /** Two texts: what is said of slots is a third of the work, and most attempts ask for none. */
  const acquire = (withSlot: boolean): string => {
    const [wanted, owner, lease, least] = [text(1), text(2), int(3), int(4)];
    const asked = slotAsked(5, 6);
    const recorded = `case when $7::varchar = 'true' then ${asked} end`;
    const ifSlot = (sql: string): string => (withSlot ? sql : '');
    const end = `${now(until)} + ${millis(lease)}`;
    const firstToken = `greatest(${CLOCK_US}, ${least})`;
    const nextToken = hasToken ? `greatest(coalesce(t.${token}, 0) + 1, ${CLOCK_US}, ${least})` : firstToken;
    return `with ${gate(WAIT_MS)},
free as (
  select x.${key} from ${table} x
  where x.${key} = ${wanted} and coalesce(x.${until} <= ${now(until)}, true) and ${READY}
    ${ifSlot(`and coalesce(x.${slot} < ${asked}, true) and not ${outOfRange(asked)}`)}
  for update skip locked),
taken as (
  update ${table} t set ${until} = ${end}, ${at} = ${now(at)}, ${by} = ${owner}
    ${ifToken(`, ${token} = ${nextToken}`)} ${ifSlot(`, ${slot} = greatest(t.${slot}, ${recorded})`)}
  where t.${key} = (select f.${key} from free f)
  returning ${hasToken ? `t.${token}` : nextToken} as token),
made as (
  insert into ${table} (${key}, ${until}, ${at}, ${by} ${ifToken(`, ${token}`)} ${ifSlot(`, ${slot}`)})
  select ${wanted}, ${end}, ${now(at)}, ${owner} ${ifToken(`, ${firstToken}`)} ${ifSlot(`, ${recorded}`)}
  where not exists (select from ${table} x where x.${key} = ${wanted}) and ${READY}
    ${ifSlot(`and not ${outOfRange(asked)}`)}
  on conflict (${key}) do nothing
  returning ${hasToken ? token : firstToken} as token)
${answer(
  '(select coalesce((select token from taken), (select token from made)))',
  'ceil(extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::bigint',
  withSlot ? asked : undefined,
  READY,
)}`;
  };

  // `ours` locks the rows first, also those that are over by the snapshot: then what the update finds is final. Who
  // has no lock on his row may have been renewed meanwhile, so he is not told that it is lost.
  const renewMany = (): string => `with ${gate(WAIT_MS)},
asked as (
  select * from json_to_recordset(${text(1)}::json) as a(i int, key text, owner text, lease bigint, at_least bigint)
  where ${READY}),
wanted as (
  select key, owner, max(lease) as lease, max(at_least) as at_least from asked group by key, owner),
ours as (
  select x.${key} as key from ${table} x join wanted w on x.${key} = w.key and x.${by} = w.owner
  for no key update of x skip locked),
renewed as (
  update ${table} t
  set ${until} = greatest(t.${until}, ${now(until)} + ${millis('w.lease')}, t.${at} + ${millis('w.at_least')})
  from wanted w join ours o on o.key = w.key
  where t.${key} = w.key and t.${by} = w.owner and t.${until} > ${now(until)}
  returning w.key, w.owner)
select json_build_array(a.i, r.key is not null, o.key is null and t.${key} is not null)::text
from asked a
left join renewed r on r.key = a.key and r.owner = a.owner
left join ours o on o.key = a.key
left join ${table} t on t.${key} = a.key and t.${by} = a.owner`;

  /** A statement that changes rows, and answers how many. */
  const counted = (change: string, relaxed?: string): string => `with ${gate(RELEASE_WAIT_MS, relaxed)},
changed as (
${change}
returning 1)
select count(*)::text from changed having ${READY}`;

  // A release that a crash of the server forgets only frees the key later; a slot must not be forgotten.
  const release = (): string =>
    counted(
      `update ${table} t
set ${until} = greatest(${released}, t.${at} + ${millis(int(3))}), ${by} = '${RELEASED_MARK}' || t.${by}
  ${ifSlot(`, ${slot} = greatest(t.${slot}, ${int(4)})`)}
where t.${key} = ${text(1)} and t.${by} = ${text(2)} and t.${until} > ${now(until)} and ${READY}`,
      hasSlot ? '$4::varchar is null' : 'true',
    );

  const forceRelease = (): string =>
    counted(`update ${table} t
set ${until} = ${released}, ${by} = case when t.${by} like '${RELEASED_MARK}%' then t.${by} else ${marked} end
  ${ifToken(`, ${token} = greatest(coalesce(t.${token}, 0) + 1, ${CLOCK_US})`)}
where t.${key} = ${text(1)} and t.${until} > ${now(until)} and ${READY}`);

  const purge = (): string =>
    counted(`delete from ${table} where ${key} in (
  select t.${key} from ${table} t
  where coalesce(t.${until} < ${now(until)} - ${millis(int(1))}, true) and ${READY}
    ${ifSlot(`and coalesce(t.${slot} <= ${NOW_MS} - ${SLOT_MEMORY_MS}, true)`)}
    ${ifToken(`and coalesce(t.${token} < ${NOW_US}, true)`)}
  limit ${int(2)} for update skip locked)`);

  // The transaction is the application's: the wait is bounded for this statement only, and how long the transaction may sit
  // idle with the key is never made longer. If the statement fails, the server takes both back by itself.
  const guard = (): string => {
    const [wanted, owner, wait, left] = [text(1), text(2), int(3), int(4)];
    const clock = instant(until, CLOCK_US);
    const waited = 'floor(extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::bigint';
    // Whose lease has passed by an old snapshot must be able to roll back, or to learn that it was renewed.
    const patience = `greatest(case when o.until > ${clock} then 1 else ${ROLLBACK_MS} end, ${left} - ${waited})`;
    return `with before as materialized (
  select current_setting('lock_timeout') as wait, current_setting('${IDLE_TIMEOUT}') as idle),
bounded as materialized (
  select set_config('lock_timeout', ${shorter('wait', wait)}, true) is not null as ready from before),
ours as materialized (
  select x.${until} as until, x.xmax::text = '0' as untouched from ${table} x
  where x.${key} = ${wanted} and x.${by} = ${owner} and (select ready from bounded)
    and (x.${until} > ${clock} or not ${SNAPSHOT_IS_NEW})
  for key share)
select json_build_array(${PROBED}, o.until is not null, coalesce(o.until > ${clock}, false),
  ${SNAPSHOT_IS_NEW} or coalesce(o.untouched, false),
  set_config('lock_timeout', b.wait, true),
  case when o.until is not null then set_config('${IDLE_TIMEOUT}', ${shorter('b.idle', patience)}, true) end)::text
from before b left join ours o on true`;
  };

  const inspect = (condition: string): string =>
    `select json_build_object('key', t.${key}, 'owner', t.${by}, 'left', ${ahead(until)}, 'ago', -(${ahead(at)}),
  'token', ${hasToken ? `t.${token}` : 'null'}, 'slot', ${hasSlot ? `t.${slot}` : 'null'})::text
from ${table} t
where ${condition}
order by t.${key} collate "C" limit ${int(2)}`;

  const texts = {
    acquire: statement(acquire(false)),
    acquireSlot: statement(acquire(true)),
    look: statement(answer('null', '0', undefined, ALONE)),
    lookSlot: statement(answer('null', '0', slotAsked(2, 3), ALONE)),
    renewMany: statement(renewMany()),
    release: statement(release()),
    forceRelease: statement(forceRelease()),
    purge: statement(purge()),
    guard: statement(guard()),
    one: statement(inspect(`t.${key} = ${text(1)}`), { answers: false }),
    page: statement(inspect(`t.${key} collate "C" > ${text(1)}`), { answers: false }),
  };
  return {
    acquire: ({ key: wanted, owner, leaseMs, minToken = 0, slot: named, oncePerMs, claim }) => {
      const values = [wanted, owner, leaseMs, minToken];
      return named === undefined && oncePerMs === undefined
        ? call(texts.acquire, ...values)
        : call(texts.acquireSlot, ...values, named, oncePerMs, claim !== 'release');
    },
    look: ({ key: wanted, slot: named, oncePerMs }) =>
      named === undefined && oncePerMs === undefined
        ? call(texts.look, wanted)
        : call(texts.lookSlot, wanted, named, oncePerMs),
    renewMany: (requests) => {
      const asked = requests.map(({ key: wanted, owner, leaseMs: lease, atLeastMs = 0 }, i) => ({
        i,
        key: wanted,
        owner,
        lease,
        at_least: atLeastMs,
      }));
      return call(texts.renewMany, JSON.stringify(asked));
    },
    release: ({ key: wanted, owner, keepMs = 0, slot: done }) =>
      call(texts.release, wanted, owner, keepMs, ...(hasSlot ? [done] : [])),
    forceRelease: (wanted) => call(texts.forceRelease, wanted),
    purge: (idleMs, limit) => call(texts.purge, idleMs, limit),
    guard: ({ key: wanted, owner, leftMs }, waitMs) =>
      call(texts.guard, wanted, owner, timeout(Math.min(leftMs, waitMs)), timeout(leftMs)),
    inspect: ({ key: wanted, after, limit }) =>
      wanted === undefined ? call(texts.page, after, limit) : call(texts.one, wanted, limit),
  };
}
