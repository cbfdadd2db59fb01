import type { Reply } from './client.js';
import { type Dialect, dialectOf, isTooOld } from './dialect.js';
import { MissingTable, Unfit } from './errors.js';
import type { TableNames } from './options.js';
import { quote } from './quote.js';
import { type Call, call, hex, type Statement, statement } from './statement.js';

/** The table as it was found. */
export interface Table {
  readonly names: TableNames;
  readonly dialect: Dialect;
  /** ShedLock's own table has neither of these. */
  readonly hasToken: boolean;
  readonly hasSlot: boolean;
  /** What a guard locks, if there is it; see statements.ts. */
  readonly hasGuardKey: boolean;
  readonly guardIndex: string | undefined;
  readonly key: TextColumn;
  readonly owner: TextColumn;
  /** Its values are instants, which a session sees in its zone. Of other columns the zone does not matter. */
  readonly inSessionZone: boolean;
  /** The zone of sessions that do not choose one. */
  readonly serverZone: string;
}

export interface TextColumn {
  /** How many characters fit; bytes, if it is binary. */
  readonly max: number;
  readonly bytes: number;
  /** Undefined: the column is binary. */
  readonly charset: string | undefined;
  readonly collation: string | undefined;
}

/** Sends a statement. */
export type Query = (call: Call) => Promise<Reply>;

const MIGRATE_TRIES = 5;
const GUARD_INDEX = 'joblatch_guard';
/** InnoDB's limit for an index, with pages of the usual size. */
const INDEX_MAX_BYTES = 3_072;
const BIGINT_BYTES = 8;
/** Of a record that can not be guarded: the greatest number. */
export const NO_GUARD = '9223372036854775807';

/**
 * Our own table. Keys are compared and sorted byte for byte, blanks at the end too; instants are wall times in UTC, which
 * no session's zone converts, and which do not end in 2038.
 */
function createTable(names: TableNames, { collation }: Dialect): string {
  const { quoted, columns: c } = names;
  return `create table if not exists ${quoted} (
  ${quote(c.name)} varchar(512) character set utf8mb4 collate ${collation} not null primary key,
  ${quote(c.lockUntil)} datetime(6) not null,
  ${quote(c.lockedAt)} datetime(6) not null,
  ${quote(c.lockedBy)} varchar(255) character set ascii collate ascii_bin not null,
  ${quote(c.fencingToken)} bigint default 0,
  ${quote(c.slot)} bigint,
  ${quote(c.guardKey)} bigint not null default ${NO_GUARD},
  unique key ${quote(GUARD_INDEX)} (${guardColumns(names)})
) engine = InnoDB`;
}

/** With a default, or none needed: ShedLock's insert names its own four columns only. */
function addToken({ columns }: TableNames, unless: string): string {
  return `add column ${unless}${quote(columns.fencingToken)} bigint default 0`;
}

function addSlot({ columns }: TableNames, unless: string): string {
  return `add column ${unless}${quote(columns.slot)} bigint`;
}

function addGuardKey({ columns }: TableNames, unless: string): string {
  return `add column ${unless}${quote(columns.guardKey)} bigint not null default ${NO_GUARD}`;
}

function addGuardIndex(names: TableNames, unless: string): string {
  return `add unique key ${unless}${quote(GUARD_INDEX)} (${guardColumns(names)})`;
}

function guardColumns({ columns: c }: TableNames): string {
  return [c.guardKey, c.lockedBy, c.name].map(quote).join(', ');
}

const alter = ({ quoted }: TableNames, changes: readonly string[]): string =>
  `alter table ${quoted} ${changes.join(', ')}`;

/**
 * Everything that a migration may do. On MariaDB it does nothing where it was done; MySQL can not say that of a
 * column, so there it is the table only.
 */
export function allStatements(names: TableNames, dialect: Dialect): string[] {
  const unless = 'if not exists ';
  const create = createTable(names, dialect);
  if (dialect.server === 'mysql') return [create];
  return [
    create,
    alter(
      names,
      [addToken, addSlot, addGuardKey, addGuardIndex].map((add) => add(names, unless)),
    ),
  ];
}

