import { abandonable, type CallSignal } from '../../provider/abandoning.js';
import type { Runtime } from '../../provider/runtime.js';
import type {
  PgClient,
  Pglite,
  PgliteOptions,
  PgPool,
  PgPoolClient,
  PgQuery,
  PostgresJs,
  Source,
} from './client.js';
import { isNotPrepared, isSound, OpenTransaction } from './errors.js';
import { PROBE } from './gate.js';
import type { Call } from './statement.js';

/** One way to the server, whatever client leads there. */
export interface Connection {
  /**
   * Sends a statement with its values, as a transaction of its own unless one was open before.
   *
   * @returns the texts in the only column of its rows; none of a statement that always answers, if one was open
   */
  ask(call: Call, signal: CallSignal): Promise<string[]>;
  /** Sends several statements that have no values as one message, which is one transaction. */
  script(text: string, signal: CallSignal): Promise<void>;
  /** Takes our listeners off the client. The client itself is not ours to close. */
  close(): void;
}

export function connectionTo(source: Source, runtime: Runtime, prepare: boolean | undefined): Connection {
  switch (source.kind) {
    case 'pool':
      return new PoolConnection(source.pool, runtime, prepare);
    case 'client':
      return new ClientConnection(source.client, prepare);
    case 'sql':
      return new PostgresJsConnection(source.sql, prepare);
    case 'pglite':
      return new PgliteConnection(source.pglite);
  }
}

const asIs = (value: string): string => value;

export const pgScript = (text: string): PgQuery => ({
  text,
  rowMode: 'array',
  types: { getTypeParser: () => asIs },
});

export const pgQuery = ({ statement: { text, name }, values }: Call, prepared: boolean): PgQuery => ({
  ...pgScript(text),
  values: [...values],
  ...(prepared && { name }),
});

/** The server's word on it, with its last answer. Undefined: this pg does not pass it on. */
export function inTransaction(client: PgClient): boolean | undefined {
  const status = client.getTransactionStatus?.();
  return status == null ? undefined : status === 'T' || status === 'E';
}

/**
 * Statements are prepared until a pooler shows that it gives a client another connection of the server each time.
 * Nothing was executed then, so the same call goes on without.
 */
class Preparing {
  #possible: boolean;

  constructor(wanted = true) {
    this.#possible = wanted;
  }

  async send<T>(send: (prepared: boolean) => Promise<T>): Promise<T> {
    if (this.#possible) {
      try {
        return await send(true);
      } catch (error) {
        if (!isNotPrepared(error)) throw error;
        this.#possible = false;
      }
    }
    return send(false);
  }
}

/** How long a connection whose caller gave up may still be busy. Then it is closed: the pool has few of them. */
const PATIENCE_MS = 1_000;

class PoolConnection implements Connection {
  readonly #pool: PgPool;
  readonly #runtime: Runtime;
  readonly #preparing: Preparing;
  #stopListening: (() => void) | undefined;

  constructor(pool: PgPool, runtime: Runtime, prepare: boolean | undefined) {
    this.#pool = pool;
    this.#runtime = runtime;
    this.#preparing = new Preparing(prepare);
  }

