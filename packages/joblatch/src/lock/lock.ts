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
   * Gives the lock back: true if it was held until now, by the store's word. A second call gives false.
   *
   * @throws LockStoreError if the store failed. Giving back is then tried again in the background until the
   * lease has run out.
   */
  release(): Promise<boolean>;
  /** Releases if that was not done; never throws, so that it can not hide the error of the block. */
  [Symbol.asyncDispose](): Promise<void>;
}
