import { abandonable, type CallSignal, GaveUp, signalOf } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions } from '../../provider/lock-provider.js';
import { FoundOnce } from '../sql/found-once.js';
import { closed, stepAside, TRIES, withinTime } from '../sql/within-time.js';
import { type Connection, connectionTo } from './connection.js';
import {
  asStoreError,
  isGivenWay,
  isLockedByOthers,
  isMadeByOthers,
  isOtherTable,
  OpenTransaction,
} from './errors.js';
import { waitAtMost } from './gate.js';
import type { Settings } from './options.js';
import { describeExisting, migrate, type Query, type Script, type Table } from './schema.js';
import type { Call } from './statement.js';
import { type Statements, statementsFor } from './statements.js';

/** How long to wait for a lock on the table that nobody let go of in time before. */
const TABLE_WAIT_MS = 50;
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
  /**
   * A call was given up. Maybe somebody has a lock on the whole table (`alter table`), which a statement waits for
   * before anything in it is executed, our limit too. So the next call first has the server try, for a moment:
   * not each of them shall wait, and leave a statement that still waits when its caller is long gone.
   */
  #stalled = false;
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
    work: (layout: Layout, query: Query) => Promise<T>,
  ): Promise<T> {
    return this.#call(operation, key, options, async (layout, query, signal) => {
      try {
        return await work(layout, query);
      } catch (error) {
        if (!isOtherTable(error)) throw error;
        this.#layout.forget(layout);
        return await work(await abandonable(this.#layout.find(), signal), query);
      }
    });
  }

  /**
   * Does `work` in a transaction of the caller's, where nothing can be sent again after an error. What was sent there can
   * not be taken back when the caller gives up either.
   */
  guard<T>(
    key: string,
    options: CallOptions | undefined,
    work: (layout: Layout, query: Query) => Promise<T>,
  ): Promise<T> {
    return this.#call('guard', key, options, (layout, query, signal) =>
      abandonable(work(layout, query), signal),
    );
  }

  async #call<T>(
    operation: StoreOperation,
    key: string | undefined,
    options: CallOptions | undefined,
    work: (layout: Layout, query: Query, signal: CallSignal) => Promise<T>,
  ): Promise<T> {
    try {
      if (this.#closed) throw closed();
      return await withinTime(signalOf(options), this.#settings, async (signal) => {
        const layout = this.#layout.known ?? (await abandonable(this.#layout.find(), signal));
        return work(layout, this.#querying(signal), signal);
      });
    } catch (error) {
      throw asStoreError(error, { operation, key, table: this.#settings.names.shown });
    }
  }

  /** Makes or completes the table; answers the statements that were needed. */
  async migrate(): Promise<string[]> {
    const { names } = this.#settings;
    try {
      return await withinTime(undefined, this.#settings, (signal) =>
        migrate(this.#querying(signal), this.#scripting(signal), names, isMadeByOthers),
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
    const { names, autoMigrate } = this.#settings;
    const query = this.#querying(signal);
    if (autoMigrate) await migrate(query, this.#scripting(signal), names, isMadeByOthers);
    const table = await describeExisting(query, names);
    return { table, statements: statementsFor(table) };
  }

  #querying(signal: CallSignal): Query {
    return async <T>(call: Call): Promise<T[]> => {
      for (let attempt = 1; ; attempt += 1) {
        if (this.#closed) throw closed();
        try {
          if (this.#stalled) await this.#tryTable(signal);
          const rows = await this.#connection.ask(call, signal);
          if (rows.length === 0 && call.statement.answers) throw new OpenTransaction();
          return rows.map((row) => JSON.parse(row) as T);
        } catch (error) {
          if (error instanceof GaveUp) this.#stalled = true;
          if (!isGivenWay(error) || attempt === TRIES) throw error;
        }
        await stepAside(this.#settings.runtime, signal);
      }
    };
  }

  async #tryTable(signal: CallSignal): Promise<void> {
    const lock = `lock table ${this.#settings.names.quoted} in row exclusive mode`;
    try {
      await this.#connection.script(`${waitAtMost(TABLE_WAIT_MS)};\n${lock}`, signal);
    } catch (error) {
      // Of anything else the statement itself will tell.
      if (error instanceof GaveUp || isLockedByOthers(error)) throw error;
    }
    this.#stalled = false;
  }

  #scripting(signal: CallSignal): Script {
    return (statements) => this.#connection.script(statements.join(';\n'), signal);
  }
}
