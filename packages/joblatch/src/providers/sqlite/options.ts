import { resolve } from 'node:path';
import { LockOptionsError } from '../../provider/errors.js';
import { nodeRuntime, type Runtime } from '../../provider/runtime.js';
import { refuseUnknown } from '../../provider/values.js';
import { checkDriver, type SqliteDatabase, type SqliteDriver } from './client.js';

interface CommonOptions {
  /** The name of the table, in the main database of the file; quoted by us. Default `'shedlock'`. */
  readonly table?: string;
  /**
   * How long a call that has no signal tries again while somebody else writes to the file, in milliseconds;
   * then it rejects with a `LockStoreError`. A call with a signal tries until that aborts. Default 5,000.
   */
  readonly busyTimeoutMs?: number;
  /** Timers and chance for those attempts. Default: Node's. */
  readonly runtime?: Runtime;
}

interface PathOptions extends CommonOptions {
  /**
   * The file to open, made if it is not there (its folder is not), or `':memory:'`. A plain path, relative to
   * the working directory at the time of the call; not a URL.
   */
  readonly path: string;
  /** Default: the first that works here of `node:sqlite` (Node 22.13), `better-sqlite3` and `libsql`. */
  readonly driver?: SqliteDriver;
  readonly database?: undefined;
}

interface DatabaseOptions extends CommonOptions {
  /**
   * An open handle that nobody else uses: its `busy_timeout` is set to a few milliseconds, and it must not have a transaction
   * open. Never closed by joblatch.
   */
  readonly database: SqliteDatabase;
  readonly path?: undefined;
  readonly driver?: undefined;
}

export type SqliteProviderOptions = PathOptions | DatabaseOptions;

export interface Settings {
  readonly source:
    | { readonly kind: 'path'; readonly path: string; readonly driver: SqliteDriver | undefined }
    | { readonly kind: 'handle'; readonly database: SqliteDatabase };
  readonly table: string;
  readonly busyTimeoutMs: number;
  readonly runtime: Runtime;
}

const DEFAULT_BUSY_TIMEOUT_MS = 5_000;

const OPTION_NAMES: ReadonlySet<string> = new Set([
  'path',
  'driver',
  'database',
  'table',
  'busyTimeoutMs',
  'runtime',
]);

export function checkOptions(options: SqliteProviderOptions): Settings {
  refuseUnknown(options, OPTION_NAMES, "sqliteProvider({ path: 'locks.db' })");
  const { table = 'shedlock', busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, runtime = nodeRuntime } = options;
  if (typeof table !== 'string' || table === '' || table.includes('\0') || !table.isWellFormed()) {
    throw refuse(`table is ${JSON.stringify(table)}`, 'a name');
  }
  if (/^sqlite_/i.test(table)) {
    throw refuse(`table is ${JSON.stringify(table)}`, 'a name that SQLite does not keep for itself');
  }
  if (
    typeof busyTimeoutMs !== 'number' ||
    !(busyTimeoutMs >= 0 && busyTimeoutMs < Number.POSITIVE_INFINITY)
  ) {
    throw refuse(`busyTimeoutMs is ${String(busyTimeoutMs)}`, 'milliseconds, 0 or more');
  }
  return { source: checkSource(options), table, busyTimeoutMs, runtime };
}

function checkSource(options: SqliteProviderOptions): Settings['source'] {
  const { path, database } = options;
  if ((path === undefined) === (database === undefined)) {
    throw refuse(
      path === undefined ? 'there is no path and no database' : 'path and database were given',
      'one',
    );
  }
  if (database !== undefined) {
    if (options.driver !== undefined) throw refuse('driver goes with path', 'only `database`');
    if (typeof database?.prepare !== 'function' || typeof database.exec !== 'function') {
      throw refuse('database has no prepare and exec', 'a handle of node:sqlite, better-sqlite3 or libsql');
    }
    return { kind: 'handle', database };
  }
  if (typeof path !== 'string' || path.trim() === '' || path.includes('\0')) {
    throw refuse(`path is ${JSON.stringify(path)}`, "a path or ':memory:'");
  }
  // Some drivers would go to a server for this, some would make a file of that name. It may hold a password.
  if (/^([a-z][a-z0-9+.-]+:\/\/|file:)/i.test(path))
    throw refuse('path is a URL', "a plain path or ':memory:'");
  // Absolute from now on: the file is opened later, and perhaps again, whatever the working directory is then.
  const file = path === ':memory:' ? path : resolve(path);
  return { kind: 'path', path: file, driver: checkDriver(options.driver) };
}

function refuse(found: string, accepted: string): LockOptionsError {
  return new LockOptionsError(`sqliteProvider: ${found}. Accepted: ${accepted}.`);
}
