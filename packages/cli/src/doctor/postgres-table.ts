import { isLockError } from 'joblatch';
import { postgresProvider } from 'joblatch/postgres';
import type { Client } from 'pg';
import { postgresPool } from '../stores/postgres-client.js';
import type { PostgresTarget } from '../stores/postgres-url.js';
import { error, type Finding, info, ok, warning } from './finding.js';

interface Shape {
  readonly shown: string;
  readonly unlogged: boolean;
  readonly guarded: boolean;
  readonly can: Readonly<Record<'select' | 'insert' | 'update' | 'delete', boolean>>;
  readonly columns: Readonly<Record<string, string>>;
}

/** What joblatch keeps beside the four columns that Java's ShedLock has. */
const TOKEN = 'fencing_token';
const SLOT = 'slot';

const SHAPE = `select json_build_object(
  'shown', c.oid::regclass::text,
  'unlogged', c.relpersistence = 'u',
  'guarded', row_security_active(c.oid),
  'can', json_build_object(
    'select', has_table_privilege(c.oid, 'select'), 'insert', has_table_privilege(c.oid, 'insert'),
    'update', has_table_privilege(c.oid, 'update'), 'delete', has_table_privilege(c.oid, 'delete')),
  'columns', (select json_object_agg(a.attname, format_type(a.atttypid, a.atttypmod)) from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)) as shape
from pg_class c where c.oid = to_regclass($1)`;

export async function examineTable(client: Client, target: PostgresTarget): Promise<readonly Finding[]> {
  const { table = 'shedlock', schema } = target.table;
  const path = schema === undefined ? [table] : [schema, table];
  const quoted = path.map((name) => `"${name.replaceAll('"', '""')}"`).join('.');
  const { rows } = await client.query<{ shape: Shape }>(SHAPE, [quoted]);
  const shape = rows[0]?.shape;
  if (shape === undefined) return [await missing(client, path.join('.'), schema)];
  const unfit = await libraryJudges(target);
  if (unfit !== undefined) return [unfit, rights(shape)];
  return [
    ok(
      'table',
      `${shape.shown}, ${Object.entries(shape.columns)
        .map(([name, type]) => `${name} ${type}`)
        .join(', ')}`,
    ),
    ...columns(shape),
    rights(shape),
    ...(shape.unlogged
      ? [
          warning(
            'table-unlogged',
            'the table is UNLOGGED',
            'it is emptied when the server crashes: held locks are free again, and slots forgotten',
            `alter table ${shape.shown} set logged`,
          ),
        ]
      : []),
    ...(shape.guarded
      ? [
          warning(
            'table-row-security',
            'row-level security is on for this user',
            'rows that are not seen look like free names: each attempt then fails on the primary key',
            'give the user a policy for all rows, or disable it for this table',
          ),
        ]
      : []),
  ];
}

async function missing(client: Client, name: string, schema: string | undefined): Promise<Finding> {
  const { rows } = await client.query<{ path: string; create: boolean | null }>(
    `select current_setting('search_path') as path,
      (select has_schema_privilege(n.oid, 'create') from pg_namespace n where n.nspname = coalesce($1, current_schema())) as create`,
    [schema ?? null],
  );
  const create = rows[0]?.create === true;
  return error(
    'table',
    `there is no table ${name} in search_path ${rows[0]?.path}`,
    'no lock can be taken before there is one',
    create
      ? 'joblatch migrate'
      : 'joblatch migrate --print, to be run by a user who may create tables there: this one may not',
  );
}

/** The one that decides is the library itself. */
async function libraryJudges(target: PostgresTarget): Promise<Finding | undefined> {
  const { it: pool, end } = postgresPool(target.client);
  const provider = postgresProvider({ pool, ...target.table });
  try {
    await provider.abilities();
    return undefined;
  } catch (failure) {
    if (!isLockError(failure)) throw failure;
    return error('table', failure.message, 'no lock can be taken', 'see docs/postgres.md for the table');
  } finally {
    await provider.close?.();
    await end();
  }
}

function columns({ columns: found, shown }: Shape): readonly Finding[] {
  const findings: Finding[] = [];
  if (found[TOKEN] === undefined)
    findings.push(
      warning(
        'table-token',
        `no column ${TOKEN}: the table is as Java's ShedLock makes it`,
        'the token of a run is made from the clock alone, and may not grow when the clock is set back',
        'joblatch migrate adds it; ShedLock goes on as before',
      ),
    );
  if (found[SLOT] === undefined)
    findings.push(
      warning(
        'table-slot',
        `no column ${SLOT}`,
        'slots can not be kept: --once-per is refused',
        'joblatch migrate adds it; ShedLock goes on as before',
      ),
    );
  const narrow = /\((\d+)\)/.exec(found.name ?? '')?.[1];
  if (narrow !== undefined && Number(narrow) < 512)
    findings.push(
      info(
        'table-name-length',
        `names of up to ${narrow} characters fit`,
        'longer ones are refused',
        `alter table ${shown} alter column name type varchar(512), if you need longer names`,
      ),
    );
  return findings;
}

function rights({ can, shown }: Shape): Finding {
  const lacking = (['select', 'insert', 'update', 'delete'] as const).filter((right) => !can[right]);
  if (lacking.length === 0) return ok('rights', 'select, insert, update, delete');
  const found = `no right to ${lacking.join(', ')}`;
  const remedy = `grant ${lacking.join(', ')} on ${shown} to …`;
  return lacking.join() === 'delete'
    ? warning('rights', found, 'joblatch purge fails; everything else works', remedy)
    : error('rights', found, 'locks can not be taken and given back', remedy);
}
