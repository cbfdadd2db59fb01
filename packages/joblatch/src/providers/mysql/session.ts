import { abandonable, type CallSignal, signalOf } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions } from '../../provider/lock-provider.js';
import { FoundOnce } from '../sql/found-once.js';
import { closed, stepAside, TRIES, withinTime } from '../sql/within-time.js';
import { type Connection, connectionTo } from './connection.js';
import { asStoreError, isGivenWay, isMadeByOthers, isOtherTable } from './errors.js';
import type { Settings } from './options.js';
import { describeExisting, migrate, type Query, type Table } from './schema.js';
import { type Statements, statementsFor } from './statements.js';

/** The table with its statements. */
export interface Layout {
  readonly table: Table;
  readonly statements: Statements;
}

/** The way to the server over time, and the table as it was found on first use. */
export class Session {
  readonly #settings: Settings;
  readonly #connection: Connection;
  readonly #layout: FoundOnce<Layout>;
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#connection = connectionTo(settings.source, settings.runtime, settings.prepare);
    // Not bounded by the signal of the caller that comes first: the others wait for it too.
    this.#layout = new FoundOnce(() => withinTime(undefined, settings, (signal) => this.#look(signal)));
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
      return await withinTime(signalOf(options), this.#settings, async (signal) => {
        const query = this.#querying(signal);
        const layout = this.#layout.known ?? (await abandonable(this.#layout.find(), signal));
        try {
          return await work(layout, query, signal);
        } catch (error) {
          if (!isOtherTable(error)) throw error;
          this.#layout.forget(layout);
          return await work(await abandonable(this.#layout.find(), signal), query, signal);
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
      await stepAside(this.#settings.runtime, signal);
    }
  }

  /** Makes or completes the table; answers the statements that were needed. */
  async migrate(): Promise<string[]> {
    const { names } = this.#settings;
    try {
      return await withinTime(undefined, this.#settings, (signal) =>
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
        await stepAside(this.#settings.runtime, signal);
      }
    };
  }
}
