import type { Connection } from './connection.js';

/**
 * The table as it is made on first use. `strict`: a text in `lock_until` would compare greater than every
 * instant, and so block its key for ever. Epoch milliseconds in `lock_until`, `locked_at` and `slot`.
 */
const create = (table: string): string => `create table if not exists ${table} (
  name text not null primary key,
  lock_until integer not null,
  locked_at integer not null,
  locked_by text not null,
  fencing_token integer,
  slot integer
) strict, without rowid`;

/** Without these it is no table of locks. */
const NEEDED = ['name', 'lock_until', 'locked_at', 'locked_by'];
/** An earlier version did not have these. */
const ADDED = ['fencing_token', 'slot'];

const COLUMNS = `select json_array(lower(name), upper(type)) from pragma_table_info(?, 'main')`;

/** The collations of the unique indexes of which `name` is the only column. */
const KEY_COLLATIONS = `select json_array(upper(max(x.coll))) from pragma_index_list(?, 'main') as i
join pragma_index_xinfo(i.name, 'main') as x on x.key
where i."unique" and not i.partial
group by i.name having count(*) = 1 and lower(max(x.name)) = 'name'`;

/** Column types that keep a text as it is; others make one number of '7' and '007', and so one key. */
const KEEPS_TEXT = /CHAR|CLOB|TEXT|BLOB|^ANY$|^$/;

/** The name for use in SQL. In `main`, so that no temporary or attached table can stand before it. */
export function quoteTable(name: string): string {
  return `main."${name.replaceAll('"', '""')}"`;
}

/** Makes or completes the table, if need be, and checks that it keeps different keys apart. */
export function ensureTable(connection: Connection, name: string): void {
  const read: Rows = (sql) => connection.read(sql, name);
  if (isComplete(read)) return;
  // Looked at again under the write lock: of several processes one makes the table, and the others find it.
  connection.writing(() => {
    const rows: Rows = (sql) => connection.rows(sql, name);
    const table = quoteTable(name);
    if (columnsOf(rows).size === 0) connection.exec(create(table));
    if (isComplete(rows)) return;
    const columns = columnsOf(rows);
    for (const column of ADDED) {
      if (!columns.has(column)) connection.exec(`alter table ${table} add column ${column} integer`);
    }
  });
}

/** Answers a statement of this file for the table. */
type Rows = <T>(sql: string) => T[];

/** Whether nothing is missing that can be added. */
function isComplete(rows: Rows): boolean {
  const columns = columnsOf(rows);
  if (columns.size === 0) return false;
  const missing = NEEDED.filter((column) => !columns.has(column));
  if (missing.length > 0) throw unfit(`it has no column ${missing.join(', ')}`);

  const type = columns.get('name') ?? '';
  // SQLite looks for INT first: a CHARINT is a number.
  if (!KEEPS_TEXT.test(type) || type.includes('INT')) {
    throw unfit(`its column name is of type ${type}, which turns some keys into numbers`);
  }
  const collations = rows<[string]>(KEY_COLLATIONS).map(([collation]) => collation);
  if (collations.length === 0) throw unfit('its column name is not a primary or unique key');
  const folding = collations.find((collation) => collation !== 'BINARY');
  if (folding) throw unfit(`its column name has collation ${folding}, which takes different keys for one`);
  return ADDED.every((column) => columns.has(column));
}

function columnsOf(rows: Rows): Map<string, string> {
  return new Map(rows<[string, string]>(COLUMNS));
}

function unfit(why: string): Error {
  return new Error(`the table can not hold locks: ${why}. Give another \`table\`.`);
}
