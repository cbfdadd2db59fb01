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
  type MysqlCallbackClient,
  type MysqlConnection,
  type MysqlPool,
  recognise,
  SOURCE_KINDS,
  type Source,
  whatFits,
} from './client.js';
import { DIALECTS, type Dialect } from './dialect.js';
import { quote } from './quote.js';

/** Exactly one client. It is never closed by joblatch. */
export interface MysqlClients {
  /** A pool of `mysql2` (or `mysql2/promise`) or `mariadb`. Each statement takes a connection and gives it back. */
  readonly pool?: MysqlPool | MysqlCallbackClient<MysqlPool> | undefined;
  /** A connection of either, used by joblatch alone. It does not reconnect; a pool does. */
  readonly connection?: MysqlConnection | MysqlCallbackClient<MysqlConnection> | undefined;
}

/** Names of the columns, where they are others. */
export interface MysqlColumns extends SqlColumns {
  /** Default `'guard_key'`. */
  readonly guardKey?: string | undefined;
}

export interface MysqlTableOptions {
  /** The database that has the table. Default: that of the connection. Quoted by us. */
  readonly schema?: string | undefined;
  /** Default `'shedlock'`. Quoted by us. */
  readonly table?: string | undefined;
  /** Names of the columns, where they are others. */
  readonly columns?: MysqlColumns | undefined;
}

export interface MysqlMigrationSqlOptions extends MysqlTableOptions {
  /** The statements differ: in the collation, and in what an `alter table` may leave out. Default `'mariadb'`. */
  readonly server?: 'mariadb' | 'mysql' | undefined;
}

export interface MysqlMigrateOptions extends MysqlClients, MysqlTableOptions {}

export interface MysqlProviderOptions extends MysqlMigrateOptions {
  /** Makes or completes the table on first use. Default `false`: a missing table is an error that says so. */
  readonly autoMigrate?: boolean | undefined;
  /**
   * The zone in which the sessions of Java run that share a table with TIMESTAMP columns: `'+01:00'`, or a name if the
   * server has its zone tables. Default: the server's, which is what they have unless they say otherwise. It does
   * not matter for DATETIME columns, nor does the zone of our own sessions for either.
   */
  readonly sessionTimeZone?: string | undefined;
  /** Prepares statements, once a connection. Default: as long as the server has room for them. */
  readonly prepare?: boolean | undefined;
  /** How long a call that has no signal may take, in milliseconds; then it rejects. Default 5,000. */
  readonly timeoutMs?: number | undefined;
  /** Timers and chance. Default: Node's. */
  readonly runtime?: Runtime | undefined;
}

export type TableNames = SqlTableNames<MysqlColumns>;

export interface Settings {
  readonly source: Source;
  readonly names: TableNames;
  readonly autoMigrate: boolean;
  readonly sessionTimeZone: string | undefined;
  readonly prepare: boolean;
  readonly timeoutMs: number;
  readonly runtime: Runtime;
}

const NAME_MAX_CHARACTERS = 64;
/** Such as `+01:00`, `Europe/Prague`, `SYSTEM`. It stands in the statement's text. */
const ZONE = /^[A-Za-z0-9_+:/-]{1,64}$/;

const NAMING: Naming<MysqlColumns> = {
  columns: { ...DEFAULT_COLUMNS, guardKey: 'guard_key' },
  // The server keeps names in three bytes a character, and cuts blanks at the end. A client that puts the values in
  // itself takes a question mark for the place of one, also within quotes.
  isName: (name) => name.length <= NAME_MAX_CHARACTERS && !/[?\u{10000}-\u{10FFFF}]|\s$/u.test(name),
  accepted: `a name of 1 to ${NAME_MAX_CHARACTERS} characters, without a question mark, a blank at the end, or any beyond U+FFFF`,
  // The server takes names of columns that differ in case for one.
  same: (name) => name.toLowerCase(),
  quote,
};

const MIGRATE_OPTIONS = [...SOURCE_KINDS, ...TABLE_OPTIONS];
const PROVIDER_OPTIONS = [
  ...MIGRATE_OPTIONS,
  'autoMigrate',
  'sessionTimeZone',
  'prepare',
  'timeoutMs',
  'runtime',
];

export function checkOptions(options: MysqlProviderOptions): Settings {
  const what = 'mysqlProvider';
  refuseUnknown(options, new Set(PROVIDER_OPTIONS), what);
  const {
    autoMigrate = false,
    sessionTimeZone,
    prepare = true,
    timeoutMs = DEFAULT_TIMEOUT_MS,
    runtime = nodeRuntime,
  } = options;
  checkSwitches({ autoMigrate, prepare }, what);
  checkTimeout(timeoutMs, what);
  if (sessionTimeZone !== undefined && !isZone(sessionTimeZone)) {
    throw refuse(
      what,
      `sessionTimeZone is ${JSON.stringify(sessionTimeZone)}`,
      "an offset such as '+01:00', or the name of a zone such as 'Europe/Prague'",
    );
  }
  return {
    source: checkSource(options, what),
    names: checkTable(options, NAMING, what),
    autoMigrate,
    sessionTimeZone,
    prepare,
    timeoutMs,
    runtime,
  };
}

export function isZone(value: unknown): value is string {
  return typeof value === 'string' && ZONE.test(value);
}

export function checkMigrateOptions(options: MysqlMigrateOptions): Settings {
  const what = 'migrateMysql';
  refuseUnknown(options, new Set(MIGRATE_OPTIONS), what);
  return {
    source: checkSource(options, what),
    names: checkTable(options, NAMING, what),
    autoMigrate: true,
    sessionTimeZone: undefined,
    prepare: false,
    timeoutMs: DEFAULT_TIMEOUT_MS,
    runtime: nodeRuntime,
  };
}

export function checkMigrationSqlOptions(options: MysqlMigrationSqlOptions): {
  readonly names: TableNames;
  readonly dialect: Dialect;
} {
  const what = 'mysqlMigrationSql';
  refuseUnknown(options, new Set([...TABLE_OPTIONS, 'server']), what);
  const { server = 'mariadb' } = options;
  const dialect = Object.hasOwn(DIALECTS, server) ? DIALECTS[server] : undefined;
  if (dialect === undefined)
    throw refuse(what, `server is ${JSON.stringify(server)}`, "'mariadb' or 'mysql'");
  return { names: checkTable(options, NAMING, what), dialect };
}

function checkSource(options: MysqlClients, what: string): Source {
  const given = SOURCE_KINDS.filter((kind) => options[kind] !== undefined);
  const [kind] = given;
  if (kind === undefined || given.length > 1) {
    const found = kind === undefined ? 'there is no client' : `${given.join(' and ')} were given`;
    throw refuse(what, found, `one of ${SOURCE_KINDS.map((k) => `${k} (${whatFits(k)})`).join(', ')}`);
  }
  const source = recognise(options[kind]);
  if (source?.kind === kind) return source;
  const hint =
    source === undefined ? '' : ` This one looks like ${whatFits(source.kind)}: say ${source.kind}.`;
  throw refuse(what, `${kind} is not ${whatFits(kind)}`, whatFits(kind), hint);
}
