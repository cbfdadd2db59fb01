import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { LockOptionsError } from '../../provider/errors.js';

/** Not null: the published types of better-sqlite3 would not fit then. */
export type SqliteValue = string | number;

/** What joblatch uses of a handle: `DatabaseSync` of `node:sqlite`, `Database` of better-sqlite3 or libsql. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close(): unknown;
  /** better-sqlite3, libsql: whether the handle is open. A method of another sense in node:sqlite. */
  readonly open?: unknown;
  /** node:sqlite: whether the handle is open. */
  readonly isOpen?: unknown;
  /** better-sqlite3, libsql. */
  readonly inTransaction?: unknown;
  /** node:sqlite, from Node 22.16 on. */
  readonly isTransaction?: unknown;
}

export interface SqliteStatement {
  all(...parameters: SqliteValue[]): unknown[];
}

/** In the order in which they are tried. */
const DRIVERS = ['node:sqlite', 'better-sqlite3', 'libsql'] as const;

export type SqliteDriver = (typeof DRIVERS)[number];

type Open = (path: string) => SqliteDatabase;
type DatabaseClass = new (path: string) => SqliteDatabase;

export function checkDriver(driver: unknown): SqliteDriver | undefined {
  if (driver === undefined || DRIVERS.some((known) => known === driver))
    return driver as SqliteDriver | undefined;
  throw new LockOptionsError(
    `sqliteProvider: driver is ${JSON.stringify(driver)}. Accepted: ${DRIVERS.map((d) => `'${d}'`).join(', ')}.`,
  );
}

/**
 * Finds a driver that works here, or the one that was asked for.
 *
 * @throws LockOptionsError with what is wrong with each, and what to install
 */
export async function findDriver(wanted: SqliteDriver | undefined): Promise<Open> {
  const problems: string[] = [];
  for (const driver of wanted === undefined ? DRIVERS : [wanted]) {
    try {
      return await load(driver);
    } catch (error) {
      problems.push(`${driver}: ${problemOf(error, driver)}`);
    }
  }
  throw new LockOptionsError(
    `sqliteProvider found no driver that works with Node ${process.versions.node}. ${problems.join(' ')} ` +
      `Do: npm install ${wanted === undefined || wanted === 'node:sqlite' ? 'libsql' : wanted}, or use Node 22.13 or later.`,
  );
}

async function load(driver: SqliteDriver): Promise<Open> {
  if (driver === 'node:sqlite') return loadBuiltin();
  if (driver === 'better-sqlite3') refuseCrashingVersion();
  // Not a literal: neither the compiler nor a bundler should look for a package that need not be there.
  const name: string = driver;
  const loaded = (await import(name)) as { readonly default: DatabaseClass };
  const open: Open = (path) => new loaded.default(path);
  // The drivers load their binary with the first handle, and it may be for another Node.
  open(':memory:').close();
  return open;
}

function loadBuiltin(): Open {
  const builtin = withoutSqliteWarning(() => process.getBuiltinModule('node:sqlite')) as
    | { readonly DatabaseSync: DatabaseClass }
    | undefined;
  if (builtin === undefined) throw new Error('this Node does not have it.');
  return (path) => new builtin.DatabaseSync(path);
}

/**
 * Node 22 says on stderr, when the module is first loaded, that SQLite is experimental; an application that
 * only uses joblatch can do nothing about it. Loading is synchronous, so no other warning can be swallowed.
 */
function withoutSqliteWarning<T>(work: () => T): T {
  const emitWarning = process.emitWarning;
  process.emitWarning = ((warning: string | Error, ...rest: never[]): void => {
    if (!/^SQLite is an experimental feature/.test(String(warning)))
      emitWarning.call(process, warning, ...rest);
  }) as typeof emitWarning;
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** better-sqlite3 13 needs Node 22; an older one it does not refuse, but kills by a segmentation fault. */
function refuseCrashingVersion(): void {
  const require = createRequire(import.meta.url);
  const { version } = JSON.parse(readFileSync(require.resolve('better-sqlite3/package.json'), 'utf8')) as {
    version: string;
  };
  if (Number.parseInt(version, 10) >= 13 && Number.parseInt(process.versions.node, 10) < 22) {
    throw new Error(`version ${version} crashes Node before 22; version 12 does not.`);
  }
}

function problemOf(error: unknown, driver: string): string {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  const notFound = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
  if (notFound && String(message).includes(`'${driver}`)) return 'not installed.';
  return String(message).split('\n')[0] as string;
}
