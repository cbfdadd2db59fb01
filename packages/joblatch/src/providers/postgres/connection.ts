import { abandonable } from '../../provider/abandoning.js';
import type { Runtime } from '../../provider/runtime.js';
import type { PgClient, Pglite, PgPool, PgPoolClient, PgQuery, PostgresJs, Source } from './client.js';
import { isSound } from './errors.js';

/** One way to the server, whatever client leads there. */
export interface Connection {
  /**
   * Sends several statements as one message: one transaction, unless one was open before.
   *
   * @returns for each statement the texts in the first column of its rows
   */
  send(message: string, signal: AbortSignal): Promise<string[][]>;
  /** Takes our listeners off the client. The client itself is not ours to close. */
  close(): void;
}

export function connectionTo(source: Source, runtime: Runtime): Connection {
  switch (source.kind) {
    case 'pool':
      return new PoolConnection(source.pool, runtime);
    case 'client':
      return new ClientConnection(source.client);
    case 'sql':
      return new PostgresJsConnection(source.sql);
    case 'pglite':
      return new PgliteConnection(source.pglite);
  }
}

const asIs = (value: string): string => value;
/** PostgreSQL's number for the type text. */
const TEXT_OID = 25;

const pgQuery = (text: string): PgQuery => ({
  text,
  rowMode: 'array',
  types: { getTypeParser: () => asIs },
});

/** How long a connection whose caller gave up may still be busy. Then it is closed: the pool has few of them. */
const PATIENCE_MS = 1_000;

class PoolConnection implements Connection {
  readonly #pool: PgPool;
  readonly #runtime: Runtime;
  #stopListening: (() => void) | undefined;

  constructor(pool: PgPool, runtime: Runtime) {
    this.#pool = pool;
    this.#runtime = runtime;
  }

  async send(message: string, signal: AbortSignal): Promise<string[][]> {
    this.#stopListening ??= listenForErrors(this.#pool);
    const loan = new Loan(await this.#borrow(signal));
    const answer = loan.query(message);
    return abandonable(answer, signal, () => {
      const cancel = this.#runtime.setTimer(() => loan.end(true), PATIENCE_MS);
      void answer.then(cancel, cancel);
    });
  }

  close(): void {
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /** A connection that comes when nobody waits for it any more goes back at once. */
  async #borrow(signal: AbortSignal): Promise<PgPoolClient> {
    signal.throwIfAborted();
    const coming = this.#pool.connect();
    return abandonable(coming, signal, () => {
      coming.then(
        (client) => client.release(),
        () => {},
      );
    });
  }
}

/** A connection of a pool while we have it. */
class Loan {
  readonly #client: PgPoolClient;
  #ended = false;

  constructor(client: PgPoolClient) {
    this.#client = client;
    // The pool does not listen to a client that it has lent, and an error that nobody listens to ends the process.
    client.on('error', ignore);
  }

  async query(message: string): Promise<string[][]> {
    try {
      const answer = firstColumns(await this.#client.query(pgQuery(message)));
      this.end(false);
      return answer;
    } catch (error) {
      this.end(!isSound(error));
      throw error;
    }
  }

  end(broken: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#client.release(broken);
    // After the pool has begun to listen again.
    this.#client.removeListener('error', ignore);
  }
}

class ClientConnection implements Connection {
  readonly #client: PgClient;
  readonly #turns = new Turns();
  #stopListening: (() => void) | undefined;

  constructor(client: PgClient) {
    this.#client = client;
  }

  send(message: string, signal: AbortSignal): Promise<string[][]> {
    this.#stopListening ??= listenForErrors(this.#client);
    return this.#turns.take(async () => firstColumns(await this.#client.query(pgQuery(message))), signal);
  }

  close(): void {
    this.#stopListening?.();
    this.#stopListening = undefined;
  }
}

class PostgresJsConnection implements Connection {
  readonly #sql: PostgresJs;

  constructor(sql: PostgresJs) {
    this.#sql = sql;
  }

  async send(message: string, signal: AbortSignal): Promise<string[][]> {
    signal.throwIfAborted();
    const query = this.#sql.unsafe(message);
    const answer = Promise.resolve(query.raw()).then(firstColumns);
    return abandonable(answer, signal, () => {
      // Only while it waits for a connection. Once it was sent, the server's request to cancel could hit
      // the next query on that connection, which may be the application's.
      if (query.active !== true) query.cancel();
    });
  }

  close(): void {}
}

class PgliteConnection implements Connection {
  readonly #pglite: Pglite;
  readonly #turns = new Turns();

  constructor(pglite: Pglite) {
    this.#pglite = pglite;
  }

  send(message: string, signal: AbortSignal): Promise<string[][]> {
    const options = { rowMode: 'array', parsers: { [TEXT_OID]: asIs } } as const;
    return this.#turns.take(async () => firstColumns(await this.#pglite.exec(message, options)), signal);
  }

  close(): void {}
}

/** Calls that share one connection, one after another. Who gives up before his turn has sent nothing. */
class Turns {
  #last: Promise<unknown> = Promise.resolve();

  async take<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#last;
    let end = (): void => {};
    this.#last = new Promise<void>((resolve) => {
      end = resolve;
    });
    try {
      await abandonable(before, signal);
    } catch (error) {
      void before.then(end);
      throw error;
    }
    const answer = work();
    // The turn ends with the answer, not with the patience of the caller.
    answer.then(end, end);
    return abandonable(answer, signal);
  }
}

/**
 * pg's result of several statements is an array of objects with `rows`, and so is PGlite's; that of postgres.js
 * is an array of arrays. A row is an array, or what a transform of the application has made of it.
 */
function firstColumns(results: unknown): string[][] {
  return (results as readonly unknown[]).map((result) => {
    const rows = Array.isArray(result) ? result : (result as { readonly rows: readonly unknown[] }).rows;
    return rows.map((row: unknown) => {
      const value: unknown = Object.values(row as object)[0];
      return value instanceof Uint8Array ? Buffer.from(value).toString() : String(value);
    });
  });
}

function ignore(): void {}

interface Emitter {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** How many of us use an emitter. Each has one listener of ours, or Node would warn of a leak at the eleventh. */
const listening = new WeakMap<Emitter, number>();

/**
 * A connection that breaks while it is idle is told by an `error` event, and without a listener that ends the
 * process. What it means we learn from the next call; other listeners hear it all the same.
 */
function listenForErrors(emitter: Emitter): () => void {
  const others = listening.get(emitter) ?? 0;
  if (others === 0) emitter.on('error', ignore);
  listening.set(emitter, others + 1);
  return () => {
    const left = (listening.get(emitter) ?? 1) - 1;
    listening.set(emitter, left);
    if (left === 0) emitter.removeListener('error', ignore);
  };
}
