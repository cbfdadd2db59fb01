import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { GaveUp } from '../../provider/abandoning.js';
import { isLockError, LockStoreError, type StoreOperation } from '../../provider/errors.js';

/** Primary result codes of SQLite that we tell apart. Extended codes hold one of these in the low byte. */
const CODES = {
  SQLITE_BUSY: 5,
  SQLITE_LOCKED: 6,
  SQLITE_READONLY: 8,
  SQLITE_IOERR: 10,
  SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_NOTADB: 26,
} as const;

const SQLITE_BUSY_SNAPSHOT = 517;

/** The fields in which the drivers put the result code. */
interface DriverError {
  /** better-sqlite3 and libsql: `'SQLITE_BUSY_SNAPSHOT'`; node:sqlite: always `'ERR_SQLITE_ERROR'`. */
  readonly code?: unknown;
  /** node:sqlite: the extended code. */
  readonly errcode?: unknown;
  /** libsql: the extended code. */
  readonly rawCode?: unknown;
}

/** The primary result code of a driver's error, 0 if it has none. */
function primaryCode(error: unknown): number {
  if (!(error instanceof Error)) return 0;
  const { code, errcode, rawCode } = error as DriverError;
  for (const number of [errcode, rawCode]) if (typeof number === 'number') return number & 0xff;
  if (typeof code === 'string') {
    for (const [name, number] of Object.entries(CODES)) {
      if (code === name || code.startsWith(`${name}_`)) return number;
    }
  }
  // libsql, when it opens a file, has the code in the text only.
  return Number(/^ConnectionFailed\(.*: (\d+)"\)$/s.exec(error.message)?.[1] ?? 0) & 0xff;
}

/** Somebody else has the file, or a table of a shared cache, for the moment. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error);
  return code === CODES.SQLITE_BUSY || code === CODES.SQLITE_LOCKED;
}

/**
 * The open transaction has read, somebody else has written since, and so it can not write any more. Waiting does not
 * help: only a new transaction does.
 */
export function isStaleSnapshot(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode, rawCode } = error as DriverError;
  return code === 'SQLITE_BUSY_SNAPSHOT' || [errcode, rawCode].includes(SQLITE_BUSY_SNAPSHOT);
}

export function isReadOnly(error: unknown): boolean {
  return primaryCode(error) === CODES.SQLITE_READONLY;
}

/** The file can not be read: another handle may find another one. */
export function isBroken(error: unknown): boolean {
  const broken: number[] = [
    CODES.SQLITE_IOERR,
    CODES.SQLITE_CORRUPT,
    CODES.SQLITE_CANTOPEN,
    CODES.SQLITE_NOTADB,
  ];
  return broken.includes(primaryCode(error));
}

/** The table, or one of its columns, is not there: generic errors, told apart by SQLite's English text only. */
export function isMissingTable(error: unknown): boolean {
  return (
    error instanceof Error && /^(no such table|no such column|table .* has no column)/.test(error.message)
  );
}

export function isNoTransaction(error: unknown): boolean {
  return error instanceof Error && error.message.includes('no transaction is active');
}

export function isNestedBegin(error: unknown): boolean {
  return error instanceof Error && error.message.includes('within a transaction');
}

export interface Place {
  readonly operation: StoreOperation;
  readonly key?: string | undefined;
  /** The path of the file, where we know it. */
  readonly file?: string | undefined;
  readonly table: string;
}

/** The error for callers: what was asked, what was found, what to do. Errors of ours go through as they are. */
export function asStoreError(error: unknown, place: Place): unknown {
  if (isLockError(error)) return error;
  const { operation, key, file, table } = place;
  const asked = key === undefined ? operation : `${operation} of ${JSON.stringify(key)}`;
  const where = `table ${JSON.stringify(table)} of ${file === undefined ? 'the given SQLite database' : `SQLite file ${JSON.stringify(file)}`}`;
  const cause = error instanceof GaveUp ? error.cause : error;
  return new LockStoreError(`${asked} failed on ${where}: ${explain(error, file)}`, {
    operation,
    key,
    cause,
  });
}

function explain(error: unknown, file: string | undefined): string {
  if (error instanceof GaveUp) {
    const waited = Math.round(error.waitedMs);
    return isBusy(error.cause)
      ? `the database is locked by somebody else, still after ${waited} ms. Does a process keep a write transaction open?`
      : 'the caller gave up before it began.';
  }
  const found = error instanceof Error ? error.message : String(error);
  switch (primaryCode(error)) {
    case CODES.SQLITE_READONLY:
      return `the database is read-only (${found}). Locks are written: give a writable file and folder, and a handle that may write.`;
    case CODES.SQLITE_FULL:
      return `the database or disk is full (${found}). Make room, or raise max_page_count.`;
    case CODES.SQLITE_NOTADB:
    case CODES.SQLITE_CORRUPT:
      return `not a sound SQLite database (${found}). Is it the right file, not encrypted?`;
    case CODES.SQLITE_IOERR:
      return `the disk failed (${found}). Network file systems are not supported.`;
    default:
      return `${found.replace(/\.$/, '')}.${file === undefined ? '' : missingFolder(file)}`;
  }
}

/** The drivers tell a missing folder in three ways, one of them as "unable to open". */
function missingFolder(file: string): string {
  const folder = dirname(file);
  return existsSync(folder) ? '' : ` The folder ${JSON.stringify(folder)} does not exist; make it first.`;
}