  async ask(call: Call, signal: CallSignal): Promise<string[]> {
    return firstColumn(await this.#preparing.send((prepared) => this.#send(pgQuery(call, prepared), signal)));
  }

  async script(text: string, signal: CallSignal): Promise<void> {
    await this.#send(pgScript(text), signal);
  }

  close(): void {
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  async #send(query: PgQuery, signal: CallSignal): Promise<unknown> {
    signal.throwIfAborted();
    this.#stopListening ??= listenForErrors(this.#pool);
    const loan = new Loan(this.#pool);
    return abandonable(loan.query(query), signal, () => loan.leave(this.#runtime));
  }
}

/** A connection of a pool, from when it is asked for until it is given back. */
class Loan {
  readonly #pool: PgPool;
  #client: PgPoolClient | undefined;
  #left = false;
  #stopTimer: () => void = ignore;

  constructor(pool: PgPool) {
    this.#pool = pool;
  }

  async query(query: PgQuery): Promise<unknown> {
    const client = await this.#pool.connect();
    this.#client = client;
    // The pool does not listen to a client that it has lent, and an error that nobody listens to ends the process.
    client.on('error', ignore);
    let sound = true;
    try {
      // Nobody waits for it any more.
      if (this.#left) return undefined;
      // Somebody gave it back to the pool like that.
      if (inTransaction(client)) throw new OpenTransaction();
      return await client.query(query);
    } catch (error) {
      sound = error instanceof OpenTransaction || isSound(error);
      throw error;
    } finally {
      this.#end(!sound);
    }
  }

  /** The caller gave up. */
  leave(runtime: Runtime): void {
    this.#left = true;
    if (this.#client) this.#stopTimer = runtime.setTimer(() => this.#end(true), PATIENCE_MS);
  }

  #end(broken: boolean): void {
    const client = this.#client;
    if (client === undefined) return;
    this.#client = undefined;
    this.#stopTimer();
    client.release(broken);
    // After the pool has begun to listen again.
    client.removeListener('error', ignore);
  }
}

class ClientConnection implements Connection {
  readonly #client: PgClient;
  readonly #preparing: Preparing;
  readonly #turns = new Turns();
  #stopListening: (() => void) | undefined;

  constructor(client: PgClient, prepare: boolean | undefined) {
    this.#client = client;
    this.#preparing = new Preparing(prepare);
  }

  async ask(call: Call, signal: CallSignal): Promise<string[]> {
    return firstColumn(await this.#preparing.send((prepared) => this.#send(pgQuery(call, prepared), signal)));
  }

  async script(text: string, signal: CallSignal): Promise<void> {
    await this.#send(pgScript(text), signal);
  }

  close(): void {
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  #send(query: PgQuery, signal: CallSignal): Promise<unknown> {
    this.#stopListening ??= listenForErrors(this.#client);
    return this.#turns.take(() => this.#alone(query), signal);
  }

  async #alone(query: PgQuery): Promise<unknown> {
    const open = inTransaction(this.#client);
    if (open) throw new OpenTransaction();
    if (open === undefined)
      return (await Promise.all([this.#client.query(pgScript(PROBE)), this.#client.query(query)]))[1];
    const answer = await this.#client.query(query);
    // Somebody's `begin` stood in line before us. It is not for joblatch alone.
    if (inTransaction(this.#client)) throw new OpenTransaction();
    return answer;
  }
}

class PostgresJsConnection implements Connection {
  readonly #sql: PostgresJs;
  /** Undefined until it was found out. */
  #prepare: boolean | undefined;
  /** Of several connections none can have a transaction open: postgres.js sees to it. */
  readonly #shared: boolean;

  constructor(sql: PostgresJs, prepare: boolean | undefined) {
    this.#sql = sql;
    this.#prepare = prepare;
    this.#shared = (sql.options?.max ?? 1) > 1;
  }

  async ask({ statement, values }: Call, signal: CallSignal): Promise<string[]> {
    signal.throwIfAborted();
    this.#prepare ??= await this.#isDirect(signal);
    // On one connection these two go together, as one packet.
    const probe = this.#shared ? undefined : this.#send(PROBE, signal);
    const answer = this.#send(statement.text, signal, [...values], { prepare: this.#prepare });
    return firstColumn((await Promise.all([answer, probe]))[0]);
  }

  /**
   * Whether there is no pooler on the way. One answers the start of a connection itself, and not with the number of the
   * server process that executes a statement then. A prepared statement that such a process does not know, postgres.js
   * sends anew by itself; with others under way on that connection, it never gets an answer.
   */
  async #isDirect(signal: CallSignal): Promise<boolean> {
    const result = await this.#send('select pg_backend_pid()::text', signal);
    const { pid } = (result as { readonly state?: { readonly pid?: unknown } }).state ?? {};
    return firstColumn(result)[0] === String(pid);
  }

  async script(text: string, signal: CallSignal): Promise<void> {
    signal.throwIfAborted();
    await this.#send(text, signal);
  }

  close(): void {}

  #send(
    text: string,
    signal: CallSignal,
    ...how: [values?: (string | null)[], options?: object]
  ): Promise<unknown> {
    const query = this.#sql.unsafe(text, ...how);
    // The bytes that the server sent: neither `types` nor `transform` have seen them.
    return abandonable(Promise.resolve(query.raw()), signal, () => {
      // Only while it waits for a connection. Once it was sent, the server's request to cancel could hit
      // the next query on that connection, which may be the application's.
      if (query.active !== true) query.cancel();
    });
  }
}

/** PostgreSQL's numbers for the types text and varchar. */
const TEXT_OID = 25;
const VARCHAR_OID = 1043;
export const PGLITE_OPTIONS: PgliteOptions = {
  rowMode: 'array',
  parsers: { [TEXT_OID]: asIs },
  serializers: { [VARCHAR_OID]: asIs },
};

class PgliteConnection implements Connection {
  readonly #pglite: Pglite;
  readonly #turns = new Turns();

  constructor(pglite: Pglite) {
    this.#pglite = pglite;
  }

  ask({ statement, values }: Call, signal: CallSignal): Promise<string[]> {
    return this.#turns.take(async () => {
      // It knows whether a transaction is open now, but not whether one will be when it is our turn.
      const probe = this.#pglite.exec(PROBE);
      const answer = this.#pglite.query(statement.text, [...values], PGLITE_OPTIONS);
      return firstColumn((await Promise.all([answer, probe]))[0]);
    }, signal);
  }

  async script(text: string, signal: CallSignal): Promise<void> {
    await this.#turns.take(() => this.#pglite.exec(text), signal);
  }

  close(): void {}
}

/** Calls that share one connection, one after another. Who gives up before his turn has sent nothing. */
class Turns {
  #last: Promise<unknown> = Promise.resolve();

  async take<T>(work: () => Promise<T>, signal: CallSignal): Promise<T> {
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
 * pg's result has `rows`, and so has PGlite's; that of postgres.js is the rows. A row is an array, or what a transform
 * of the application has made of it.
 */
export function firstColumn(result: unknown): string[] {
  const rows = Array.isArray(result) ? result : (result as { readonly rows: readonly unknown[] }).rows;
  return rows.map((row: unknown) => {
    const value: unknown = Object.values(row as object)[0];
    return value instanceof Uint8Array ? Buffer.from(value).toString() : String(value);
  });
}

export function ignore(): void {}

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
