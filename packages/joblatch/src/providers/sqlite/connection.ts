import type { SqliteDatabase, SqliteStatement, SqliteValue } from './client.js';
import { isNoTransaction, isReadOnly } from './errors.js';

/** The first release with `unixepoch('subsec')`; the younger of all that we use. */
const OLDEST_VERSION: readonly [number, number] = [3, 42];

/** A handle with its prepared statements. */
export class Connection {
  readonly database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();
  #patienceMs: number | undefined;
  #closed = false;

  constructor(database: SqliteDatabase) {
    this.database = database;
  }

  /** The rows that a statement answers, in a transaction that only reads. */
  read<T>(sql: string, ...parameters: readonly SqliteValue[]): T[] {
    return this.#transaction('begin', () => {
      this.exec('select 1 from main.sqlite_schema limit 1');
      return this.rows<T>(sql, ...parameters);
    });
  }

  /** The rows that a statement answers, in a transaction that has the write lock from the start. */
  write<T>(sql: string, ...parameters: readonly SqliteValue[]): T[] {
    return this.writing(() => this.rows<T>(sql, ...parameters));
  }

  writing<T>(work: () => T): T {
    return this.#transaction('begin immediate', work);
  }

  /**
   * Locks are taken by `exec`, before a prepared statement runs: libsql does not reset one that found the file
   * busy, and as long as that is so, the connection keeps its snapshot. It would go on to read the past, where
   * a key is held for ever, and outside WAL mode it would keep everybody from writing.
   */
  #transaction<T>(begin: string, work: () => T): T {
    // Not within the try: if this fails there is no transaction, or it is not ours to roll back.
    this.exec(begin);
    try {
      const result = work();
      this.exec('commit');
      return result;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  /** After some errors (a full disk) SQLite has done so itself. */
  #rollBack(): void {
    try {
      this.exec('rollback');
    } catch (error) {
      if (!isNoTransaction(error)) throw error;
    }
  }

  /**
   * The rows that a statement answers, each from the JSON text in its only column. By itself only for what
   * needs no lock.
   */
  rows<T>(sql: string, ...parameters: readonly SqliteValue[]): T[] {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    // Not `get`: it leaves a statement with RETURNING before its end, and so perhaps uncommitted.
    return statement.all(...parameters).map((row) => JSON.parse(onlyColumn(row)) as T);
  }

  exec(sql: string): void {
    this.database.exec(sql);
  }

  /**
   * How long the driver may wait for a lock, in milliseconds. Set on every handle, a given one too, since
   * better-sqlite3 comes with 5,000, and for so long the whole process would stand still.
   */
  bePatient(ms: number): void {
    if (ms === this.#patienceMs) return;
    this.exec(`pragma busy_timeout = ${ms}`);
    this.#patienceMs = ms;
  }

  /**
   * Refuses a handle whose open transaction could take back what we write.
   *
   * The order matters: libsql aborts the process when a closed handle is asked for its transaction.
   */
  assertIdle(): void {
    const { database } = this;
    if (database.open === false || database.isOpen === false) {
      throw new Error('the handle is closed.');
    }
    if (database.inTransaction === true || database.isTransaction === true) {
      throw new Error(
        'the handle has an open transaction, and its rollback would take a lock back that somebody already ' +
          'relies on. Give joblatch a handle of its own.',
      );
    }
  }

  checkVersion(): void {
    const [version] = this.rows<[string]>('select json_array(sqlite_version())')[0] as [string];
    const [major = 0, minor = 0] = version.split('.').map(Number);
    if (major < OLDEST_VERSION[0] || (major === OLDEST_VERSION[0] && minor < OLDEST_VERSION[1])) {
      throw new Error(
        `the driver brings SQLite ${version}, and joblatch needs ${OLDEST_VERSION.join('.')} or later. Update the driver.`,
      );
    }
  }

  /**
   * The settings of a file of ours. In WAL mode a losing attempt, which only reads, is never blocked by a
   * writer. FULL, because in WAL mode NORMAL (the default of some builds) syncs no commit: after a power cut
   * a claimed slot would be free again, and its job would run twice.
   *
   * The first process to switch a file over needs it alone, and finds it busy when others do the same.
   */
  tuneFile(): void {
    this.exec('pragma synchronous = full');
    try {
      this.exec('pragma journal_mode = wal');
    } catch (error) {
      // A file that can only be read can still be inspected; whoever wants to write is told then.
      if (!isReadOnly(error)) throw error;
    }
  }

  /** The file behind the handle as SQLite knows it; undefined in memory or for a temporary database. */
  file(): string | undefined {
    const found = this.rows<[string | null]>(
      "select json_array(file) from pragma_database_list where name = 'main'",
    );
    return found[0]?.[0] || undefined;
  }

  /** Once; several callers may find a handle broken at the same time. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#statements.clear();
    this.database.close();
  }
}

/** The driver may have been told to answer arrays, bare values or objects, with or without a prototype. */
function onlyColumn(row: unknown): string {
  return String(typeof row === 'object' && row !== null ? Object.values(row)[0] : row);
}
