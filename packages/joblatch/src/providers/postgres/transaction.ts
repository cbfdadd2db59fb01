import { LockOptionsError } from '../../provider/errors.js';
import { kindsOf, type PgClient, type Pglite, type PostgresJs, type Source, whatFits } from './client.js';
import { firstColumn, ignore, inTransaction, PGLITE_OPTIONS, pgQuery, pgScript } from './connection.js';
import { PROBE } from './gate.js';
import type { Call } from './statement.js';

/** A transaction of the application's own, through whatever client it was opened. */
export interface Transaction {
  /** Sends a statement within it, under no name: on this connection nothing of ours is to be left. */
  ask(call: Call): Promise<Answer>;
}

export interface Answer {
  readonly rows: string[];
  /** Whether the transaction is open, where the client tells it; elsewhere the mark of {@link PROBE} was set before. */
  readonly open: boolean | undefined;
}

/** @throws LockOptionsError if it is nothing that sends statements within a transaction */
export function transactionOf(given: unknown, key: string): Transaction {
  const [kind] = kindsOf(given);
  if (kind === 'client') return new PgTransaction(given as PgClient);
  if (kind === 'sql' && !begins(given)) return new PostgresJsTransaction(given as PostgresJs);
  if (kind === 'pglite' && !begins(given)) {
    const tx = given as Pglite;
    if (tx.closed) throw noTransaction(key, NOT_OPEN);
    return new PgliteTransaction(tx);
  }
  throw noTransaction(key, `what was given is ${found(given, kind)}`);
}

/** What begins transactions by itself; what it hands over for one can not, nor can a reserved `sql` of postgres.js. */
function begins(given: unknown): boolean {
  return 'begin' in (given as object) || 'transaction' in (given as object);
}

export const NOT_OPEN = 'no transaction is open there';

export function noTransaction(key: string, why: string): LockOptionsError {
  return new LockOptionsError(
    `guard of ${JSON.stringify(key)}: ${why}. Give it what sends statements within a transaction that is open: the ` +
      'Client of pg on which BEGIN was sent, the sql that sql.begin of postgres.js hands over, or the tx of ' +
      "PGlite's transaction().",
    { key },
  );
}

function found(given: unknown, kind: Source['kind'] | undefined): string {
  switch (kind) {
    case 'pool':
      return `${whatFits(kind)}, which sends each statement on any of its connections`;
    case 'sql':
      return 'the sql of postgres (postgres.js) outside of sql.begin';
    case 'pglite':
      return 'a PGlite outside of its transaction()';
    default:
      return typeof given === 'object' && given !== null
        ? `an object of ${given.constructor?.name ?? 'no class'}, which joblatch does not know`
        : `of type ${given === null ? 'null' : typeof given}`;
  }
}

/** The server closes a connection that sits idle past the lease: an error that nobody listens to would end the process. */
const listenedTo = new WeakSet<PgClient>();

class PgTransaction implements Transaction {
  readonly #client: PgClient;

  constructor(client: PgClient) {
    this.#client = client;
  }

  async ask(call: Call): Promise<Answer> {
    const client = this.#client;
    if (!listenedTo.has(client)) {
      listenedTo.add(client);
      client.on('error', ignore);
    }
    if (client.getTransactionStatus === undefined) await client.query(pgScript(PROBE));
    const rows = firstColumn(await client.query(pgQuery(call, false)));
    // As it was told with this answer: before it, a `begin` may still have stood in line.
    return { rows, open: inTransaction(client) };
  }
}

class PostgresJsTransaction implements Transaction {
  readonly #sql: PostgresJs;

  constructor(sql: PostgresJs) {
    this.#sql = sql;
  }

  async ask({ statement: { text }, values }: Call): Promise<Answer> {
    const send = (...query: Parameters<PostgresJs['unsafe']>): Promise<unknown> =>
      Promise.resolve(this.#sql.unsafe(...query).raw());
    // They go together, as one packet.
    const [, answer] = await Promise.all([send(PROBE), send(text, [...values], { prepare: false })]);
    return { rows: firstColumn(answer), open: undefined };
  }
}

class PgliteTransaction implements Transaction {
  readonly #tx: Pglite;

  constructor(tx: Pglite) {
    this.#tx = tx;
  }

  async ask({ statement: { text }, values }: Call): Promise<Answer> {
    await this.#tx.exec(PROBE);
    return { rows: firstColumn(await this.#tx.query(text, [...values], PGLITE_OPTIONS)), open: undefined };
  }
}
