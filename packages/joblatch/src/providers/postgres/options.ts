import { nodeRuntime, type Runtime } from '../../provider/runtime.js';
import { refuseUnknown } from '../../provider/values.js';
import {
  checkSwitches,
  checkTable,
  checkTimeout,
  DEFAULT_COLUMNS,
  DEFAULT_TIMEOUT_MS,
  type Naming,
  refuse,
  type SqlColumns,
  type SqlTableNames,
  TABLE_OPTIONS,
} from '../sql/table-options.js';
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

/** Names of the columns, where they are others. */
export type PostgresColumns = SqlColumns;

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

export type TableNames = SqlTableNames<PostgresColumns>;

export interface Settings {
  readonly source: Source;
  readonly names: TableNames;
  readonly autoMigrate: boolean;
  readonly prepare: boolean | undefined;
  readonly timeoutMs: number;
  readonly runtime: Runtime;
}

/** PostgreSQL cuts longer names without an error, and two of them may become one. */
const NAME_MAX_BYTES = 63;

const NAMING: Naming<PostgresColumns> = {
  columns: DEFAULT_COLUMNS,
  isName: (name) => Buffer.byteLength(name) <= NAME_MAX_BYTES,
  accepted: `a name of 1 to ${NAME_MAX_BYTES} bytes`,
  same: (name) => name,
  quote,
};

const MIGRATE_OPTIONS = [...SOURCE_KINDS, ...TABLE_OPTIONS];
const PROVIDER_OPTIONS = [...MIGRATE_OPTIONS, 'autoMigrate', 'prepare', 'timeoutMs', 'runtime'];

export function checkOptions(options: PostgresProviderOptions): Settings {
  const what = 'postgresProvider';
  refuseUnknown(options, new Set(PROVIDER_OPTIONS), what);
  const { autoMigrate = false, prepare, timeoutMs = DEFAULT_TIMEOUT_MS, runtime = nodeRuntime } = options;
  checkSwitches({ autoMigrate, prepare: prepare ?? true }, what);
  checkTimeout(timeoutMs, what);
  return {
    source: checkSource(options, what),
    names: checkTable(options, NAMING, what),
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
    names: checkTable(options, NAMING, what),
    autoMigrate: true,
    prepare: false,
    timeoutMs: DEFAULT_TIMEOUT_MS,
    runtime: nodeRuntime,
  };
}

export function checkTableOptions(options: PostgresTableOptions): TableNames {
  const what = 'postgresMigrationSql';
  refuseUnknown(options, new Set(TABLE_OPTIONS), what);
  return checkTable(options, NAMING, what);
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
