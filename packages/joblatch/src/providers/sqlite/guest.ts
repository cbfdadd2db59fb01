import { LockOptionsError } from '../../provider/errors.js';
import type { SqliteDatabase } from './client.js';
import { Connection } from './connection.js';
import { isNestedBegin } from './errors.js';
import { isSameFile } from './file.js';
import type { Settings } from './options.js';

/** A handle of the application, as it is before a guard runs in the transaction that is open there. */
export class Guest {
  readonly #connection: Connection;
  readonly #source: Settings['source'];
  readonly #key: string;

  /** @throws LockOptionsError if it is no handle, or one of another file than that of the locks */
  constructor(transaction: object, source: Settings['source'], key: string) {
    this.#source = source;
    this.#key = key;
    this.#connection = new Connection(this.#checkHandle(transaction));
    this.#checkOpen();
    this.#checkFile();
  }

  /**
   * Runs `work` in the transaction. How long the driver waits for the file is ours to say meanwhile, since it stands
   * still with the whole process, and is again what it was afterwards.
   *
   * @throws LockOptionsError if no transaction is open
   */
  run<T>(patienceMs: number, work: (connection: Connection) => T): T {
    this.#checkOpen();
    const connection = this.#connection;
    // Asked each time: between two tries the application may have set another.
    const before = Number(pragma(connection.database, 'busy_timeout')[0]?.[0]);
    connection.exec(`pragma busy_timeout = ${patienceMs}`);
    try {
      return work(connection);
    } finally {
      connection.exec(`pragma busy_timeout = ${before}`);
    }
  }

  #checkHandle(transaction: object): SqliteDatabase {
    const { prepare, exec } = (transaction ?? {}) as Partial<SqliteDatabase>;
    if (typeof prepare === 'function' && typeof exec === 'function') return transaction as SqliteDatabase;
    throw this.#refuse(
      `what was given as transaction (${transaction === null ? 'null' : typeof transaction}) has no prepare and exec`,
      'Give the handle on which the transaction is open: of node:sqlite, better-sqlite3 or libsql',
    );
  }

  /** The order matters: libsql aborts the process when a closed handle is asked for its transaction. */
  #checkOpen(): void {
    const { database } = this.#connection;
    if (database.open === false || database.isOpen === false)
      throw this.#refuse('the handle is closed', 'Give the one on which the transaction is open');
    if (!this.#isInTransaction(database))
      throw this.#refuse(
        'the handle has no transaction open, and the lock could be lost before anything is written',
        'Do exec("begin immediate") first, and commit or roll back after it',
      );
  }

  #isInTransaction(database: SqliteDatabase): boolean {
    for (const told of [database.inTransaction, database.isTransaction])
      if (typeof told === 'boolean') return told;
    // node:sqlite before Node 22.16 does not tell. There is one within which no other can begin.
    if (!Array.isArray(database.prepare('select 1').all()))
      throw this.#refuse(
        'the handle does not answer at once',
        'Give one of node:sqlite, better-sqlite3 or libsql',
      );
    try {
      database.exec('begin');
    } catch (error) {
      if (isNestedBegin(error)) return true;
      throw error;
    }
    database.exec('rollback');
    return false;
  }

  #checkFile(): void {
    const source = this.#source;
    const { database } = this.#connection;
    if (source.kind === 'handle' && source.database === database) return;
    const theirs = mainFile(database);
    const ours = source.kind === 'path' ? source.path : mainFile(source.database);
    // Two handles of one database in memory (a shared cache) look like two databases: the table will tell.
    if (source.kind === 'handle' && ours === undefined && theirs === undefined) return;
    if (ours !== undefined && theirs !== undefined && isSameFile(ours, theirs)) return;
    throw this.#refuse(
      `the transaction is in ${placeOf(theirs)}, and the lock in ${placeOf(ours)}`,
      'Keep the lock in the file that is written (as its main database), or compare the fencing token there',
    );
  }

  #refuse(found: string, todo: string): LockOptionsError {
    const key = this.#key;
    return new LockOptionsError(`${JSON.stringify(key)} can not be guarded: ${found}. ${todo}.`, { key });
  }
}

/** The file behind a handle; undefined in memory or for a temporary database. */
function mainFile(database: SqliteDatabase): string | undefined {
  const main = pragma(database, 'database_list').find(([, name]) => name === 'main');
  return main?.[2] ? String(main[2]) : undefined;
}

/**
 * What a pragma answers, each row as an array. As a statement of its own: read as a table, by a select, it would be the
 * first reading of the transaction, which could not write any more once somebody else has.
 */
function pragma(database: SqliteDatabase, name: string): unknown[][] {
  return database
    .prepare(`pragma ${name}`)
    .all()
    .map((row) => Object.values(row as object));
}

function placeOf(file: string | undefined): string {
  return file === undefined || file === ':memory:' ? 'a database in memory' : `file ${JSON.stringify(file)}`;
}
