import type { LockProvider } from '../../provider/lock-provider.js';
import type { Runtime } from '../../provider/runtime.js';

/** What the contract suite has to know of a store. Only `open` is required; the rest lets it check more. */
export interface ContractOptions {
  /**
   * Opens a client of the store under test. Called several times in a case: all of them share one store, as
   * several instances of a fleet do. What it opened is closed with the provider's `close`.
   */
  readonly open: () => LockProvider | Promise<LockProvider>;
  /** For a store whose time the test drives. Default: the cases wait for real. */
  readonly clock?: ContractClock | undefined;
  /**
   * Opens a client whose host's wall clock is off by so many milliseconds (a store with a clock of its own
   * must not mind). Default: what it would check is skipped.
   */
  readonly openSkewed?: ((wallOffsetMs: number) => LockProvider | Promise<LockProvider>) | undefined;
  /** Removes the record of a key behind the provider's back, as a person with a console would. */
  readonly deleteRecord?: ((key: string) => Promise<void> | void) | undefined;
  /**
   * Writes the record that an earlier version, or a compatible library, left of a key yesterday: free since
   * then, with every optional field missing.
   */
  readonly writeOldRecord?: ((key: string) => Promise<void> | void) | undefined;
  /**
   * Has somebody else hold what writing the record of a key needs (a row lock, an open transaction), until
   * the function that it hands back is called.
   */
  readonly obstruct?: ((key: string) => Promise<() => Promise<void> | void>) | undefined;
  /** For a store that can guard: opens a transaction of the application, on a connection of its own. */
  readonly beginTransaction?: (() => Promise<ContractTransaction>) | undefined;
  /** What could send statements within a transaction, and has none open. */
  readonly notBegun?: (() => Promise<Pick<ContractTransaction, 'transaction' | 'rollback'>>) | undefined;
  /**
   * The store has one lock for everything: while a transaction of the application keeps it, all others wait. What can
   * only be seen beside an open transaction is skipped.
   */
  readonly oneWriter?: boolean | undefined;
  /** Makes the store unreachable until the function that it hands back is called. */
  readonly interrupt?: (() => Promise<() => Promise<void> | void>) | undefined;
  /**
   * A module that exports `open()`, imported by the worker processes of the multi-process cases: a `file:`
   * URL of plain JavaScript, or of what the running Node imports without flags. What `open` must know (a path,
   * a connection string) goes into `env` or into the URL's query, which some test runners cut off for
   * themselves.
   */
  readonly moduleUrl?: string | URL | undefined;
  /** Added to the environment of the worker processes. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /**
   * Starts every key of this run, so that runs over one store do not meet; never the same twice, since stores
   * remember slots and tokens. Default: a random one.
   */
  readonly prefix?: string | undefined;
  readonly limits?: ContractLimits | undefined;
  /** For real waiting and for chance. Default: Node's. Not the clock of the store: that is `clock`. */
  readonly runtime?: Runtime | undefined;
}

export interface ContractTransaction {
  /** What `LockProvider.guard` is given. */
  readonly transaction: object;
  /** Ends it, and closes what was opened for it. */
  commit(): Promise<void>;
  /** The same; of one that is not open, only the latter. */
  rollback(): Promise<void>;
}

export interface ContractClock {
  /** Lets so many milliseconds pass for the store. */
  advance(ms: number): Promise<void> | void;
}

export interface ContractLimits {
  /** The shortest lease the store keeps reliably; cases that wait use a few of these. Default 100 ms. */
  readonly shortestLeaseMs?: number | undefined;
  /** How coarse the store's clock is. Default 5 ms, and 0 with a `clock` that the test drives. */
  readonly timeUnitMs?: number | undefined;
  /** How many grants one `renewMany` is tried with. Default 1,000. */
  readonly manyGrants?: number | undefined;
  /** Every call must have been answered within this real time. Default 10 s. */
  readonly answerMs?: number | undefined;
  /** Contending processes. Default 8. */
  readonly processes?: number | undefined;
  /** Rounds of each contending process. Default 15. */
  readonly rounds?: number | undefined;
}
