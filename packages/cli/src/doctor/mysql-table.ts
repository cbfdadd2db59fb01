import { isLockError } from 'joblatch';
import { mysqlProvider } from 'joblatch/mysql';
import { type MysqlSession, mysqlPool } from '../stores/mysql-client.js';
import type { MysqlTarget } from '../stores/mysql-url.js';
import { error, type Finding, info, ok, warning } from './finding.js';
import { type Column, type Columns, IS_OURS, placeOf, readColumns } from './mysql-columns.js';

/** What joblatch keeps beside the four columns that Java's ShedLock has. */
const TOKEN = 'fencing_token';
const SLOT = 'slot';
const LONGEST_NAME = 512;
const AS_BEFORE = 'joblatch migrate adds it; ShedLock goes on as before';

export async function examineTable(session: MysqlSession, target: MysqlTarget): Promise<readonly Finding[]> {
  const { table = 'shedlock', schema } = target.table;
  const shown = [schema ?? target.database, table].join('.');
  const columns = await readColumns(session, target);
  if (columns.size === 0)
    return [
      error(
        'table',
        `there is no table ${shown}, or this user may not see it`,
        'no lock can be taken before there is one',
        'joblatch migrate; or joblatch migrate --print, to be run by a user who may create tables',
      ),
    ];
  const unfit = await libraryJudges(target);
  const rights = await examineRights(session, target, shown, columns);
  if (unfit !== undefined) return [unfit, rights];
  return [
    ok('table', `${shown}, ${[...columns.values()].map(({ name, type }) => `${name} ${type}`).join(', ')}`),
    ...lacking(columns),
    ...(await guard(session, target)),
    ...(await names(session, columns, shown)),
    ...shared(columns),
    rights,
  ];
}

/** The one that decides is the library itself. */
async function libraryJudges(target: MysqlTarget): Promise<Finding | undefined> {
  const { it: pool, end } = await mysqlPool(target);
  const provider = mysqlProvider({ pool, ...target.table, ...target.zone });
  try {
    await provider.abilities();
    return undefined;
  } catch (failure) {
    if (!isLockError(failure)) throw failure;
    return error('table', failure.message, 'no lock can be taken', 'change the table, or name another one');
  } finally {
    await provider.close?.();
    await end();
  }
}

function lacking(columns: Columns): readonly Finding[] {
  return [
    ...(columns.has(TOKEN)
      ? []
      : [
          warning(
            'table-token',
            `no column ${TOKEN}: the table is as Java's ShedLock makes it`,
            'the token of a run is made from the clock alone, and may not grow when the clock is set back',
            AS_BEFORE,
          ),
        ]),
    ...(columns.has(SLOT)
      ? []
      : [
          warning(
            'table-slot',
            `no column ${SLOT}`,
            'slots can not be kept: --once-per is refused',
            AS_BEFORE,
          ),
        ]),
  ];
}

async function guard(session: MysqlSession, target: MysqlTarget): Promise<readonly Finding[]> {
  const indexes = await session.ask<string>(
    `select cast(json_quote(lower(group_concat(concat(column_name, if(sub_part is null, '', '(part)'))
  order by seq_in_index separator ','))) as char)
from information_schema.statistics where ${IS_OURS} and non_unique = 0 group by index_name`,
    placeOf(target),
  );
  if (indexes.includes('guard_key,locked_by,name')) return [];
  return [
    warning(
      'table-guard',
      'no index joblatch_guard (guard_key, locked_by, name)',
      'while a transaction of the application has lock.guard(tx), the lock can not be renewed: one that lasts longer than the lease loses the lock',
      AS_BEFORE,
    ),
  ];
}

/** Which names are different ones, and how long they may be. */
async function names(session: MysqlSession, columns: Columns, shown: string): Promise<readonly Finding[]> {
  const column = columns.get('name') as Column;
  const alter = `alter table ${shown} modify name varchar(512) character set utf8mb4 collate … not null`;
  return [
    ...(await collation(session, column)),
    ...(column.charset === null || column.charset === 'utf8mb4'
      ? []
      : [
          info(
            'encoding',
            `names are in ${column.charset}`,
            'names with characters that it does not have are refused',
            `${alter}, if you need them`,
          ),
        ]),
    ...((column.length ?? LONGEST_NAME) >= LONGEST_NAME
      ? []
      : [
          info(
            'table-name-length',
            `names of up to ${column.length} characters fit`,
            'longer ones are refused',
            `${alter}, if you need longer names`,
          ),
        ]),
  ];
}

