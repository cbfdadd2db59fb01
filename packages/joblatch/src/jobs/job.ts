import type { Lock } from '../lock/lock.js';
import type { LossDetection } from '../provider/errors.js';
import type { Duration } from '../provider/values.js';

export interface JobOptions {
  /** The key. Default: the name of the function; no two jobs of a client may have the same default name. */
  readonly name?: string | undefined;
  /**
   * When the key frees itself if the process dies: how long the longest run takes, and some. The run must
   * end before; `signal` aborts when it did not. With `keepAlive` the cap of the whole hold.
   */
  readonly lockAtMostFor?: Duration | undefined;
  /** The key stays taken this long after the acquisition, however soon the run ends. Default 0. */
  readonly lockAtLeastFor?: Duration | undefined;
  /** Renew a short lease while the run lasts, so that a crash frees the key within 30 s. Default false. */
  readonly keepAlive?: boolean | undefined;
  /** One run in every such period, aligned to UTC by the store's clock: 1 s to 31 days. */
  readonly oncePer?: Duration | undefined;
  /**
   * What a slot, named by the call or by `oncePer`, promises. `'at-most-once'` (default): claimed with the
   * lock, nobody runs it again. `'at-least-once'`: recorded when the run succeeded; a failed or crashed one
   * may be tried again in the same slot, one at a time.
   */
  readonly perSlot?: 'at-most-once' | 'at-least-once' | undefined;
}

/** What the function of a job gets. */
export interface JobContext {
  readonly name: string;
  /** Aborts when the lock is lost or the client stops: pass it on to whatever the job waits for. */
  readonly signal: AbortSignal;
  /** The fencing token of this run. */
  readonly token: number;
  readonly lock: Lock;
  /** The slot of this run, if it has one: epoch milliseconds. */
  readonly slot: number | undefined;
  /** @throws LockLostError if the lock is no longer held: call it before every effect that must not happen twice */
  assertHeld(): void;
}

/** Of a job with `oncePer`: each run has a slot. */
export interface SlotContext extends JobContext {
  readonly slot: number;
}

export type JobFunction<T, C extends JobContext = JobContext> = (context: C) => T | PromiseLike<T>;

export type Outcome<T> = Ran<T> | Skipped | Lost<T>;

export interface Ran<T> {
  readonly status: 'ran';
  readonly value: T;
  readonly token: number;
  readonly tookMs: number;
}

export interface Skipped {
  readonly status: 'skipped';
  /** Another one runs it or ran it too recently; its slot is taken; or this client is stopping. */
  readonly reason: 'held' | 'slot' | 'stopping';
  /** How long the present lease still runs, where the store could tell. */
  readonly leftMs?: number | undefined;
}

/** It ran, but the lock was lost before it ended: another instance may have run it at the same time. */
export interface Lost<T> {
  readonly status: 'lost';
  readonly detectedBy: LossDetection;
  readonly token: number;
  readonly tookMs: number;
  /** What the function returned, if it did. */
  readonly value?: T;
  /** What the function threw, if it did. */
  readonly error?: unknown;
}

/** A function that a scheduler may call in every instance, and that runs in one. */
export interface Job<T> {
  /**
   * Tries once and never waits. Resolves to the outcome; rejects with the function's own error, or with a
   * `LockStoreError`. Of the argument only a plain object's own `slot` is read (epoch ms or a Date): the
   * instant that the schedule meant.
   */
  (arg?: unknown): Promise<Outcome<T>>;
  /** For timers: ignores its arguments, never throws or rejects, and reports errors to the listeners. */
  readonly tick: () => void;
  /** The key. */
  readonly jobName: string;
}
