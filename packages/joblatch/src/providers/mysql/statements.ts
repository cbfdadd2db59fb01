import type {
  AcquireRequest,
  GuardRequest,
  ReleaseRequest,
  RenewRequest,
} from '../../provider/lock-provider.js';
import { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { RELEASED_MARK } from '../../provider/released-owner.js';
import type { RecordRow } from '../sql/records.js';
import type { Verb } from './dialect.js';
import { quote } from './quote.js';
import { NO_GUARD, type Table, type TextColumn } from './schema.js';
import { type Call, call, hex, type Statement, statement } from './statement.js';

/*
 * Why these statements are right.
 *
 * Two steps, the first of which decides nothing. Who wants a key looks at its record with a plain read: that locks
 * nothing, waits for nobody's row lock, and leaves no event in the binary log, as even an update of no row does in MIXED
 * format. Most callers are refused by it. Who sees a free record takes it by an update that asks everything once more,
 * of the newest version of the row, in the step that locks it: the owner that was seen, the end, the slot. Who saw no
 * record inserts one; of several that do, the primary key lets one in.
 *
 * One instant a statement. `utc_timestamp` is read when the statement begins, and does not change any more. While
 * a statement waits, its instant grows old. That is the safe side: of an old instant more leases are still running,
 * and the lease that we write ends a little early, while the holder counts from before it sent the request.
 *
 * Wall times in UTC. `utc_timestamp` does not know of zones, and a DATETIME column keeps what it is told. A TIMESTAMP
 * column takes a value for a wall time in the zone of the session and keeps the instant, and ShedLock writes UTC
 * into it all the same. So each statement says in which zone it is to be understood, the same one for all; what one
 * writes, every other reads as it was written, and sessions in whatever zone agree.
 *
 * Locks. InnoDB locks entries of indexes, and the gap before an entry with it. A guard (`guard(tx)`) locks, shared, the
 * entry of its grant in a unique index of its own: (guard key, owner, name). A renewal changes no column of that index, so
 * it passes; it has to reach its row through the primary key, and lock nothing else, hence the `force index`. Who takes the
 * key changes the owner, so the entry, and is refused; Java has to wait. Nobody may be kept out by the gap who wants
 * another key. So the guard key of a grant is its token, which is greater than those before, and of all that can not
 * be guarded (given back, or Java's) it is the greatest number there is: new entries come to the end of the grants or
 * among the latter, and so never before an entry that is guarded.
 *
 * Nobody waits. MariaDB ends the wait for a lock at once, as an error, which is a refusal; MySQL can not wait for less than a second, so
 * there a subquery locks the row first and skips it if it is locked. Renewals and purges of many rows do that on both, so that
 * one row that is locked spoils no other. (A subquery that is merged into its statement locks nothing: `group by` and
 * `limit` keep it apart. And the table has to be read after it, by key: a scan of it meets what was passed over.)
 *
 * Who was first is told by `last_insert_id(expression)`, whose value comes back with the count of changed rows: the
 * token of a grant, or the instant of a renewal. The last one is for the rare case that a renewal changed fewer rows than it
 * should have: then a second look tells what became of each.
 */

/** How long a release waits for somebody who has its record locked: it has no second chance but a retry. */
const RELEASE_WAIT_S = 1;
/** A guard waits for those who are taking the key or giving it back at this moment. */
const GUARD_WAIT_S = 1;

/** Rows that one statement reads, renews or deletes. Each says so: a session may have a limit of its own. */
export const PAGE = 1_000;

/** A day before the last instant that a TIMESTAMP column holds, whatever the zone. */
export const LAST_TIMESTAMP_MS: number = Date.UTC(2038, 0, 18);
const LAST_TIMESTAMP = '2038-01-18 00:00:00';

const NOW = 'utc_timestamp(6)';
const microsOf = (instant: string): string => `timestampdiff(microsecond, '1970-01-01', ${instant})`;
/** The instant of the statement, in microseconds since 1970. */
const NOW_US = microsOf(NOW);
const NOW_MS = `(${NOW_US} div 1000)`;
/**
 * The token of a new record comes from a clock that is read when it is made: so it passes that of a record that was
 * purged between our instant and now. (`sysdate` and `now` are of one zone, so only how far they are apart counts.)
 */
const CLOCK_US = `(${NOW_US} + greatest(0, timestampdiff(microsecond, now(6), sysdate(6))))`;

const int = (place: string): string => `cast(:${place} as signed)`;

/** What a look at a key found. */
export type Seen = readonly [
  /** No transaction is open, and none begins with each statement. */
  alone: number | boolean,
  /** Until the record is free; null if there is none. */
  left: number | null,
  slotRefused: number | boolean,
  /** The slot that is asked for. */
  slot: number | null,
  /** Key and owner as they stand in the record, as hexadecimal; null if there is none. */
  key: string | null,
  owner: string | null,
  guardKey: string | null,
];

/** Of a grant, while nobody else has its record locked: so it is final. */
export type Checked = readonly [index: number, live: number | boolean, renewed: number | boolean];

/** The statements for one table. Those that read answer rows of one text with JSON in it. */
export interface Statements {
  /** → one {@link Seen}. */
  look(request: AcquireRequest): Call;
  /** → 1 if it was taken; the token as insert id. */
  take(request: AcquireRequest, seen: Seen): Call;
  /** → 1 if it was made; the token as insert id. */
  make(request: AcquireRequest, seen: Seen): Call;
  /** → two for each that was prolonged; the instant as insert id. */
  renewMany(requests: readonly RenewRequest[]): Call;
  /** → a {@link Checked} for each whose key has a record, and that nobody else has locked. */
  checkRenewed(requests: readonly RenewRequest[], renewedAtUs: number): Call;
  /** → `[index]` of each whose key has a record. */
  stillThere(requests: readonly RenewRequest[]): Call;
  /** → 1 if the grant was live. */
  release(request: ReleaseRequest): Call;
  /** → 1 if the key was not free. */
  forceRelease(key: string): Call;
  /** → whether a statement stands alone; see {@link Seen}. */
  alone: Call;
  /** → {@link RecordRow}s, keys and owners as hexadecimal. */
  inspect(key: string | undefined, after: string | undefined): Call;
  /** → keys as hexadecimal. */
  idle(idleMs: number): Call;
  /** → how many of these records are gone. */
  purge(keys: readonly string[], idleMs: number): Call;
  /** One after another: how long a transaction of the session may do nothing. None on MySQL, which has no such limit. */
  limitIdle(guard: string, seconds: number): readonly Call[];
  /** And as it was before. */
  unlimitIdle(guard: string, seconds: number): readonly Call[];
  /** In a transaction of somebody else → `[is one open, does it see the grant]`, or nothing. */
  guard(request: GuardRequest): Call;
  /** The same as a plain read, in a connection of ours → `[1]`, or nothing. */
  isThere(request: GuardRequest): Call;
}

export function statementsFor(
  {
    names,
    dialect,
    hasToken,
    hasSlot,
    hasGuardKey,
    guardIndex,
    key: keyColumn,
    owner: ownerColumn,
    ...found
  }: Table,
  sessionTimeZone: string | undefined,
): Statements {
  const table = names.quoted;
  const key = quote(names.columns.name);
  const until = quote(names.columns.lockUntil);
  const at = quote(names.columns.lockedAt);
  const by = quote(names.columns.lockedBy);
  const token = quote(names.columns.fencingToken);
  const slot = quote(names.columns.slot);
  const guardKey = quote(names.columns.guardKey);
  const { alone } = dialect;
  /** Part of a statement for a table that has the column. */
  const ifToken = (sql: string): string => (hasToken ? sql : '');
  const primary = 'force index (primary)';
  const canGuard = hasToken && hasGuardKey && guardIndex !== undefined;
  const ifGuard = (sql: string): string => (hasGuardKey ? sql : '');
  const endsGuard = ifGuard(`, t.${guardKey} = ${NO_GUARD}`);

  const zone = found.inSessionZone ? (sessionTimeZone ?? found.serverZone) : '+00:00';
  const begin = (verb: Verb, waitS = 0): string => dialect.begin(verb, { zone, waitS });

  /** The bytes of a text, in hexadecimal, as a value that is compared as the column is. */
  const textOf = (digits: string, { charset, collation }: TextColumn): string => {
    if (charset === undefined) return `unhex(${digits})`;
    const utf8 = `convert(unhex(${digits}) using utf8mb4)`;
    return `${charset === 'utf8mb4' ? utf8 : `convert(${utf8} using ${charset})`} collate ${collation}`;
  };
  const keyOf = (digits: string): string => textOf(digits, keyColumn);
  const ownerOf = (digits: string): string => textOf(digits, ownerColumn);
  const jsonOf = (digits: string): string => `convert(unhex(${digits}) using utf8mb4)`;
  const bytesOf = (column: string): string => `cast(convert(${column} using utf8mb4) as binary)`;
  const digitsOf = (column: string): string => `hex(convert(${column} using utf8mb4))`;

  /** How many milliseconds an instant of row `t` lies ahead. */
  const ahead = (column: string): string => `ceil(timestampdiff(microsecond, ${NOW}, t.${column}) / 1000)`;
  /** What no TIMESTAMP holds would be kept as none, and be free at once. */
  const within = (instant: string): string =>
    found.inSessionZone ? `least(${instant}, '${LAST_TIMESTAMP}')` : instant;
  const later = (instant: string, place: string): string =>
    within(`${instant} + interval ${place} microsecond`);
  const after = (place: string): string => later(NOW, place);
  /** The end of a release: whole milliseconds, so that a column with three digits does not round it up. */
  const released = `greatest(utc_timestamp(3), t.${at})`;
  const nextToken = `greatest(coalesce(t.${token}, 0) + 1, ${NOW_US}, ${int('least')})`;
  const firstToken = `greatest(${CLOCK_US}, ${int('least')})`;
  /** A table without tokens: only the grant has one. */
  const handOut = (value: string): string => (hasToken ? '' : `and last_insert_id(${value}) > 0`);

  const asked = `coalesce(${int('slot')}, ${NOW_MS} div ${int('period')} * ${int('period')})`;
  /** Stale, or too far ahead. */
  const outOfRange = (wanted: string): string =>
    `(${wanted} <= ${NOW_MS} - ${SLOT_MEMORY_MS} or ${wanted} > ${NOW_MS} + ${SLOT_AHEAD_MS})`;
  /** The slot is the one that was looked at, in range, and (if it is of a period) still the present one. */
  const sameSlot = `not ${outOfRange(int('slot'))}
  and coalesce(${NOW_MS} div ${int('period')} * ${int('period')} = ${int('slot')}, true)`;
  const recorded = `if(:claims = '1', ${int('slot')}, null)`;

  const look = (withSlot: boolean): Statement =>
    statement(`${begin('select')} cast(json_array(${alone}, ${ahead(until)},
  ${withSlot ? `coalesce(t.${slot} >= ${asked}, false) or ${outOfRange(asked)}` : 'false'},
  ${withSlot ? asked : 'null'}, ${digitsOf(`t.${key}`)}, ${digitsOf(`t.${by}`)},
  ${hasGuardKey ? `cast(t.${guardKey} as char)` : 'null'}) as char)
from (select 1 as one) always left join ${table} t on t.${key} = ${keyOf(':key')}`);

  const take = (withSlot: boolean): Statement => {
    const isFree = (row: string): string =>
      `${row}.${key} = ${keyOf(':key')} and ${row}.${by} = ${ownerOf(':seen')} and coalesce(${row}.${until} <= ${NOW}, true)`;
    return statement(`${begin('update')} ${table} t
set t.${until} = ${after(':lease')}, t.${at} = ${NOW}, t.${by} = ${ownerOf(':owner')}
  ${ifToken(`, t.${token} = last_insert_id(${nextToken})`)}
  ${ifGuard(`, t.${guardKey} = ${hasToken ? `t.${token}` : NO_GUARD}`)}
  ${withSlot ? `, t.${slot} = coalesce(greatest(t.${slot}, ${recorded}), ${recorded}, t.${slot})` : ''}
where ${isFree('t')} and ${alone}
  ${withSlot ? `and coalesce(t.${slot} < ${int('slot')}, true) and ${sameSlot}` : ''}
  ${
    dialect.boundsWait
      ? ''
      : `and t.${key} = (select f.k from (
    select s.${key} as k from ${table} s ${canGuard ? `force index (${quote(guardIndex)})` : primary}
    where ${isFree('s')} ${canGuard ? `and s.${guardKey} = ${int('guard')}` : ''}
    limit 1 for update skip locked) f)`
  }
  ${handOut(firstToken)}`);
  };

  const make = (withSlot: boolean): Statement =>
    statement(`${begin('insert')} into ${table}
  (${key}, ${until}, ${at}, ${by} ${ifToken(`, ${token}`)} ${ifGuard(`, ${guardKey}`)} ${withSlot ? `, ${slot}` : ''})
select ${keyOf(':key')}, ${after(':lease')}, ${NOW}, ${ownerOf(':owner')}
  ${ifToken(', made.token')} ${ifGuard(`, ${hasToken ? 'made.token' : NO_GUARD}`)} ${withSlot ? `, ${recorded}` : ''}
from (select last_insert_id(${firstToken}) as token) made
where ${alone} ${withSlot ? `and ${sameSlot}` : ''} and made.token > 0`);

  /** Grants that a call names. */
  const named = `json_table(${jsonOf(':grants')}, '$[*]' columns (
    i int path '$[0]', k varchar(4096) path '$[1]', o varchar(1024) path '$[2]',
    lease bigint path '$[3]', at_least bigint path '$[4]')) w`;
  const theirRow = (row: string): string =>
    `${row}.${key} = ${keyOf('w.k')} and ${row}.${by} = ${ownerOf('w.o')}`;

  // Nothing is inserted: each row is there, and locked by the select, which passes over those that somebody else has
  // locked. (An update of rows that a subquery has locked needs a temporary table on the disk.) A column that its
  // table changes by itself (`on update current_timestamp`) stays if it is set to what it is.
  const renewMany = statement(`${begin('insert')} into ${table} (${key}, ${until}, ${at}, ${by})
select straight_join s.${key}, greatest(s.${until}, ${after('w.lease')}, ${later(`s.${at}`, 'w.at_least')}), s.${at}, s.${by}
from ${named} join ${table} s ${primary} on ${theirRow('s')}
where s.${until} > ${NOW} and ${alone} and last_insert_id(${NOW_US}) > 0
for update skip locked
on duplicate key update ${until} = values(${until}), ${at} = values(${at})`);

  const checkRenewed = statement(`${begin('select')} straight_join cast(json_array(
  w.i, s.${by} = ${ownerOf('w.o')} and s.${until} > ${NOW},
  ${microsOf(`s.${until}`)} >= ${int('at')} + w.lease - 1000) as char)
from ${named} join ${table} s ${primary} on s.${key} = ${keyOf('w.k')}
limit ${PAGE} for update skip locked`);
  // By the key alone: of a row that somebody is changing, a session may see what is not committed (READ UNCOMMITTED).
  const stillThere = statement(`${begin('select')} straight_join cast(json_array(w.i) as char)
from ${named} join ${table} s ${primary} on s.${key} = ${keyOf('w.k')} limit ${PAGE}`);

  const release = statement(`${begin('update', RELEASE_WAIT_S)} ${table} t
set t.${until} = greatest(${released}, ${later(`t.${at}`, ':keep')}), t.${at} = t.${at},
  t.${by} = concat('${RELEASED_MARK}', t.${by}) ${endsGuard}
  ${hasSlot ? `, t.${slot} = coalesce(greatest(t.${slot}, ${int('slot')}), ${int('slot')}, t.${slot})` : ''}
where t.${key} = ${keyOf(':key')} and t.${by} = ${ownerOf(':owner')} and t.${until} > ${NOW} and ${alone}`);

  const forceRelease = statement(`${begin('update', RELEASE_WAIT_S)} ${table} t
set t.${until} = ${released}, t.${at} = t.${at},
  t.${by} = if(t.${by} like '${RELEASED_MARK}%', t.${by}, left(concat('${RELEASED_MARK}', t.${by}), ${ownerColumn.max})) ${endsGuard}
  ${ifToken(`, t.${token} = greatest(coalesce(t.${token}, 0) + 1, ${NOW_US})`)}
where t.${key} = ${keyOf(':key')} and ${bytesOf(`t.${key}`)} = unhex(:key) and t.${until} > ${NOW} and ${alone}`);

  const inspect = (condition: string): Statement =>
    statement(`${begin('select')} cast(json_object('key', ${digitsOf(`t.${key}`)}, 'owner', ${digitsOf(`t.${by}`)},
  'left', ${ahead(until)}, 'ago', -(${ahead(at)}),
  'token', ${hasToken ? `t.${token}` : 'null'}, 'slot', ${hasSlot ? `t.${slot}` : 'null'}) as char)
from ${table} t where ${condition} order by ${bytesOf(`t.${key}`)} limit ${PAGE}`);

  const isIdle = (row: string): string =>
    `coalesce(${row}.${until} < ${NOW} - interval :idle microsecond, true)
  ${hasSlot ? `and coalesce(${row}.${slot} <= ${NOW_MS} - ${SLOT_MEMORY_MS}, true)` : ''}
  ${ifToken(`and coalesce(${row}.${token} < ${NOW_US}, true)`)}`;

  const idle = statement(
    `${begin('select')} ${digitsOf(`t.${key}`)} from ${table} t where ${isIdle('t')} limit ${PAGE}`,
  );
  const purge = statement(`${begin('delete')} t from (
  select straight_join s.${key} as k
  from json_table(${jsonOf(':keys')}, '$[*]' columns (k varchar(4096) path '$')) w
    join ${table} s ${primary} on s.${key} = ${keyOf('w.k')}
  where ${isIdle('s')} and ${alone}
  group by s.${key}
  for update skip locked) x straight_join ${table} t ${primary} on t.${key} = x.k`);

  const through = canGuard ? `force index (${quote(guardIndex)})` : primary;
  const isGrant = (
    row: string,
  ): string => `${row}.${key} = ${keyOf(':key')} and ${row}.${by} = ${ownerOf(':owner')}
  ${canGuard ? `and ${row}.${guardKey} = ${int('token')}` : ''}`;
  // The outer one reads what there is, and locks it; the inner one what the transaction sees by itself.
  const guard = statement(`${begin('select', GUARD_WAIT_S)} cast(json_array(${dialect.inTransaction},
  exists (select 1 from ${table} s ${through} where ${isGrant('s')})) as char)
from ${table} t ${through} where ${isGrant('t')} lock in share mode`);

  const isThere = statement(
    `${begin('select')} cast(json_array(1) as char) from ${table} s ${through} where ${isGrant('s')}`,
  );

  const limit = `@@session.${dialect.idleLimit}`;
  // What was set before, and by which guard it was changed last, is kept in the session: a pool may lend it as another
  // object each time, and several guards may use it in turn.
  const limitIdle = [
    `set @joblatch_idle = if(@joblatch_guard is null, ${limit}, @joblatch_idle)`,
    'set @joblatch_guard = unhex(:guard)',
    `set ${limit} = cast(if(@joblatch_idle between 1 and ${int('seconds')}, @joblatch_idle, ${int('seconds')}) as unsigned)`,
  ].map(statement);
  const unlimitIdle = [
    // Not if a later guard has set it, nor if the application has.
    `set ${limit} = cast(if(@joblatch_guard = unhex(:guard) and ${limit} = ${int('seconds')}, @joblatch_idle, ${limit}) as unsigned)`,
    'set @joblatch_guard = if(@joblatch_guard = unhex(:guard), null, @joblatch_guard)',
  ].map(statement);

  const texts = {
    look: look(false),
    lookSlot: look(true),
    take: take(false),
    takeSlot: take(true),
    make: make(false),
    makeSlot: make(true),
    one: inspect(`t.${key} = ${keyOf(':key')} and ${bytesOf(`t.${key}`)} = unhex(:key)`),
    first: inspect('true'),
    page: inspect(`${bytesOf(`t.${key}`)} > unhex(:after)`),
  };
  const micros = (ms: number): number => ms * 1_000;
  const grantsOf = (requests: readonly RenewRequest[]): string =>
    hex(
      JSON.stringify(
        requests.map(({ key: wanted, owner, leaseMs, atLeastMs = 0 }, i) => [
          i,
          hex(wanted),
          hex(owner),
          micros(leaseMs),
          micros(atLeastMs),
        ]),
      ),
    );
  const grantOf = (request: AcquireRequest, [, , , seenSlot, , seenOwner, seenGuard]: Seen) => ({
    key: hex(request.key),
    owner: hex(request.owner),
    lease: micros(request.leaseMs),
    least: request.minToken ?? 0,
    seen: seenOwner,
    guard: seenGuard,
    slot: seenSlot,
    period: request.oncePerMs,
    claims: request.claim === 'release' ? '0' : '1',
  });
  return {
    look: ({ key: wanted, slot: instant, oncePerMs }) =>
      asksForSlot({ slot: instant, oncePerMs })
        ? call(texts.lookSlot, { key: hex(wanted), slot: instant, period: oncePerMs })
        : call(texts.look, { key: hex(wanted) }),
    take: (request, seen) => call(asksForSlot(request) ? texts.takeSlot : texts.take, grantOf(request, seen)),
    make: (request, seen) => call(asksForSlot(request) ? texts.makeSlot : texts.make, grantOf(request, seen)),
    renewMany: (requests) => call(renewMany, { grants: grantsOf(requests) }),
    checkRenewed: (requests, renewedAtUs) =>
      call(checkRenewed, { grants: grantsOf(requests), at: renewedAtUs }),
    stillThere: (requests) => call(stillThere, { grants: grantsOf(requests) }),
    release: ({ key: wanted, owner, keepMs = 0, slot: done }) =>
      call(release, { key: hex(wanted), owner: hex(owner), keep: micros(keepMs), slot: done }),
    forceRelease: (wanted) => call(forceRelease, { key: hex(wanted) }),
    alone: call(statement(`select cast(json_array(${alone}) as char)`)),
    inspect: (wanted, last) => {
      if (wanted !== undefined) return call(texts.one, { key: hex(wanted) });
      return last === undefined ? call(texts.first) : call(texts.page, { after: hex(last) });
    },
    idle: (idleMs) => call(idle, { idle: micros(idleMs) }),
    purge: (keys, idleMs) => call(purge, { keys: hex(JSON.stringify(keys)), idle: micros(idleMs) }),
    limitIdle: (id, seconds) =>
      dialect.idleLimit === undefined ? [] : limitIdle.map((each) => call(each, { guard: id, seconds })),
    unlimitIdle: (id, seconds) => unlimitIdle.map((each) => call(each, { guard: id, seconds })),
    isThere: ({ key: wanted, owner, token: granted }) =>
      call(isThere, { key: hex(wanted), owner: hex(owner), token: granted }),
    guard: ({ key: wanted, owner, token: granted }) =>
      call(guard, { key: hex(wanted), owner: hex(owner), token: granted }),
  };
}

export function asksForSlot({ slot, oncePerMs }: Pick<AcquireRequest, 'slot' | 'oncePerMs'>): boolean {
  return slot !== undefined || oncePerMs !== undefined;
}
