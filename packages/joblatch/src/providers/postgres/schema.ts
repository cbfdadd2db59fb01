import { MissingTable, UnfitTable } from './errors.js';
import { ALONE, waitAtMost } from './gate.js';
import type { TableNames } from './options.js';
import { quote } from './quote.js';
import { type Call, call, statement } from './statement.js';

/** The table as it was found. */
export interface Table {
  readonly names: TableNames;
  /** ShedLock's own table has neither of these. */
  readonly hasToken: boolean;
  readonly hasSlot: boolean;
  /** How many characters fit; absent if any number does. */
  readonly keyMax: number | undefined;
  readonly ownerMax: number | undefined;
}

/** Sends a statement, and answers the value in each of its rows. */
export type Query = <T>(call: Call) => Promise<T[]>;

/** Sends statements without values as one message, which is one transaction. */
export type Script = (statements: readonly string[]) => Promise<void>;

/** For `alter table`, which has to wait until nobody uses the table; and everybody else waits behind it. */
const DDL_WAIT_MS = 3_000;
const MIGRATE_TRIES = 5;

/**
 * Our own table. Keys are compared and sorted byte for byte (`C`); instants are absolute. Updates change no
 * indexed column, and a page that is not quite full has room for the next version of a row: so they are HOT,
 * and leave the index alone.
 */
function createTable({ quoted, columns: c }: TableNames): string {
  return `create table if not exists ${quoted} (
  ${quote(c.name)} text collate "C" not null primary key,
  ${quote(c.lockUntil)} timestamptz not null,
  ${quote(c.lockedAt)} timestamptz not null,
  ${quote(c.lockedBy)} text not null,
  ${quote(c.fencingToken)} bigint default 0,
  ${quote(c.slot)} bigint
) with (fillfactor = 70)`;
}

/** With a default, or none needed: ShedLock's insert names its own four columns only. */
const addToken = ({ quoted, columns }: TableNames): string =>
  `alter table ${quoted} add column if not exists ${quote(columns.fencingToken)} bigint default 0`;
const addSlot = ({ quoted, columns }: TableNames): string =>
  `alter table ${quoted} add column if not exists ${quote(columns.slot)} bigint`;

/** Everything that a migration may do; it does nothing where it was done. */
export function allStatements(names: TableNames): string[] {
  return [createTable(names), addToken(names), addSlot(names)];
}

/** Looks at the table. Undefined if there is none; throws if it can not hold locks. */
export async function describe(query: Query, names: TableNames): Promise<Table | undefined> {
  const found = new Map(await query<[string, Column]>(call(COLUMNS, names.quoted)));
  return found.size === 0 ? undefined : fit(found, names);
}

/** Looks at the table, which has to be there. */
export async function describeExisting(query: Query, names: TableNames): Promise<Table> {
  const table = await describe(query, names);
  if (table === undefined) throw new MissingTable(`relation ${names.quoted} does not exist`);
  return table;
}

/** Makes the table, or adds the columns that it lacks. Answers the statements that were needed for it. */
export async function migrate(
  query: Query,
  script: Script,
  names: TableNames,
  alreadyThere: (error: unknown) => boolean,
): Promise<string[]> {
  for (let attempt = 1; ; attempt += 1) {
    const statements = missing(await describe(query, names), names);
    if (statements.length === 0) return [];
    try {
      await query(call(NOTHING));
      await script([waitAtMost(DDL_WAIT_MS), ...statements]);
      return statements;
    } catch (error) {
      // `if not exists` looks first and makes it then; of two processes one may find it made in between.
      if (!alreadyThere(error) || attempt === MIGRATE_TRIES) throw error;
    }
  }
}

function missing(table: Table | undefined, names: TableNames): string[] {
  if (table === undefined) return [createTable(names)];
  return [...(table.hasToken ? [] : [addToken(names)]), ...(table.hasSlot ? [] : [addSlot(names)])];
}

interface Column {
  readonly type: string;
  /** The type's modifier: of a varchar its length + 4, of a timestamp its digits; -1 if there is none. */
  readonly modifier: number;
  /** False if the collation takes different texts for equal. */
  readonly exact: boolean;
  /** By itself, for every row, and checked at once: what `on conflict` needs. */
  readonly unique: boolean;
}

const COLUMNS = statement(
  `select json_build_array(a.attname, json_build_object(
  'type', format_type(a.atttypid, null), 'modifier', a.atttypmod,
  'exact', coalesce(c.collisdeterministic, true),
  'unique', exists (select from pg_catalog.pg_index i
    where i.indrelid = a.attrelid and i.indnkeyatts = 1 and i.indkey[0] = a.attnum
      and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null)))::text
from pg_catalog.pg_attribute a left join pg_catalog.pg_collation c on c.oid = a.attcollation
where a.attrelid = to_regclass($1::varchar) and a.attnum > 0 and not a.attisdropped`,
  { answers: false },
);

/** Finds out whether a transaction is open. */
const NOTHING = statement(`select '0' where ${ALONE}`);

const TEXTS = ['text', 'character varying'];
const INSTANTS = ['timestamp with time zone', 'timestamp without time zone'];
const VARCHAR_HEAD = 4;
/** With fewer digits a lease is rounded by more than a holder's safety margin. */
const FEWEST_DIGITS = 3;

function fit(found: ReadonlyMap<string, Column>, names: TableNames): Table {
  const { columns: c } = names;
  const column = (wanted: string, types: readonly string[]): Column | undefined => {
    const it = found.get(wanted);
    if (it && !types.includes(it.type)) {
      throw unfit(`its column ${quote(wanted)} is of type ${it.type}, not ${types.join(' or ')}`);
    }
    return it;
  };
  const needed = [c.name, c.lockUntil, c.lockedAt, c.lockedBy].filter((wanted) => !found.has(wanted));
  if (needed.length > 0) throw unfit(`it has no column ${needed.map(quote).join(', ')}`);

  const key = column(c.name, TEXTS) as Column;
  if (!key.exact) throw unfit(`the collation of its column ${quote(c.name)} takes different keys for one`);
  if (!key.unique) throw unfit(`its column ${quote(c.name)} is not the primary key, nor unique`);
  for (const wanted of [c.lockUntil, c.lockedAt]) {
    const { modifier } = column(wanted, INSTANTS) as Column;
    if (modifier >= 0 && modifier < FEWEST_DIGITS) {
      throw unfit(`its column ${quote(wanted)} keeps ${modifier} digits of a second, and 3 are needed`);
    }
  }
  return {
    names,
    hasToken: column(c.fencingToken, ['bigint']) !== undefined,
    hasSlot: column(c.slot, ['bigint']) !== undefined,
    keyMax: lengthOf(key),
    ownerMax: lengthOf(column(c.lockedBy, TEXTS) as Column),
  };
}

function lengthOf({ modifier }: Column): number | undefined {
  return modifier < 0 ? undefined : modifier - VARCHAR_HEAD;
}

function unfit(why: string): Error {
  return new UnfitTable(
    `the table can not hold locks: ${why}. Give another \`table\`, or the names of its \`columns\``,
  );
}
