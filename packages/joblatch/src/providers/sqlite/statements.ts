import { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { RELEASED_MARK } from '../../provider/released-owner.js';
import type { RecordRow } from '../sql/records.js';

/**
 * The one clock of these statements: SQLite's own reading of the host's clock, in whole milliseconds.
 *
 * SQLite reads it when a step of a statement first asks, and keeps it for that step. We write in transactions
 * that have the write lock before the statement starts, so the time that was waited for the lock is not taken
 * off the lease, and what is compared is neither older nor newer than what is written. (The same holds for a
 * statement by itself: `explain` shows the opcode Transaction before any call of unixepoch.)
 */
const NOW = "cast(round(unixepoch('subsec') * 1000) as integer)";

/** What is bound for a number that was not given. */
export const ABSENT = '';
const OPTIONAL = `cast(nullif(?, '${ABSENT}') as integer)`;

/**
 * What was asked of a key, and the instant at which it is decided. Parameters: key, slot, period; each bound
 * once and cast, since better-sqlite3 binds every number as REAL.
 */
const REQUEST = `asked(key, slot, period) as (select ?, ${OPTIONAL}, ${OPTIONAL}),
  request(key, now, slot) as (select key, ${NOW}, coalesce(slot, ${NOW} / period * period) from asked)`;

/** Whether the slot of request `r` is taken in record `t`, stale or too far ahead. Null without a slot. */
const SLOT_REFUSED = `(r.slot <= t.slot or r.slot <= r.now - ${SLOT_MEMORY_MS} or r.slot > r.now + ${SLOT_AHEAD_MS})`;

/** `max` of two values, of which either may be null. */
const later = (a: string, b: string): string => `coalesce(max(${a}, ${b}), ${a}, ${b})`;

/**
 * The statements for one table, whose name comes quoted. Every statement answers rows of one column with JSON
 * text in it: what comes back does not depend on how a handle was told to read integers, rows or columns.
 */
export interface Statements {
  /** key, slot, period → `[left, refused, type of lock_until]`. Writes nothing: losing is the common case. */
  readonly look: string;
  /** key, slot, period, owner, lease, claim, least token → `[token, now]`, or no row. */
  readonly take: string;
  /** `[[key, owner, lease, atLeast], …]` → `[key, owner]` of every grant that was renewed. */
  readonly renewMany: string;
  /** key, owner, keep, slot → a row if the grant was live. */
  readonly release: string;
  /** Nothing is changed: it takes the write lock of the file, by `exec`. */
  readonly lockFile: string;
  /** key, owner → a row if the grant is live. Under the write lock, so it stays its owner's until that is given up. */
  readonly isLive: string;
  /** key → {@link RecordRow}. */
  readonly inspectOne: string;
  /** last key of the page before, limit → {@link RecordRow}. */
  readonly inspectPage: string;
  /** key → a row if the key was not free. */
  readonly forceRelease: string;
  /** idle, limit → a row for each record that is gone. */
  readonly purge: string;
}

export function statementsFor(table: string): Statements {
  const record = `json_object('key', cast(name as text), 'owner', locked_by, 'token', fencing_token,
  'slot', slot, 'left', max(0, coalesce(lock_until, 0) - ${NOW}), 'ago', ${NOW} - locked_at)`;
  return {
    look: `with ${REQUEST}
select json_array(coalesce(t.lock_until, 0) - r.now, coalesce(${SLOT_REFUSED}, 0), typeof(t.lock_until))
from request as r left join ${table} as t on t.name = r.key`,

    // The select decides and yields a row only where the key may be taken; it runs under the write lock, so
    // between deciding and writing nobody else can write. The token passes every
    // earlier one: the last, and the clock for those that a purge has forgotten.
    take: `with ${REQUEST}, terms(owner, lease, claim, least) as (select ?, cast(? as integer), ?, cast(? as integer))
insert into ${table} as held (name, lock_until, locked_at, locked_by, fencing_token, slot)
select r.key, r.now + lease, r.now, owner, max(r.now * 1000, least), iif(claim = 'acquire', r.slot, null)
from request as r cross join terms left join ${table} as t on t.name = r.key
where coalesce(t.lock_until, 0) <= r.now and not coalesce(${SLOT_REFUSED}, 0)
on conflict (name) do update set lock_until = excluded.lock_until, locked_at = excluded.locked_at,
  locked_by = excluded.locked_by, fencing_token = max(coalesce(held.fencing_token, 0) + 1, excluded.fencing_token),
  slot = ${later('held.slot', 'excluded.slot')}
returning json_array(fencing_token, locked_at)`,

    // A grant that is asked for twice gets the later of both ends; an update picks any one of several.
    renewMany: `with wanted(key, owner, lease, at_least) as (
  select value ->> 0, value ->> 1, max(value ->> 2), max(value ->> 3) from json_each(?) group by 1, 2)
update ${table} as t
set lock_until = max(t.lock_until, ${NOW} + w.lease, coalesce(t.locked_at + w.at_least, 0))
from wanted as w where t.name = w.key and t.locked_by = w.owner and t.lock_until > ${NOW}
returning json_array(name, locked_by)`,

    release: `with given(key, owner, keep, slot) as (select ?, ?, cast(? as integer), ${OPTIONAL})
update ${table} as t
set lock_until = max(${NOW}, coalesce(t.locked_at + g.keep, 0)), locked_by = '${RELEASED_MARK}' || t.locked_by,
  slot = ${later('t.slot', 'g.slot')}
from given as g where t.name = g.key and t.locked_by = g.owner and t.lock_until > ${NOW}
returning json_array(1)`,

    lockFile: `update ${table} set lock_until = lock_until where false`,

    isLive: `select json_array(1) from ${table} where name = ? and locked_by = ? and lock_until > ${NOW}`,

    inspectOne: `select ${record} from ${table} where name = ?`,

    inspectPage: `select ${record} from ${table} where name > ? and typeof(name) = 'text' order by name limit cast(? as integer)`,

    forceRelease: `update ${table}
set lock_until = ${NOW}, fencing_token = max(coalesce(fencing_token, 0) + 1, ${NOW} * 1000),
  locked_by = iif(substr(locked_by, 1, 1) = '${RELEASED_MARK}', locked_by, '${RELEASED_MARK}' || locked_by)
where name = ? and lock_until > ${NOW} returning json_array(1)`,

    purge: `delete from ${table} where name in (select name from ${table}
  where coalesce(lock_until, 0) < ${NOW} - cast(? as integer) and coalesce(slot <= ${NOW} - ${SLOT_MEMORY_MS}, 1)
    and coalesce(fencing_token, 0) <= ${NOW} * 1000
  limit cast(? as integer)) returning json_array(1)`,
  };
}