/** Pairs that a collation may take for one name. */
const PAIRS = [
  ['upper and lower case', 'job', 'JOB'],
  ['accents', 'cafe', 'café'],
  ['blanks at the end', 'job', 'job '],
] as const;

async function collation(
  session: MysqlSession,
  { charset, collation: name }: Column,
): Promise<readonly Finding[]> {
  const code = 'collation';
  if (name === null || charset === null || !/^\w+$/.test(name + charset))
    return [ok(code, 'none: names are compared byte for byte')];
  const hex = (text: string): string => `x'${Buffer.from(text).toString('hex')}'`;
  const text = (word: string): string => `convert(convert(${hex(word)} using utf8mb4) using ${charset})`;
  const equal = PAIRS.map(([, one, other]) => `${text(one)} collate ${name} = ${text(other)}`);
  const [same = []] = await session.ask<(boolean | number)[]>(
    `select cast(json_array(${equal.join(', ')}) as char)`,
  );
  const ignored = PAIRS.filter((_, i) => same[i]).map(([what]) => what);
  if (ignored.length === 0) return [ok(code, `${name}: names are compared as they are written`)];
  return [
    info(
      code,
      `${name} does not tell ${ignored.join(', ')} apart`,
      'of names that differ in nothing else only one can be used: an attempt for the other one fails, and says so',
      'a collation that ends in nopad_bin (MariaDB) or 0900_bin (MySQL), if you need such names',
    ),
  ];
}

/** Java made the table: what its side has to see to. */
function shared(columns: Columns): readonly Finding[] {
  if (columns.has(TOKEN) && (columns.get('name')?.length ?? 0) >= LONGEST_NAME) return [];
  return [
    info(
      'shedlock',
      "the table looks as Java's ShedLock makes it",
      'both sides must write instants in UTC. A ShedLock that takes the clock of its host, in the zone of its host, sees other ' +
        'ends than joblatch, and two could hold one lock',
      "usingDbTime() in ShedLock's configuration, or withTimeZone of UTC",
    ),
  ];
}

/** Statements that need a right each, and what they are said to do is only explained. */
const NEEDING: Readonly<Record<'select' | 'insert' | 'update' | 'delete', (table: string) => string>> = {
  select: (table) => `select name, lock_until, locked_at, locked_by from ${table}`,
  insert: (table) =>
    `insert into ${table} (name, lock_until, locked_at, locked_by) values ('', now(), now(), '')`,
  update: (table) =>
    `update ${table} set lock_until = now(), locked_at = now(), locked_by = '' where name = ''`,
  delete: (table) => `delete from ${table} where name = ''`,
};

/** Numbers of the errors that say that a right is missing: of the table, the database, a column. */
const NO_RIGHT = [1142, 1044, 1143];

async function examineRights(
  session: MysqlSession,
  target: MysqlTarget,
  shown: string,
  columns: Columns,
): Promise<Finding> {
  const { table = 'shedlock', schema } = target.table;
  const quote = (name: string): string => `\`${name.replaceAll('`', '``')}\``;
  const quoted = (schema === undefined ? [table] : [schema, table]).map(quote).join('.');
  const may = async (statement: string): Promise<boolean> => {
    try {
      await session.show(`explain ${statement}`);
      return true;
    } catch (failure) {
      const { errno } = failure as { readonly errno?: number };
      return !NO_RIGHT.includes(errno ?? 0);
    }
  };
  const missing: string[] = [];
  for (const [right, statement] of Object.entries(NEEDING))
    if (columns.has('lock_until') && !(await may(statement(quoted)))) missing.push(right);
  if (missing.length === 0) return ok('rights', 'select, insert, update, delete');
  const found = `no right to ${missing.join(', ')}`;
  const remedy = `grant ${missing.join(', ')} on ${shown} to …`;
  return missing.join() === 'delete'
    ? warning('rights', found, 'joblatch purge fails; everything else works', remedy)
    : error('rights', found, 'locks can not be taken and given back', remedy);
}
