import { LockOptionsError } from '../../provider/errors.js';
import { nodeRuntime, type Runtime } from '../../provider/runtime.js';
import { refuseUnknown } from '../../provider/values.js';
import {
  kindsOf,
  type PgClient,
  type Pglite,
  type PgPool,
  type PostgresJs,
  SOURCE_KINDS,
  type Source,
  whatFits,
} from './client.js';
import { quote } from './quote.js';

/** Exactly one client. It is never closed by joblatch. */
export interface PostgresClients {
  /** A `Pool` of `pg`. Each call takes a connection and gives it back. */
  readonly pool?: PgPool | undefined;
  /** A `Client` of `pg`: connected, and used by joblatch alone. It does not reconnect; a pool does. */
  readonly client?: PgClient | undefined;
  /** An `sql` of `postgres` (postgres.js). */
  readonly sql?: PostgresJs | undefined;
  /** A `PGlite`: one process, with its clock. */
  readonly pglite?: Pglite | undefined;
}

export interface PostgresColumns {
  /** Default `'name'`. */
  readonly name?: string | undefined;
  /** Default `'lock_until'`. */
  readonly lockUntil?: string | undefined;
  /** Default `'locked_at'`. */
  readonly lockedAt?: string | undefined;
  /** Default `'locked_by'`. */
  readonly lockedBy?: string | undefined;
  /** Default `'fencing_token'`. */
  readonly fencingToken?: string | undefined;
  /** Default `'slot'`. */
  readonly slot?: string | undefined;
}

export interface PostgresTableOptions {
  /** Default: the first schema of the connection's `search_path` that has the table. Quoted by us. */
  readonly schema?: string | undefined;
  /** Default `'shedlock'`. Quoted by us: as it is spelt, upper and lower case too. */
  readonly table?: string | undefined;
  /** Names of the columns, where they are others. */
  readonly columns?: PostgresColumns | undefined;
}

export interface PostgresMigrateOptions extends PostgresClients, PostgresTableOptions {}

export interface PostgresProviderOptions extends PostgresMigrateOptions {
  /** Makes or completes the table on first use. Default `false`: a missing table is an error that says so. */
  readonly autoMigrate?: boolean | undefined;
  /**
   * Prepares statements, once a connection. Default: unless a pooler is found that can not do it (`pool`, `client`), or any
   * pooler (`sql`). `true`: it can. `false` leaves nothing on the connections behind it.
   */
  readonly prepare?: boolean | undefined;
  /** How long a call that has no signal may take, in milliseconds; then it rejects. Default 5,000. */
  readonly timeoutMs?: number | undefined;
  /** Timers and chance. Default: Node's. */
  readonly runtime?: Runtime | undefined;
}

/** The names of a table and its columns: for people as they are, for SQL quoted. */
export interface TableNames {
  /** For messages. */
  readonly shown: string;
  readonly quoted: string;
  readonly columns: Readonly<Record<keyof PostgresColumns, string>>;
}

export interface Settings {
  readonly source: Source;
  readonly names: TableNames;
  readonly autoMigrate: boolean;
  readonly prepare: boolean | undefined;
  readonly timeoutMs: number;
  readonly runtime: Runtime;
}

const DEFAULT_TIMEOUT_MS = 5_000;
/** PostgreSQL cuts longer names without an error, and two of them may become one. */
const NAME_MAX_BYTES = 63;

const DEFAULT_COLUMNS: Readonly<Record<keyof PostgresColumns, string>> = {
  name: 'name',
  lockUntil: 'lock_until',
  lockedAt: 'locked_at',
  lockedBy: 'locked_by',
  fencingToken: 'fencing_token',
  slot: 'slot',
};

const TABLE_OPTIONS = ['schema', 'table', 'columns'];
const MIGRATE_OPTIONS = [...SOURCE_KINDS, ...TABLE_OPTIONS];
const PROVIDER_OPTIONS = [...MIGRATE_OPTIONS, 'autoMigrate', 'prepare', 'timeoutMs', 'runtime'];

