import type { CallOptions, RenewRequest, RenewResult } from '../provider/lock-provider.js';
import { jittered, type Runtime } from '../provider/runtime.js';
import { show } from '../provider/values.js';
import type { HeldLock } from './held-lock.js';
import { callStore, type StoreCall } from './store-call.js';

type RenewMany = (requests: readonly RenewRequest[], options: CallOptions) => Promise<readonly RenewResult[]>;

/** After a failed renewal: a tenth of the lease, at most a second, jittered. */
const RETRY_PER_LEASE = 10;
const LONGEST_RETRY_MS = 1_000;
/** A renewal call gets a third of the lease at most, so that one that hangs leaves time for another. */
const CALLS_PER_LEASE = 3;

/**
 * Beats for every lock that a client holds: one timer, and one call of the store for all that are due, however
 * many they are. The same timer notices deadlines.
 */
export class Keeper {
  readonly #locks = new Set<HeldLock>();
  readonly #calls = new Set<StoreCall<unknown>>();
  readonly #runtime: Runtime;
  readonly #storeTimeoutMs: number;
  readonly #renewMany: RenewMany;
  readonly #onError: (error: unknown, locks: readonly HeldLock[]) => void;
  #cancelTimer: (() => void) | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #inBackground = true;
  /** How many of the locks have a function running under them. */
  #functions = 0;

  constructor(
    runtime: Runtime,
    storeTimeoutMs: number,
    renewMany: RenewMany,
    onError: (error: unknown, locks: readonly HeldLock[]) => void,
  ) {
    this.#runtime = runtime;
    this.#storeTimeoutMs = storeTimeoutMs;
    this.#renewMany = renewMany;
    this.#onError = onError;
  }

  get locks(): ReadonlySet<HeldLock> {
    return this.#locks;
  }

  add(lock: HeldLock): void {
    this.#locks.add(lock);
    if (lock.heldBy === 'function') this.#functions += 1;
    this.#wakeAt(lock.nextEventAt);
  }

  /** The timer's moment is left as it is: it wakes for nothing at most once. With the last lock it goes. */
  remove(lock: HeldLock): void {
    if (!this.#locks.delete(lock)) return;
    if (lock.heldBy === 'function') this.#functions -= 1;
    if (this.#locks.size > 0) {
      this.#wakeAt(this.#timerAt);
      return;
    }
    this.#disarm();
    // Nobody waits for these any more, and they must not keep the process alive.
    for (const call of this.#calls) call.cancel(new Error('The last lock was given back.'));
  }

  /** A lock's next event may have moved nearer. */
  moved(lock: HeldLock): void {
    if (this.#locks.has(lock)) this.#wakeAt(lock.nextEventAt);
  }

  /** Wakes at this moment or at the one that was planned, if that is nearer. */
  #wakeAt(moment: number): void {
    const at = Math.min(moment, this.#timerAt);
    const background = this.#functions === 0;
    if (at === this.#timerAt && background === this.#inBackground) return;
    this.#disarm();
    if (at === Number.POSITIVE_INFINITY) return;
    this.#timerAt = at;
    this.#inBackground = background;
    const delayMs = at - this.#runtime.monotonic();
    this.#cancelTimer = this.#runtime.setTimer(() => this.#wake(), delayMs, { background });
  }

  #disarm(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
  }

  #wake(): void {
    this.#disarm();
    // Losing removes from the set, which a Set's iteration bears.
    for (const lock of this.#locks) lock.noticeLoss();

    const now = this.#runtime.monotonic();
    const locks = [...this.#locks];
    if (locks.some((lock) => lock.nextEventAt <= now)) {
      const due = locks.filter((lock) => lock.isDue(now));
      if (due.length > 0) this.#renew(due);
    }
    let next = Number.POSITIVE_INFINITY;
    for (const lock of this.#locks) next = Math.min(next, lock.nextEventAt);
    this.#wakeAt(next);
  }

  #renew(locks: readonly HeldLock[]): void {
    const sentAt = this.#runtime.monotonic();
    const requests = locks.map((lock) => lock.beginRenewal(sentAt));
    const shortest = locks.reduce(
      (least, lock) => Math.min(least, lock.renewLeaseMs as number),
      Number.POSITIVE_INFINITY,
    );
    const timeoutMs = Math.min(this.#storeTimeoutMs, Math.ceil(shortest / CALLS_PER_LEASE));
    const call = callStore(this.#runtime, { operation: 'renew', timeoutMs }, (options) =>
      this.#renewMany(requests, options).then((results) => expectResults(results, requests.length)),
    );
    this.#calls.add(call);
    this.#apply(call, locks, requests, sentAt);
  }

  #apply(
    call: StoreCall<readonly RenewResult[]>,
    locks: readonly HeldLock[],
    requests: readonly RenewRequest[],
    sentAt: number,
  ): void {
    // The provider's own answer counts, however late: the store did renew then, and the deadline is counted
    // from the send. Whether it comes too late is for the lock to say.
    call.answer.then(
      (results) =>
        locks.forEach((lock, i) => {
          const result = results[i];
          if (result === 'ok') lock.renewed(sentAt, (requests[i] as RenewRequest).leaseMs);
          else if (result === 'lost') lock.lose('renewal');
          else this.#retryLater(lock);
          this.moved(lock);
        }),
      () => {},
    );
    const failed = (error: unknown): void => {
      const concerned = locks.filter((lock) => this.#locks.has(lock));
      for (const lock of concerned) {
        this.#retryLater(lock);
        this.moved(lock);
      }
      if (concerned.length > 0) this.#onError(error, concerned);
    };
    call.bounded.catch(failed).finally(() => this.#calls.delete(call));
  }

  #retryLater(lock: HeldLock): void {
    const backoff = Math.min((lock.renewLeaseMs as number) / RETRY_PER_LEASE, LONGEST_RETRY_MS);
    lock.retryAt(this.#runtime.monotonic() + jittered(this.#runtime, backoff));
  }
}

/** What a provider answers to a renewal, if it is what the specification says. */
export function expectResults(results: readonly RenewResult[], count: number): readonly RenewResult[] {
  if (Array.isArray(results) && results.length === count) return results;
  throw new TypeError(`the provider answered the renewal of ${count} grants with ${show(results)}`);
}
