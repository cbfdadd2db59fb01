// The shop's own data: one SQLite file that every process opens. Nothing in here knows of locks or jobs.

import { setTimeout as delay } from 'node:timers/promises';

/** How long the driver waits for the file, and stands still meanwhile; then we wait without standing still. */
const BUSY_TIMEOUT_MS = 100;
const BUSY_TRIES = 150;

const SCHEMA = `
create table if not exists products (id integer primary key, stock integer not null);
create table if not exists orders (
  id integer primary key,
  product_id integer not null,
  quantity integer not null,
  status text not null default 'open',
  expires_at integer not null
);
create table if not exists outbox (id integer primary key, order_id integer not null, published integer not null default 0);
-- What the world sees. No unique key: an event that is published twice must show.
create table if not exists published (event_id integer not null, worker text not null);
create table if not exists fences (job text primary key, token integer not null);
`;

/** Opens the file, and makes its tables if they are not there. */
export async function openDatabase(path) {
  const Driver = await findDriver();
  const database = new Database(new Driver(path));
  await database.prepare();
  return database;
}

class Database {
  #handle;
  #statements = new Map();

  constructor(handle) {
    this.#handle = handle;
  }

  async prepare() {
    this.#handle.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
    await retried(() => this.#handle.exec('pragma journal_mode = wal'));
    this.#handle.exec('pragma synchronous = normal');
    await this.transaction(() => this.#handle.exec(SCHEMA));
  }

  /** @returns {any[]} the rows of a query */
  all(sql, ...values) {
    return this.#statement(sql).all(...values);
  }

  run(sql, ...values) {
    this.#statement(sql).run(...values);
  }

  /**
   * All that `work` writes, or nothing; tried again from the start while the file is busy. `immediate` takes the
   * file's write lock before `work` reads, so what it reads is still true when it writes. `work` is synchronous:
   * nobody else can use the handle in between.
   */
  transaction(work) {
    return retried(() => {
      this.#handle.exec('begin immediate');
      try {
        const result = work();
        this.#handle.exec('commit');
        return result;
      } catch (error) {
        this.#handle.exec('rollback');
        throw error;
      }
    });
  }

  close() {
    this.#handle.close();
  }

  #statement(sql) {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#handle.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** `node:sqlite` where Node has it (22.13 and later), else libsql; what we use of them is the same. */
async function findDriver() {
  const { emitWarning } = process;
  // Node 22 warns that its SQLite is experimental, which would go right into the live view.
  process.emitWarning = () => {};
  try {
    const builtin = process.getBuiltinModule('node:sqlite');
    return builtin?.DatabaseSync ?? (await import('libsql')).default;
  } finally {
    process.emitWarning = emitWarning;
  }
}

async function retried(attempt) {
  for (let tries = BUSY_TRIES; ; tries--) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || tries === 0) throw error;
    }
    await delay(10 + 20 * Math.random());
  }
}

function isBusy({ errcode, code }) {
  return (errcode & 0xff) === 5 || String(code).startsWith('SQLITE_BUSY');
}
