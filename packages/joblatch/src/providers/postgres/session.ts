import { abandonable, type CallSignal, GaveUp, signalOf } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions } from '../../provider/lock-provider.js';
import type { Runtime } from '../../provider/runtime.js';
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
        this.#forget(layout);
        return await work(await abandonable(this.#find(), signal), query);
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
      return await this.#bounded(signalOf(options), async (signal) => {
        const layout = this.#known ?? (await abandonable(this.#find(), signal));
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
      return await this.#bounded(undefined, (signal) =>
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
        await abandonable(pause(this.#settings.runtime), signal);
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

/** A moment by chance: transactions that were in each other's way must not meet again. */
function pause(runtime: Runtime): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, LONGEST_PAUSE_MS * runtime.random());
  });
}

function closed(): Error {
  return new Error('the provider was closed');
}
