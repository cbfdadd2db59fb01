import type { Duration } from '../provider/values.js';

/** One acquisition, as its holder sees it. */
export interface Lock {
  readonly key: string;
  /** Greater than that of every earlier acquisition of the key: hand it to the resource that is written. */
  readonly token: number;
  /** The id of this acquisition in the store. */
  readonly owner: string;
  /** The slot that was claimed or compared, if there was one: epoch milliseconds. */
  readonly slot: number | undefined;
  /**
   * Aborts when the lock is lost, with a `LockLostError` as the reason. Due at the deadline, and comes as
   * soon as the event loop turns; for an exact answer read {@link held}. Made when first read.
   */
  readonly signal: AbortSignal;
  /**
   * Whether the holder may still act: exact when read, even when the event loop was blocked or the machine
   * suspended. Counted from the moment the request was sent, less 1 % of the lease and 2 ms.
   */
  readonly held: boolean;
  /** How long the holder may still act if nothing renews the lock: milliseconds, 0 when not held. */
  readonly leftMs: number;
  /** @throws LockLostError if the lock is not {@link held} */
  assertHeld(): void;
  /**
   * Prolongs the lease to run for `duration` from now; a lease that already runs longer stays. With the
   * watchdog, renewals go on from there.
   *
   * @param options.atLeast keep the key taken until this long after the acquisition, even if released earlier
   * @throws LockLostError if the lock was lost, which this finds out at the latest
   * @throws LockStoreError if the store failed; the lock is held as long as it was before
   */
  extend(duration: Duration, options?: { readonly atLeast?: Duration | undefined }): Promise<void>;
  /**
   * Proves inside a transaction of yours that this lock is still held, and keeps the key until that transaction
   * ends. What the transaction writes is then committed only if nobody has taken the key since; a check without
   * it leaves a moment between the check and the commit, in which a process may be paused for long.
   *
   * Call it once in a transaction, before or after its statements: early keeps others out for longer, late tells a
   * loss only then. Under REPEATABLE READ and SERIALIZABLE call it first. Others are refused meanwhile and do
   * not wait; renewals go on.
   *
   * @param transaction what you send the statements of the open transaction with: for PostgreSQL a client of
   * `pg`, the `sql` of `begin` of postgres.js or the `tx` of PGlite; for MariaDB and MySQL a connection of
   * `mysql2` or `mariadb`; for SQLite the database
   * @throws LockLostError if the lock is not held any more: roll back
   * @throws LockStoreError if the database failed or did not answer in time: roll back
   * @throws LockOptionsError if this is no open transaction, or the store has none (Redis, memory)
   */
  guard(transaction: object): Promise<void>;
  /**
   * Gives the lock back: true if it was held until now, by the store's word. A second call gives false.
   *
   * @throws LockStoreError if the store failed. Giving back is then tried again in the background until the
   * lease has run out.
   */
  release(): Promise<boolean>;
  /** Releases if that was not done; never throws, so that it can not hide the error of the block. */
  [Symbol.asyncDispose](): Promise<void>;
}
