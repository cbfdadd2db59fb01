import { type CallSignal, GaveUp } from '../../provider/abandoning.js';
import { jittered, type Runtime } from '../../provider/runtime.js';
import { isBusy } from './errors.js';

/** Another process commits in about this time, so it is worth a look; then it is asked less and less often. */
const FIRST_DELAY_MS = 1;
const LONGEST_DELAY_MS = 4;
/**
 * How long the driver itself may wait, and this process stand still. Without it a process that only comes back
 * every few milliseconds hardly ever gets its turn among others that write without a pause.
 */
const PATIENCE_MS = 2;
/**
 * How long work may follow work before the event loop gets its turn. A caller that awaits one call after the
 * other never leaves the microtasks, since a synchronous driver has answered at once: timers would stand
 * still, and the renewals of other locks with them.
 */
const TURN_MS = 8;

interface Waiter {
  /** False: still busy. Otherwise the waiter is settled. */
  attempt(patienceMs: number): boolean;
  giveUp(why: unknown): void;
}

/**
 * Who waits for the write lock of the file, first come, first served.
 *
 * A SQLite driver is synchronous: while it waits for a lock of another process, the whole of this process
 * stands still, and the renewals of every other lock with it. So a driver is told to wait hardly at all, and
 * what finds the file busy queues here. One timer for all of them tries the first: a thousand waiters ask no
 * more often than one.
 */
export class BusyQueue {
  readonly #runtime: Runtime;
  readonly #limitMs: number;
  readonly #order: 'line' | 'each';
  readonly #urgent = new Set<Waiter>();
  readonly #ordinary = new Set<Waiter>();
  #cancelTimer: (() => void) | undefined;
  #delayMs = FIRST_DELAY_MS;
  /** When this turn of the event loop has worked enough; undefined before its first work. */
  #turnEndsAt: number | undefined;

  /**
   * @param limitMs how long is waited when there is no signal
   * @param order `'line'`: all wait on one handle, and what the first can not have, the others can not have either.
   * `'each'`: each waits on a handle of his own, and one of them may be whom the first waits for
   */
  constructor(runtime: Runtime, limitMs: number, order: 'line' | 'each' = 'line') {
    this.#runtime = runtime;
    this.#limitMs = limitMs;
    this.#order = order;
  }

  /**
   * Runs `work` now and, as long as the file is busy, again; until the signal aborts or, without one, the limit
   * has passed. A newcomer is not sent to the end of the queue unseen: in WAL mode reading is never blocked,
   * and most calls do no more than read. But it must not wait: a thousand newcomers would do it in a row.
   *
   * @param work told how long the driver may wait, in milliseconds
   * @param urgency `'urgent'` goes first: a renewal behind thousands who want the key would come too late
   * @param limitMs how long is waited at most, with a signal, too
   */
  run<T>(
    work: (patienceMs: number) => T,
    signal: CallSignal | undefined,
    urgency: 'urgent' | 'ordinary' = 'ordinary',
    limitMs: number = signal === undefined ? this.#limitMs : Number.POSITIVE_INFINITY,
  ): Promise<T> {
    if (signal?.aborted) return Promise.reject(new GaveUp(signal.reason));
    let busy: unknown;
    if (this.#turnIsOver()) this.#delayMs = 0;
    else {
      try {
        return Promise.resolve(work(this.#isEmpty ? PATIENCE_MS : 0));
      } catch (error) {
        if (!isBusy(error)) return Promise.reject(error);
        busy = error;
      }
    }
    return this.#wait(work, signal, urgency === 'urgent' ? this.#urgent : this.#ordinary, limitMs, busy);
  }

  /** @param busy what was found at the first try, if there was one */
  #wait<T>(
    work: (patienceMs: number) => T,
    signal: CallSignal | undefined,
    waiters: Set<Waiter>,
    limitMs: number,
    busy: unknown,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const startedAt = this.#runtime.monotonic();
      let found = busy;
      const settle = (): void => {
        waiters.delete(waiter);
        cancelLimit?.();
        signal?.removeEventListener('abort', stop);
        if (this.#isEmpty) this.#rest();
      };
      const waiter: Waiter = {
        attempt: (patienceMs) => {
          try {
            resolve(work(patienceMs));
          } catch (error) {
            found = error;
            if (isBusy(error)) return false;
            reject(error);
          }
          settle();
          return true;
        },
        giveUp: (why) => {
          settle();
          reject(why);
        },
      };
      const stop = (): void => {
        // Who only waited for his turn so far, gets it before the limit ends it.
        if (found === undefined && signal?.aborted !== true && waiter.attempt(0)) return;
        waiter.giveUp(new GaveUp(found, this.#runtime.monotonic() - startedAt));
      };
      const bounded = limitMs < Number.POSITIVE_INFINITY;
      const cancelLimit = bounded ? this.#runtime.setTimer(stop, limitMs) : undefined;
      signal?.addEventListener('abort', stop);
      waiters.add(waiter);
      this.#arm();
    });
  }

  /** Lets everybody go who still waits. */
  dismiss(why: unknown): void {
    for (const waiter of [...this.#urgent, ...this.#ordinary]) waiter.giveUp(why);
  }

  #arm(): void {
    // Jitter: processes that found the file busy together must not come back together.
    const delay = jittered(this.#runtime, this.#delayMs);
    this.#cancelTimer ??= this.#runtime.setTimer(() => this.#serve(), delay);
  }

  #serve(): void {
    this.#cancelTimer = undefined;
    let patienceMs = PATIENCE_MS;
    for (const waiter of [...this.#urgent, ...this.#ordinary]) {
      if (waiter.attempt(patienceMs)) this.#delayMs = FIRST_DELAY_MS;
      else {
        this.#delayMs = Math.min(Math.max(this.#delayMs * 2, FIRST_DELAY_MS), LONGEST_DELAY_MS);
        if (this.#order === 'line') break;
        patienceMs = 0;
        continue;
      }
      if (this.#turnIsOver()) break;
    }
    if (!this.#isEmpty) this.#arm();
  }

  get #isEmpty(): boolean {
    return this.#urgent.size === 0 && this.#ordinary.size === 0;
  }

  #turnIsOver(): boolean {
    const now = this.#runtime.monotonic();
    if (this.#turnEndsAt === undefined) {
      this.#turnEndsAt = now + TURN_MS;
      const nextTurn = (): void => {
        this.#turnEndsAt = undefined;
      };
      this.#runtime.setTimer(nextTurn, 0, { background: true });
    }
    return now >= this.#turnEndsAt;
  }

  #rest(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#delayMs = FIRST_DELAY_MS;
  }
}
