import type { AcquireRequest, ReleaseRequest, RenewRequest } from '../../provider/lock-provider.js';
import { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { RELEASED_MARK } from '../../provider/released-owner.js';
import type { Table } from './schema.js';
import { int, name, text } from './sql.js';

/*
 * Why these statements are right.
 *
 * One instant a statement. `statement_timestamp()` is read by the server when our message arrives and does not
 * change any more. `now()` would be the start of a transaction, which in one that the caller had open may be long
 * ago; and a clock that is read anew for each comparison (`clock_timestamp()`) could call a lease over in one
 * clause and running in the next. While a statement waits, its instant grows old. That is the safe side: of
 * an old instant more leases are still running, and the lease that we write ends a little early, while the
 * holder counts from before it sent the request. And we hardly wait: rows that somebody has locked are skipped,
 * and `lock_timeout` ends what is left (somebody's uncommitted insert of the same key, a lock on the table).
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
 * the row, and are refused), and lets renewals pass: with it a fencing guard can be built. Losers lock nothing and
 * write nothing: the condition is asked before the lock, and of a held key it is false.
 */

/** The instant of the statement, in microseconds since 1970. */
const NOW_US = '(extract(epoch from statement_timestamp()) * 1000000)::bigint';
const NOW_MS = `(${NOW_US} / 1000)`;
/**
 * Tokens come from a clock that is read when they are made, after the snapshot was taken: so they pass the token of
 * a record that was purged between our instant and our snapshot.
 */
const CLOCK_US = '(extract(epoch from clock_timestamp()) * 1000000)::bigint';

/** False in a transaction that was open before: what we write could be rolled back after we answered. */
const ALONE = 'now() = statement_timestamp()';

/** What the first statement answers in a transaction that was open before. */
export const OPEN_TRANSACTION = 'open transaction';

/**
 * Goes before each statement, in the same message and transaction: bounds how long that one may wait. The
 * settings are local to the transaction, so the session keeps its own; in a transaction of somebody else
 * nothing is set.
 */
export function prologue(waitMs: number, relaxed: boolean): string {
  const settings = [`set_config('lock_timeout', '${waitMs}', true)`];
  if (relaxed) settings.push("set_config('synchronous_commit', 'off', true)");
  return `select case when ${ALONE} then ${settings.join(' || ')} else '${OPEN_TRANSACTION}' end`;
}

/** An instant that a person set to infinity must still fit into JSON. */
const FAR_S = '1e11';

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

export interface RecordRow {
  readonly key: string;
  readonly owner: string | null;
  readonly token: number | null;
  readonly slot: number | null;
  readonly left: number | null;
  readonly ago: number | null;
}

/** The statements for one table. Each answers rows of one text with JSON in it, and is sent after a {@link prologue}. */
export interface Statements {
  /** → one {@link Attempt}. */
  acquire(request: AcquireRequest): string;
  /** → one {@link Attempt} that takes nothing: a plain read, whose plan costs the server a tenth. */
  look(request: AcquireRequest): string;
  /** → `[index of the request, renewed, still shown as ours]` for each request. */
  renewMany(requests: readonly RenewRequest[]): string;
  /** → a row if the grant was live. */
  release(request: ReleaseRequest): string;
  /** → {@link RecordRow}s. */
  inspect(request: {
    readonly key?: string | undefined;
    readonly after: string;
    readonly limit: number;
  }): string;
  /** → a row if the key was not free. */
  forceRelease(key: string): string;
  /** → a row for each record that is gone. */
  purge(idleMs: number, limit: number): string;
}

export function statementsFor({ names, hasToken, hasSlot, ownerMax }: Table): Statements {
  const table = names.quoted;
  const key = name(names.columns.name);
  const until = name(names.columns.lockUntil);
  const at = name(names.columns.lockedAt);
  const by = name(names.columns.lockedBy);
  const token = name(names.columns.fencingToken);
  const slot = name(names.columns.slot);

  /**
   * The statement's instant as a value of a column's own type. 'epoch' is 1970 in UTC in a column with a time zone,
   * and 1970 on the wall clock in one without, which ShedLock writes in UTC; an interval without days takes
   * no notice of zones. So one statement serves both types, in whatever zone the session is, even when the type
   * of the column is changed later.
   */
  const now = (column: string): string =>
    `(coalesce((null::${table}).${column}, 'epoch') + ${NOW_US} * interval '1 microsecond')`;
  const millis = (ms: string): string => `${ms} * interval '1 millisecond'`;

  /** How many milliseconds an instant of row `t` lies ahead; null without one (`least` would pass over a null). */
  const ahead = (column: string): string =>
    `case when t.${column} is not null then ceil(
    greatest(-${FAR_S}, least(${FAR_S}, extract(epoch from t.${column}))) * 1000 - ${NOW_US} / 1000.0) end`;

  /** The end of a release: whole milliseconds, so that a column with three digits does not round it up. */
  const released = `greatest(date_trunc('milliseconds', ${now(until)}), coalesce(t.${at}, 'epoch'))`;

  /** An owner of somebody else's may fill the column. */
  const marked =
    ownerMax === undefined
      ? `'${RELEASED_MARK}' || t.${by}`
      : `left('${RELEASED_MARK}' || t.${by}, ${ownerMax})`;

  const slotAsked = ({ slot: named, oncePerMs }: AcquireRequest): string | undefined => {
    if (oncePerMs !== undefined) return `(${NOW_MS} / ${int(oncePerMs)} * ${int(oncePerMs)})`;
    return named === undefined ? undefined : int(named);
  };

  /** Stale, or too far ahead. */
  const outOfRange = (asked: string): string =>
    `(${asked} <= ${NOW_MS} - ${SLOT_MEMORY_MS} or ${asked} > ${NOW_MS} + ${SLOT_AHEAD_MS})`;

  /** What an attempt answers: of the record as it was before, if there was one. */
  const answer = (granted: string, waited: string, wanted: string, asked: string | undefined): string =>
    `select json_build_array(${granted}, ${waited}, ${ahead(until)},
  ${asked ? `coalesce(t.${slot} >= ${asked}, false) or ${outOfRange(asked)}` : 'false'}, ${asked ?? 'null'})::text
from (select) as always left join ${table} t on t.${key} = ${wanted}`;

  return {
    acquire(request) {
      const wanted = text(request.key);
      const owner = text(request.owner);
      const lease = `${now(until)} + ${millis(int(request.leaseMs))}`;
      const asked = slotAsked(request);
      const bad = asked && outOfRange(asked);
      const recorded = request.claim === 'release' ? undefined : asked;
      const least = int(request.minToken ?? 0);
      const firstToken = `greatest(${CLOCK_US}, ${least})`;
      const nextToken = hasToken
        ? `greatest(coalesce(t.${token}, 0) + 1, ${CLOCK_US}, ${least})`
        : firstToken;
      return `with free as (
  select x.${key} from ${table} x
  where x.${key} = ${wanted} and coalesce(x.${until} <= ${now(until)}, true) and ${ALONE}
    ${asked ? `and coalesce(x.${slot} < ${asked}, true) and not ${bad}` : ''}
  for update skip locked),
taken as (
  update ${table} t set ${until} = ${lease}, ${at} = ${now(at)}, ${by} = ${owner}
    ${hasToken ? `, ${token} = ${nextToken}` : ''} ${recorded ? `, ${slot} = greatest(t.${slot}, ${recorded})` : ''}
  where t.${key} = (select f.${key} from free f)
  returning ${hasToken ? `t.${token}` : nextToken} as token),
made as (
  insert into ${table} (${key}, ${until}, ${at}, ${by} ${hasToken ? `, ${token}` : ''} ${recorded ? `, ${slot}` : ''})
  select ${wanted}, ${lease}, ${now(at)}, ${owner} ${hasToken ? `, ${firstToken}` : ''} ${recorded ? `, ${recorded}` : ''}
  where not exists (select from ${table} x where x.${key} = ${wanted}) and ${ALONE} ${asked ? `and not ${bad}` : ''}
  on conflict (${key}) do nothing
  returning ${hasToken ? token : firstToken} as token)
${answer(
  '(select coalesce((select token from taken), (select token from made)))',
  'ceil(extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)',
  wanted,
  asked,
)}`;
    },

    look(request) {
      return answer('null', '0', text(request.key), slotAsked(request));
    },

    // `ours` locks the rows first, also those that are over by the snapshot: then what the update finds is final. Who
    // has no lock on his row may have been renewed meanwhile, so he is not told that it is lost.
    renewMany(requests) {
      const values = requests.map(
        (r, i) => `(${i}, ${text(r.key)}, ${text(r.owner)}, ${int(r.leaseMs)}, ${int(r.atLeastMs ?? 0)})`,
      );
      return `with asked(i, key, owner, lease, at_least) as (values ${values.join(',\n')}),
wanted as (
  select key, owner, max(lease) as lease, max(at_least) as at_least from asked group by key, owner),
ours as (
  select x.${key} as key from ${table} x join wanted w on x.${key} = w.key and x.${by} = w.owner
  where ${ALONE}
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
    },

    release({ key: wanted, owner, keepMs = 0, slot: done }) {
      return `update ${table} t
set ${until} = greatest(${released}, t.${at} + ${millis(int(keepMs))}), ${by} = '${RELEASED_MARK}' || t.${by}
  ${done === undefined ? '' : `, ${slot} = greatest(t.${slot}, ${int(done)})`}
where t.${key} = ${text(wanted)} and t.${by} = ${text(owner)} and t.${until} > ${now(until)} and ${ALONE}
returning '1'`;
    },

    inspect({ key: wanted, after, limit }) {
      return `select json_build_object('key', t.${key}, 'owner', t.${by}, 'left', ${ahead(until)}, 'ago', -(${ahead(at)}),
  'token', ${hasToken ? `t.${token}` : 'null'}, 'slot', ${hasSlot ? `t.${slot}` : 'null'})::text
from ${table} t
where ${wanted === undefined ? `t.${key} collate "C" > ${text(after)}` : `t.${key} = ${text(wanted)}`}
order by t.${key} collate "C" limit ${int(limit)}`;
    },

    forceRelease(wanted) {
      return `update ${table} t
set ${until} = ${released}, ${by} = case when t.${by} like '${RELEASED_MARK}%' then t.${by} else ${marked} end
  ${hasToken ? `, ${token} = greatest(coalesce(t.${token}, 0) + 1, ${CLOCK_US})` : ''}
where t.${key} = ${text(wanted)} and t.${until} > ${now(until)} and ${ALONE}
returning '1'`;
    },

    purge(idleMs, limit) {
      return `delete from ${table} where ${key} in (
  select t.${key} from ${table} t
  where coalesce(t.${until} < ${now(until)} - ${millis(int(idleMs))}, true) and ${ALONE}
    ${hasSlot ? `and coalesce(t.${slot} <= ${NOW_MS} - ${SLOT_MEMORY_MS}, true)` : ''}
    ${hasToken ? `and coalesce(t.${token} < ${NOW_US}, true)` : ''}
  limit ${int(limit)} for update skip locked)
returning '1'`;
    },
  };
}