export function checkOptions(options: PostgresProviderOptions): Settings {
  const what = 'postgresProvider';
  refuseUnknown(options, new Set(PROVIDER_OPTIONS), what);
  const { autoMigrate = false, prepare, timeoutMs = DEFAULT_TIMEOUT_MS, runtime = nodeRuntime } = options;
  for (const [option, value] of Object.entries({ autoMigrate, prepare: prepare ?? true })) {
    if (typeof value !== 'boolean') throw refuse(what, `${option} is ${String(value)}`, 'true or false');
  }
  if (typeof timeoutMs !== 'number' || !(timeoutMs > 0 && timeoutMs < Number.POSITIVE_INFINITY)) {
    throw refuse(what, `timeoutMs is ${String(timeoutMs)}`, 'milliseconds, more than 0');
  }
  return {
    source: checkSource(options, what),
    names: checkTable(options, what),
    autoMigrate,
    prepare,
    timeoutMs,
    runtime,
  };
}

export function checkMigrateOptions(options: PostgresMigrateOptions): Settings {
  const what = 'migratePostgres';
  refuseUnknown(options, new Set(MIGRATE_OPTIONS), what);
  return {
    source: checkSource(options, what),
    names: checkTable(options, what),
    autoMigrate: true,
    prepare: false,
    timeoutMs: DEFAULT_TIMEOUT_MS,
    runtime: nodeRuntime,
  };
}

export function checkTableOptions(options: PostgresTableOptions): TableNames {
  const what = 'postgresMigrationSql';
  refuseUnknown(options, new Set(TABLE_OPTIONS), what);
  return checkTable(options, what);
}

function checkSource(options: PostgresClients, what: string): Source {
  const given = SOURCE_KINDS.filter((kind) => options[kind] !== undefined);
  const [kind] = given;
  if (kind === undefined || given.length > 1) {
    const found = kind === undefined ? 'there is no client' : `${given.join(' and ')} were given`;
    throw refuse(what, found, `one of ${SOURCE_KINDS.map((k) => `${k} (${whatFits(k)})`).join(', ')}`);
  }
  const client = options[kind];
  const fitting = kindsOf(client);
  if (!fitting.includes(kind)) {
    const hint =
      fitting[0] === undefined ? '' : ` This one looks like ${whatFits(fitting[0])}: say ${fitting[0]}.`;
    throw refuse(what, `${kind} is not ${whatFits(kind)}`, `${whatFits(kind)}`, hint);
  }
  return { kind, [kind]: client } as unknown as Source;
}

function checkTable(
  { schema, table = 'shedlock', columns = {} }: PostgresTableOptions,
  what: string,
): TableNames {
  refuseUnknown(columns, new Set(Object.keys(DEFAULT_COLUMNS)), `${what}: columns`);
  const checkName = (option: string, value: unknown): string => {
    const fits =
      typeof value === 'string' &&
      value !== '' &&
      !value.includes('\0') &&
      value.isWellFormed() &&
      Buffer.byteLength(value) <= NAME_MAX_BYTES;
    if (fits) return value;
    throw refuse(what, `${option} is ${JSON.stringify(value)}`, `a name of 1 to ${NAME_MAX_BYTES} bytes`);
  };
  const chosen = Object.entries(DEFAULT_COLUMNS).map(([column, usual]) => {
    const value = columns[column as keyof PostgresColumns];
    return [column, value === undefined ? usual : checkName(`columns.${column}`, value)] as const;
  });
  if (new Set(chosen.map(([, value]) => value)).size < chosen.length) {
    throw refuse(what, 'two columns have one name', 'a name for each');
  }
  const path = [...(schema === undefined ? [] : [checkName('schema', schema)]), checkName('table', table)];
  return {
    shown: path.join('.'),
    quoted: path.map(quote).join('.'),
    columns: Object.fromEntries(chosen) as unknown as TableNames['columns'],
  };
}

function refuse(what: string, found: string, accepted: string, hint = ''): LockOptionsError {
  return new LockOptionsError(`${what}: ${found}. Accepted: ${accepted}.${hint}`);
}
