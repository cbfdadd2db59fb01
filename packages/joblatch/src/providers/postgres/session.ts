import { abandonable, GaveUp } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions } from '../../provider/lock-provider.js';
import type { Runtime } from '../../provider/runtime.js';
import { type Connection, connectionTo } from './connection.js';
import { asStoreError, isGivenWay, isMadeByOthers, isOtherTable, OpenTransaction } from './errors.js';
import type { Settings } from './options.js';
import { describeExisting, migrate, type Query, type QueryOptions, type Table } from './schema.js';
import { OPEN_TRANSACTION, prologue, type Statements, statementsFor } from './statements.js';

/** How long an attempt may wait for what can not be skipped: about as long as a commit takes on a slow disk. */
const WAIT_MS = 50;
/** Who gave way to another transaction this often is refused: the others are busy with the key. */
const TRIES = 6;
const LONGEST_PAUSE_MS = 10;

/** The table with its statements. */
export interface Layout {
  readonly table: Table;
  readonly statements: Statements;
}

/** The way to the server over time, and the table as it was found on first use. */
export class Session {
  readonly #settings: Settings;
  readonly #connection: Connection;
  #layout: Promise<Layout> | undefined;
  /** What that led to: most calls need not wait for it, nor listen to their signal meanwhile. */
  #known: Layout | undefined;
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#connection = connectionTo(settings.source, settings.runtime);
  }

  /** Does `work`, and all of it once more if the table is not as it was found before. */
  async run<T>(
    operation: StoreOperation,
    key: string | undefined,
    options: CallOptions | undefined,
    work: (layout: Layout, query: Query) => Promise<T>,
  ): Promise<T> {
    try {
      if (this.#closed) throw closed();
      return await this.#bounded(options?.signal, async (signal) => {
        const query = this.#querying(signal);
        const layout = this.#known ?? (await abandonable(this.#find(), signal));
        try {
          return await work(layout, query);
        } catch (error) {
          if (!isOtherTable(error)) throw error;
          this.#forget(layout);
          return await work(await abandonable(this.#find(), signal), query);
        }
      });
    } catch (error) {
      throw asStoreError(error, { operation, key, table: this.#settings.names.shown });
    }
  }

  /** Makes or completes the table; answers the statements that were needed. */
  async migrate(): Promise<string[]> {
    const { names } = this.#settings;
    try {
      return await this.#bounded(undefined, (signal) =>
        migrate(this.#querying(signal), names, isMadeByOthers),
      );
    } catch (error) {
      throw asStoreError(error, { operation: 'migrate', table: names.shown });
    }
  }

  close(): void {
    this.#closed = true;
    this.#connection.close();
  }

  /** Callers that come together share one look at the table; one that failed is done again by the next caller. */
  #find(): Promise<Layout> {
    if (this.#layout === undefined) {
      // Not bounded by the signal of the caller that came first: the others wait for it too.
      const finding = this.#bounded(undefined, (signal) => this.#look(this.#querying(signal)));
      this.#layout = finding;
      finding.then(
        (layout) => {
          this.#known = layout;
        },
        () => {
          this.#layout = undefined;
        },
      );
    }
    return this.#layout;
  }

  /** Unless another caller has looked again since. */
  #forget(layout: Layout): void {
    if (this.#known !== layout) return;
    this.#known = undefined;
    this.#layout = undefined;
  }

  async #look(query: Query): Promise<Layout> {
    const { names, autoMigrate } = this.#settings;
    if (autoMigrate) await migrate(query, names, isMadeByOthers);
    const table = await describeExisting(query, names);
    return { table, statements: statementsFor(table) };
  }

  #querying(signal: AbortSignal): Query {
    return async <T>(sql: string, { waitMs = WAIT_MS, relaxed = false }: QueryOptions = {}): Promise<T[]> => {
      const message = `${prologue(waitMs, relaxed)};\n${sql}`;
      for (let attempt = 1; ; attempt += 1) {
        if (this.#closed) throw closed();
        try {
          const [before, rows = []] = await this.#connection.send(message, signal);
          if (before?.[0] === OPEN_TRANSACTION) throw new OpenTransaction();
          return rows.map((row) => JSON.parse(row) as T);
        } catch (error) {
          if (!isGivenWay(error) || attempt === TRIES) throw error;
        }
        await abandonable(pause(this.#settings.runtime), signal);
      }
    };
  }

  /** With the signal of the caller or, without one, with the limit of ours. */
  async #bounded<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (signal?.aborted) throw new GaveUp(signal.reason);
    if (signal) return work(signal);
    const { runtime, timeoutMs } = this.#settings;
    const controller = new AbortController();
    const cancel = runtime.setTimer(
      () => controller.abort(new Error(`no answer within ${timeoutMs} ms (timeoutMs)`)),
      timeoutMs,
    );
    try {
      return await work(controller.signal);
    } finally {
      cancel();
    }
  }
}

/** A moment by chance: transactions that were in each other's way must not meet again. */
function pause(runtime: Runtime): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, LONGEST_PAUSE_MS * runtime.random());
  });
}

function closed(): Error {
  return new Error('the provider was closed');
}
