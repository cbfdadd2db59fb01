import { abandonable, signalOf } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions, GuardRequest } from '../../provider/lock-provider.js';
import { BusyQueue } from './busy.js';
import { findDriver } from './client.js';
import { Connection } from './connection.js';
import { asStoreError, isBroken, isMissingTable } from './errors.js';
import { identityOf } from './file.js';
import { Guest } from './guest.js';
import type { Settings } from './options.js';
import { ensureTable } from './schema.js';

/** What a holder does, for whom time runs out. */
const URGENT: ReadonlySet<StoreOperation> = new Set(['renew', 'release']);

const REPLACED = Symbol('replaced');

/** The connection of a provider over time: opened on first use, shared by all calls, opened again if it broke. */
export class Session {
  readonly #settings: Settings;
  readonly #queue: BusyQueue;
  /**
   * Guards, on handles of the application. Not in line with our own work: that may wait for the very transaction
   * which ends only when its guard was answered.
   */
  readonly #guards: BusyQueue;
  #opening: Promise<Connection> | undefined;
  /** What the opening led to, and the file that was at our path then. */
  #opened: { readonly connection: Connection; readonly identity: string | undefined } | undefined;
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#queue = new BusyQueue(settings.runtime, settings.busyTimeoutMs);
    this.#guards = new BusyQueue(settings.runtime, settings.busyTimeoutMs, 'each');
  }

  /** Does `work` in one turn of the event loop, and all of it again while the file is busy. */
  async run<T>(
    operation: StoreOperation,
    key: string | undefined,
    options: CallOptions | undefined,
    work: (connection: Connection) => T,
  ): Promise<T> {
    const { source, table } = this.#settings;
    const signal = signalOf(options);
    let connection: Connection | undefined;
    try {
      const usable = this.#opened?.connection ?? (await abandonable(this.#connect(), signal));
      connection = usable;
      if (this.#closed) throw closed();
      const answer = await this.#queue.run(
        (patienceMs) => {
          this.#leaveOldFile();
          if (this.#opened?.connection !== usable) return REPLACED;
          usable.assertIdle();
          usable.bePatient(patienceMs);
          return this.#withTable(usable, work);
        },
        signal,
        URGENT.has(operation) ? 'urgent' : 'ordinary',
      );
      return answer === REPLACED ? await this.run(operation, key, options, work) : answer;
    } catch (error) {
      // A file that came back (a volume mounted again, a file restored) is only seen by a new handle.
      if (connection && source.kind === 'path' && isBroken(error)) this.#letGo(connection);
      const file = source.kind === 'path' ? source.path : undefined;
      throw asStoreError(error, { operation, key, table, file });
    }
  }

  /** Does `work` in a transaction that is open on a handle of the caller, and again while the file is busy. */
  async runWithin<T>(
    request: GuardRequest,
    transaction: object,
    options: CallOptions | undefined,
    work: (connection: Connection) => T,
  ): Promise<T> {
    const { source, table } = this.#settings;
    const { key, leftMs } = request;
    try {
      if (this.#closed) throw closed();
      const guest = new Guest(transaction, source, key);
      const attempt = (patienceMs: number): T => guest.run(patienceMs, work);
      return await this.#guards.run(attempt, signalOf(options), 'ordinary', leftMs);
    } catch (error) {
      const file = source.kind === 'path' ? source.path : undefined;
      throw asStoreError(error, { operation: 'guard', key, table, file });
    }
  }

  /** Lets the event loop have its turn. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#settings.runtime.setTimer(resolve, 0);
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#queue.dismiss(closed());
    this.#guards.dismiss(closed());
    // An opening that is under way sees that we are closed, and fails.
    const connection = await this.#opening?.catch(() => undefined);
    if (connection) this.#letGo(connection);
  }

  /** Makes a table again that vanished or lost a column, and goes on; once. */
  #withTable<T>(connection: Connection, work: (connection: Connection) => T): T {
    try {
      return work(connection);
    } catch (error) {
      if (!isMissingTable(error)) throw error;
      ensureTable(connection, this.#settings.table);
      return work(connection);
    }
  }

  /** Callers that come together share one opening; one that failed is tried again by the next caller. */
  #connect(): Promise<Connection> {
    if (this.#closed) return Promise.reject(closed());
    if (this.#opening === undefined) {
      const opening = this.#open();
      this.#opening = opening;
      opening.catch(() => {
        if (this.#opening === opening) this.#opening = undefined;
      });
    }
    return this.#opening;
  }

  async #open(): Promise<Connection> {
    const { source, table } = this.#settings;
    const open = source.kind === 'path' ? await findDriver(source.driver) : () => source.database;
    if (this.#closed) throw closed();
    const connection = new Connection(open(source.kind === 'path' ? source.path : ''));
    try {
      // Not bounded by the signal of the caller that came first: the others wait for it too.
      await this.#queue.run((patienceMs) => {
        connection.assertIdle();
        connection.bePatient(patienceMs);
        connection.checkVersion();
        if (source.kind === 'path') connection.tuneFile();
        ensureTable(connection, table);
      }, undefined);
      this.#opened = { connection, identity: source.kind === 'path' ? identityOf(source.path) : undefined };
      return connection;
    } catch (error) {
      this.#letGo(connection);
      throw error;
    }
  }

  /**
   * A file that was deleted or replaced lives on for those who have it open, and they would no longer see
   * those who come later: both could hold a key. So the path is looked at before each try of
   * a call: the file may have been replaced while that waited for its turn.
   */
  #leaveOldFile(): void {
    const { source } = this.#settings;
    const opened = this.#opened;
    if (opened?.identity === undefined || source.kind !== 'path') return;
    if (identityOf(source.path) !== opened.identity) this.#letGo(opened.connection);
  }

  #letGo(connection: Connection): void {
    this.#opening = undefined;
    this.#opened = undefined;
    if (this.#settings.source.kind === 'path') connection.close();
  }
}

function closed(): Error {
  return new Error('the provider was closed.');
}