/** Looks at the table. Undefined if there is none; throws if it, or the server, can not hold locks. */
export async function describe(
  query: Query,
  names: TableNames,
): Promise<{ readonly dialect: Dialect; readonly table: Table | undefined }> {
  const [server] = (await query(call(SERVER))).rows;
  const { version, zone, database, ignoresCase } = JSON.parse(server as string) as Server;
  const dialect = dialectOf(version);
  if (isTooOld(dialect, version)) {
    const { oldest, server: kind } = dialect;
    throw new Unfit(`the server is ${version}, and joblatch needs ${kind} ${oldest.join('.')} or later`);
  }
  const schema = names.schema ?? database;
  if (schema === null) {
    throw new Unfit('no database is chosen. Name it in the connection, or as `schema`');
  }
  // The comparison there takes no notice of case.
  const isOurs = ({ table }: { readonly table: string }): boolean =>
    table === names.table || (Boolean(ignoresCase) && table.toLowerCase() === names.table.toLowerCase());
  const read = async <T extends { readonly table: string }>(what: Statement): Promise<T[]> => {
    const { rows } = await query(call(what));
    return rows.map((row) => JSON.parse(row) as T).filter(isOurs);
  };
  const columns = await read<Column>(columnsOf(schema, names.table));
  if (columns.length === 0) return { dialect, table: undefined };
  const indexes = indexesOf(await read<IndexEntry>(indexEntriesOf(schema, names.table)));
  // A guard stands in a connection of the application, which may be in another database.
  const qualified = { ...names, quoted: [schema, names.table].map(quote).join('.') };
  return { dialect, table: fit(columns, indexes, qualified, dialect, zone) };
}

/** Looks at the table, which has to be there. */
export async function describeExisting(query: Query, names: TableNames): Promise<Table> {
  const { table } = await describe(query, names);
  if (table === undefined) throw new MissingTable(`table ${names.quoted} does not exist`);
  return table;
}

/** Makes the table, or adds what it lacks. Answers the statements that were needed for it. */
export async function migrate(
  query: Query,
  names: TableNames,
  alreadyThere: (error: unknown) => boolean,
): Promise<string[]> {
  for (let attempt = 1; ; attempt += 1) {
    const { table, dialect } = await describe(query, names);
    const statements = table === undefined ? [createTable(names, dialect)] : missing(table);
    try {
      for (const text of statements) await query({ text, values: [] });
      return statements;
    } catch (error) {
      // Between the look and the change another process may have made it.
      if (!alreadyThere(error) || attempt === MIGRATE_TRIES) throw error;
    }
  }
}

function missing({ names, hasToken, hasSlot, hasGuardKey, guardIndex, ...table }: Table): string[] {
  // Of a table whose columns somebody has made wider.
  const fits = BIGINT_BYTES + table.owner.bytes + table.key.bytes <= INDEX_MAX_BYTES;
  const changes = [
    ...(hasToken ? [] : [addToken(names, '')]),
    ...(hasSlot ? [] : [addSlot(names, '')]),
    ...(hasGuardKey || !fits ? [] : [addGuardKey(names, '')]),
    ...(guardIndex === undefined && fits ? [addGuardIndex(names, '')] : []),
  ];
  return changes.length === 0 ? [] : [alter(names, changes)];
}

interface Column {
  readonly table: string;
  readonly name: string;
  readonly engine: string | null;
  readonly type: string;
  readonly digits: number | null;
  readonly length: number | null;
  readonly bytes: number | null;
  readonly charset: string | null;
  readonly collation: string | null;
}

/** A column of an index. */
interface IndexEntry {
  readonly table: string;
  readonly name: string;
  readonly place: number;
  /** MySQL: null if it is an expression. */
  readonly column: string | null;
  readonly unique: boolean | number;
  /** Not only the beginnings of its values. */
  readonly whole: boolean | number;
}

interface Index {
  readonly name: string;
  readonly unique: boolean;
  /** In order. */
  readonly columns: readonly (string | undefined)[];
}

interface Server {
  readonly version: string;
  readonly zone: string;
  readonly database: string | null;
  /** Of names of tables. */
  readonly ignoresCase: boolean | number;
}

// `cast`, since a client may take JSON for something else than a text.
const SERVER = statement(`select cast(json_object('version', version(), 'zone', @@global.time_zone,
  'database', database(), 'ignoresCase', @@lower_case_table_names > 0) as char)`);

/**
 * Compared with constants only: then the server looks at this table, and not at every one that it has. (A text from a
 * value would be in a collation that may not mix with that of the server's own tables.)
 */
const isOurs = (alias: string, schema: string, table: string): string => {
  const literal = (name: string): string => `_utf8mb4 x'${hex(name)}'`;
  return `${alias}.table_schema = ${literal(schema)} and ${alias}.table_name = ${literal(table)}`;
};

/** More than a table has columns, and entries of columns in indexes. A session may have a limit of its own. */
const MOST_ROWS = 10_000;

