import { abandonable, type CallSignal, GaveUp, signalOf } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions } from '../../provider/lock-provider.js';
import { type Connection, connectionTo } from './connection.js';
import { asStoreError, isGivenWay, isMadeByOthers, isOtherTable } from './errors.js';
import type { Settings } from './options.js';
import { describeExisting, migrate, type Query, type Table } from './schema.js';
import { type Statements, statementsFor } from './statements.js';

/** Who gave way to another transaction, or found a free key locked, this often is refused: the others are busy with it. */
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
    this.#connection = connectionTo(settings.source, settings.runtime, settings.prepare);
  }

  /** Does `work`, and all of it once more if the table is not as it was found before. */
  async run<T>(
    operation: StoreOperation,
    key: string | undefined,
    options: CallOptions | undefined,
    work: (layout: Layout, query: Query, signal: CallSignal) => Promise<T>,
  ): Promise<T> {
    try {
      if (this.#closed) throw closed();
      return await this.#bounded(signalOf(options), async (signal) => {
        const query = this.#querying(signal);
        const layout = this.#known ?? (await abandonable(this.#find(), signal));
        try {
          return await work(layout, query, signal);
        } catch (error) {
          if (!isOtherTable(error)) throw error;
          this.#forget(layout);
          return await work(await abandonable(this.#find(), signal), query, signal);
        }
      });
    } catch (error) {
      throw asStoreError(error, { operation, key, table: this.#settings.names.shown });
    }
  }

  /** Tries until there is a result, a few times; undefined if there is none then. */
  async retry<T>(signal: CallSignal, attempt: () => Promise<T | undefined>): Promise<T | undefined> {
    for (let tries = 1; ; tries += 1) {
      const result = await attempt();
      if (result !== undefined || tries === TRIES) return result;
      await this.#pause(signal);
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
      const finding = this.#bounded(undefined, (signal) => this.#look(signal));
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

  async #look(signal: CallSignal): Promise<Layout> {
    const { names, autoMigrate, sessionTimeZone } = this.#settings;
    const query = this.#querying(signal);
    if (autoMigrate) await migrate(query, names, isMadeByOthers);
    const table = await describeExisting(query, names);
    return { table, statements: statementsFor(table, sessionTimeZone) };
  }

  #querying(signal: CallSignal): Query {
    return async (call) => {
      for (let attempt = 1; ; attempt += 1) {
        if (this.#closed) throw closed();
        try {
          return await this.#connection.ask(call, signal);
        } catch (error) {
          if (!isGivenWay(error) || attempt === TRIES) throw error;
        }
        await this.#pause(signal);
      }
    };
  }

  /** A moment by chance: transactions that were in each other's way must not meet again. */
  async #pause(signal: CallSignal): Promise<void> {
    const { runtime } = this.#settings;
    const pause = new Promise<void>((resolve) => {
      runtime.setTimer(resolve, LONGEST_PAUSE_MS * runtime.random());
    });
    await abandonable(pause, signal);
  }

  /** With the signal of the caller or, without one, with the limit of ours. */
  async #bounded<T>(signal: CallSignal | undefined, work: (signal: CallSignal) => Promise<T>): Promise<T> {
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

function closed(): Error {
  return new Error('the provider was closed');
}
