import { abandonable, type CallSignal } from '../../provider/abandoning.js';
import type { Runtime } from '../../provider/runtime.js';
import {
  leftOpen,
  type MysqlConnection,
  type MysqlPool,
  type MysqlPoolConnection,
  queryOf,
  type Reply,
  readReply,
  type Source,
} from './client.js';
import { isNotPrepared, isSound, OpenTransaction } from './errors.js';
import type { Call } from './statement.js';

/** One way to the server, whatever client leads there. */
export interface Connection {
  /** Sends a statement with its values. */
  ask(call: Call, signal: CallSignal): Promise<Reply>;
  /** Takes our listeners off the client. The client itself is not ours to close. */
  close(): void;
}

export function connectionTo(source: Source, runtime: Runtime, prepare: boolean): Connection {
  return source.kind === 'pool'
    ? new PoolConnection(source.pool, runtime, prepare)
    : new SingleConnection(source.connection, prepare);
}

/** How a connection is asked: prepared until the server shows that it can not. Nothing was executed then. */
class Asking {
  #prepared: boolean;

  constructor(prepare: boolean) {
    this.#prepared = prepare;
  }

  async ask(connection: MysqlConnection, { text, values }: Call): Promise<Reply> {
    const query = queryOf(text);
    let answer: unknown;
    if (this.#prepared) {
      try {
        answer = await connection.execute(query, [...values]);
      } catch (error) {
        if (!isNotPrepared(error)) throw error;
        this.#prepared = false;
      }
    }
    answer ??= await connection.query(query, [...values]);
    // MySQL has no word for it that a statement could ask for first.
    if (leftOpen(answer)) throw new OpenTransaction();
    return readReply(answer);
  }
}

/** How long a connection whose caller gave up may still be busy. Then it is closed: the pool has few of them. */
const PATIENCE_MS = 1_000;

class PoolConnection implements Connection {
  readonly #pool: MysqlPool;
  readonly #runtime: Runtime;
  readonly #asking: Asking;

  constructor(pool: MysqlPool, runtime: Runtime, prepare: boolean) {
    this.#pool = pool;
    this.#runtime = runtime;
    this.#asking = new Asking(prepare);
  }

  async ask(call: Call, signal: CallSignal): Promise<Reply> {
    signal.throwIfAborted();
    const loan = new Loan(this.#pool);
    const answer = loan.use((connection) => this.#asking.ask(connection, call));
    return (await abandonable(answer, signal, () => loan.leave(this.#runtime))) as Reply;
  }

  close(): void {}
}

/** A connection of a pool, from when it is asked for until it is given back. */
class Loan {
  readonly #pool: MysqlPool;
  #connection: MysqlPoolConnection | undefined;
  #left = false;
  #stopTimer: () => void = ignore;

  constructor(pool: MysqlPool) {
    this.#pool = pool;
  }

  /** Undefined if the caller gave up before there was a connection. */
  async use<T>(work: (connection: MysqlPoolConnection) => Promise<T>): Promise<T | undefined> {
    const connection = await this.#pool.getConnection();
    this.#connection = connection;
    let sound = true;
    try {
      return this.#left ? undefined : await work(connection);
    } catch (error) {
      sound = isSound(error);
      throw error;
    } finally {
      this.#end(sound);
    }
  }

  /** The caller gave up. */
  leave(runtime: Runtime): void {
    this.#left = true;
    if (this.#connection) this.#stopTimer = runtime.setTimer(() => this.#end(false), PATIENCE_MS);
  }

  #end(sound: boolean): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#connection = undefined;
    this.#stopTimer();
    if (!sound) connection.destroy();
    // A pool that was closed meanwhile may refuse it.
    else Promise.resolve(connection.release()).catch(ignore);
  }
}

class SingleConnection implements Connection {
  readonly #connection: MysqlConnection;
  readonly #asking: Asking;
  #listening = false;

  constructor(connection: MysqlConnection, prepare: boolean) {
    this.#connection = connection;
    this.#asking = new Asking(prepare);
  }

  async ask(call: Call, signal: CallSignal): Promise<Reply> {
    signal.throwIfAborted();
    if (!this.#listening) {
      // An error that nobody listens to ends the process. The next statement tells it.
      this.#connection.on('error', ignore);
      this.#listening = true;
    }
    // Both clients send one statement after another.
    return abandonable(this.#asking.ask(this.#connection, call), signal);
  }

  close(): void {
    if (this.#listening) this.#connection.removeListener('error', ignore);
    this.#listening = false;
  }
}

function ignore(): void {}
