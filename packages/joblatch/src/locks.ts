import type { Job, JobFunction, JobOptions, SlotContext } from './jobs/job.js';
import type { LockEventName, LockListener } from './lock/events.js';
import type { Lock } from './lock/lock.js';
import type { AcquireOptions, TryAcquireOptions } from './lock/options.js';
import type { LockProvider } from './provider/lock-provider.js';
import type { Duration } from './provider/values.js';

/** A client: locks and jobs over one store. */
export interface Locks {
  readonly provider: LockProvider;
  /**
   * Tries once: the lock, or undefined when somebody else has the key or the slot is taken.
   *
   * @throws LockStoreError if the store failed or its answer came too late to be used
   * @throws LockOptionsError
   */
  tryAcquire(key: string, options?: TryAcquireOptions): Promise<Lock | undefined>;
  /**
   * Waits for the key, up to `wait`.
   *
   * @throws LockNotAcquiredError when the time is up, or at once when the slot is taken
   * @throws LockStoreError if the store failed or its answer came too late to be used
   */
  acquire(key: string, options?: AcquireOptions): Promise<Lock>;
  /**
   * Runs a function inside a lock and gives back what it returns.
   *
   * @throws LockLostError with the function's `result`, after the function has settled, if the lock was lost meanwhile
   * @throws whatever the function throws, as it is; an error of the release never replaces it
   */
  withLock<T>(key: string, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>;
  withLock<T>(key: string, options: AcquireOptions, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>;
  /** Makes a job of a function. @throws LockOptionsError for options that can not be right */
  job<T>(options: JobOptions & { readonly oncePer: Duration }, fn: JobFunction<T, SlotContext>): Job<T>;
  job<T>(options: JobOptions, fn: JobFunction<T>): Job<T>;
  /** Adds a listener; returns a function that removes it. What a listener throws changes nothing. */
  on<E extends LockEventName>(event: E, listener: LockListener<E>): () => void;
  /**
   * Drains: starts nothing new, waits up to `grace` (default 30 s) for what runs and is held, then aborts the
   * signals of the rest, gives every lock back and resolves. Only then close the pool. A function that goes on
   * in spite of its aborted signal is not waited for. Calling again may shorten the grace.
   */
  stop(options?: { readonly grace?: Duration | undefined }): Promise<void>;
  /** {@link stop}, then closes what the provider itself opened. */
  close(options?: { readonly grace?: Duration | undefined }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