const columnsOf = (schema: string, table: string): Statement =>
  statement(`select cast(json_object('table', c.table_name, 'name', c.column_name, 'engine', t.engine,
  'type', c.data_type, 'digits', c.datetime_precision, 'length', c.character_maximum_length,
  'bytes', c.character_octet_length, 'charset', c.character_set_name, 'collation', c.collation_name) as char)
from information_schema.columns c
join information_schema.tables t on ${isOurs('t', schema, table)} and t.table_name = c.table_name
where ${isOurs('c', schema, table)}
limit ${MOST_ROWS}`);

const indexEntriesOf = (schema: string, table: string): Statement =>
  statement(`select cast(json_object('table', s.table_name, 'name', s.index_name, 'place', s.seq_in_index,
  'column', s.column_name, 'unique', s.non_unique = 0, 'whole', s.sub_part is null) as char)
from information_schema.statistics s
where ${isOurs('s', schema, table)}
limit ${MOST_ROWS}`);

/** Put together here: what `group_concat` gives may be cut. */
function indexesOf(entries: readonly IndexEntry[]): Index[] {
  const byName = new Map<string, IndexEntry[]>();
  for (const entry of entries) byName.set(entry.name, [...(byName.get(entry.name) ?? []), entry]);
  return [...byName].map(([name, own]) => ({
    name,
    unique: own.every(({ unique, whole }) => Boolean(unique) && Boolean(whole)),
    columns: own.sort((a, b) => a.place - b.place).map(({ column }) => column?.toLowerCase()),
  }));
}

const TEXTS = ['varchar', 'char', 'varbinary'];
const INSTANTS = ['timestamp', 'datetime'];
/** With fewer digits a lease is rounded by more than a holder's safety margin. */
const FEWEST_DIGITS = 3;
/** Character sets and collations stand in statements. */
const SQL_WORD = /^\w+$/;

function fit(
  columns: readonly Column[],
  indexes: readonly Index[],
  names: TableNames,
  dialect: Dialect,
  serverZone: string,
): Table {
  const { columns: c } = names;
  const found = new Map(columns.map((column) => [column.name.toLowerCase(), column]));
  const column = (wanted: string, types: readonly string[]): Column | undefined => {
    const it = found.get(wanted.toLowerCase());
    if (it && !types.includes(it.type)) {
      throw unfit(`its column ${quote(wanted)} is of type ${it.type}, not ${types.join(' or ')}`);
    }
    return it;
  };
  const needed = [c.name, c.lockUntil, c.lockedAt, c.lockedBy].filter(
    (wanted) => !found.has(wanted.toLowerCase()),
  );
  if (needed.length > 0) throw unfit(`it has no column ${needed.map(quote).join(', ')}`);
  const engine = columns[0]?.engine;
  if (engine !== 'InnoDB') {
    throw unfit(
      `its engine is ${engine ?? 'none (a view?)'}, and a table of locks needs the transactions of InnoDB`,
    );
  }

  const covers = (...wanted: readonly string[]): Index | undefined =>
    indexes.find(
      ({ unique, columns: own }) =>
        unique && own.length === wanted.length && wanted.every((name, i) => name.toLowerCase() === own[i]),
    );
  if (indexes.find(({ name }) => name === 'PRIMARY')?.columns.join() !== c.name.toLowerCase()) {
    throw unfit(`its column ${quote(c.name)} is not the primary key`);
  }
  const instants = [c.lockUntil, c.lockedAt].map((wanted) => column(wanted, INSTANTS) as Column);
  for (const { name, digits } of instants) {
    if ((digits ?? 0) < FEWEST_DIGITS) {
      throw unfit(`its column ${quote(name)} keeps ${digits ?? 0} digits of a second, and 3 are needed`);
    }
  }
  return {
    names,
    dialect,
    hasToken: column(c.fencingToken, ['bigint']) !== undefined,
    hasSlot: column(c.slot, ['bigint']) !== undefined,
    hasGuardKey: column(c.guardKey, ['bigint']) !== undefined,
    guardIndex: covers(c.guardKey, c.lockedBy, c.name)?.name,
    key: textColumn(column(c.name, TEXTS) as Column),
    owner: textColumn(column(c.lockedBy, TEXTS) as Column),
    inSessionZone: instants.some(({ type }) => type === 'timestamp'),
    serverZone,
  };
}

function textColumn({ name, length, bytes, charset, collation }: Column): TextColumn {
  for (const word of [charset, collation]) {
    if (word !== null && !SQL_WORD.test(word)) throw unfit(`its column ${quote(name)} is in ${word}`);
  }
  return {
    max: (charset === null ? bytes : length) ?? 0,
    bytes: bytes ?? 0,
    charset: charset ?? undefined,
    collation: collation ?? undefined,
  };
}

function unfit(why: string): Error {
  return new Unfit(
    `the table can not hold locks: ${why}. Give another \`table\`, or the names of its \`columns\``,
  );
}
