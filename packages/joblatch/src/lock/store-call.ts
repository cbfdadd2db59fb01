import type { CallSignal, OwnCallOptions } from '../provider/abandoning.js';
import { isLockError, LockStoreError, type StoreOperation } from '../provider/errors.js';
import type { ReleaseRequest } from '../provider/lock-provider.js';
import { jittered, outsideOfAnyContext, type Runtime } from '../provider/runtime.js';
import { messageOf } from '../provider/values.js';
import { onAbort, settledWithin } from './activity.js';

export interface StoreCall<T> {
  /** Settles within the time-out, or as soon as the caller's signal aborts. */
  readonly bounded: Promise<T>;
  /** The provider's own answer, however late. Never unhandled. */
  readonly answer: Promise<T>;
  /** Gives the call up: `bounded` rejects with the reason, and the provider is told. */
  cancel(reason: unknown): void;
}

export interface CallLimits {
  readonly operation: StoreOperation;
  readonly key?: string | undefined;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Calls a provider so that the caller never waits longer than the limits say, whatever the provider does. */
export function callStore<T>(
  runtime: Runtime,
  limits: CallLimits,
  call: (options: OwnCallOptions) => Promise<T>,
): StoreCall<T> {
  const cancellation = new Cancellation();
  const answer = invoke(call, cancellation);
  let cancel: (reason: unknown) => void = () => {};
  const bounded = new Promise<T>((resolve, reject) => {
    const settle = (): void => {
      stopTimer();
      stopListening();
    };
    cancel = (reason) => {
      settle();
      reject(reason);
      cancellation.abort(reason);
    };
    const stopTimer = runtime.setTimer(() => cancel(timeoutError(limits)), limits.timeoutMs);
    const stopListening = onAbort(limits.signal, cancel);
    if (limits.signal?.aborted) cancel(limits.signal.reason);
    answer.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(asStoreError(error, limits));
      },
    );
  });
  return { bounded, answer, cancel };
}

const NONE: readonly never[] = [];

/** The options of a call, and their light signal. */
class Cancellation implements OwnCallOptions, CallSignal {
  aborted = false;
  reason: unknown;
  /** One, as a rule; never changed, so that a listener may take itself off while they are told. */
  #listeners: readonly (() => void)[] = NONE;
  #controller: AbortController | undefined;

  get lightSignal(): CallSignal {
    return this;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.aborted) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  addEventListener(_event: 'abort', listener: () => void): void {
    this.#listeners = [...this.#listeners, listener];
  }

  removeEventListener(_event: 'abort', listener: () => void): void {
    const others = this.#listeners.filter((one) => one !== listener);
    this.#listeners = others.length > 0 ? others : NONE;
  }

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
    this.#controller?.abort(reason);
  }
}

/** A provider of somebody else may throw, or answer without a promise. */
function invoke<T>(call: (options: OwnCallOptions) => Promise<T>, options: OwnCallOptions): Promise<T> {
  try {
    return Promise.resolve(call(options));
  } catch (error) {
    return Promise.reject(error);
  }
}

function asStoreError(error: unknown, { operation, key }: CallLimits): unknown {
  if (isLockError(error)) return error;
  return new LockStoreError(`The store failed at ${operation}${about(key)}: ${messageOf(error)}`, {
    operation,
    key,
    cause: error,
  });
}

function timeoutError({ operation, key, timeoutMs }: CallLimits): LockStoreError {
  return new LockStoreError(
    `The store did not answer ${operation}${about(key)} within ${timeoutMs} ms. ` +
      'Is it up and reachable, and is a connection free? The limit is storeTimeout.',
    { operation, key },
  );
}

function about(key: string | undefined): string {
  return key === undefined ? '' : ` of ${JSON.stringify(key)}`;
}

interface Entry {
  readonly request: ReleaseRequest;
  /** On the monotonic clock: the lease is over by then whatever happened, and nothing is left to give back. */
  readonly until: number;
  /** From then on a "was not held" is believed; before, the request may still be under way to the store. */
  readonly finalFrom: number;
  notBefore: number;
}

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 10_000;

/**
 * Gives back, in the background, what nobody holds any more but the store may still keep: a release that
 * failed, a grant whose reply was lost or came too late. One at a time: an outage costs one probing call
 * every few seconds, however many grants are waiting to be given back.
 */
export class GiveBack {
  readonly #runtime: Runtime;
  readonly #release: (request: ReleaseRequest) => Promise<boolean>;
  /** How long a request may be on its way to the store. */
  readonly #settleMs: number;
  readonly #entries = new Set<Entry>();
  #running: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  constructor(runtime: Runtime, settleMs: number, release: (request: ReleaseRequest) => Promise<boolean>) {
    this.#runtime = runtime;
    this.#settleMs = settleMs;
    this.#release = release;
  }

  /**
   * @param leaseMs how long the store may keep it
   * @param kind `'granted'`: the store has granted it, one answer settles it. `'uncertain'`: the request may
   * still be under way and be applied after our release, so a "was not held" is asked for again later.
   */
  add(request: ReleaseRequest, leaseMs: number, kind: 'granted' | 'uncertain'): void {
    const now = this.#runtime.monotonic();
    this.#entries.add({
      request,
      until: now + leaseMs + this.#settleMs,
      finalFrom: kind === 'granted' ? now : now + this.#settleMs,
      notBefore: now,
    });
    // It outlives its caller by far, so it must not keep the caller's async context.
    this.#running ??= outsideOfAnyContext(() => this.#run());
    this.#wake?.();
  }

  /** Whether anything is waiting for this key. */
  has(key: string): boolean {
    for (const { request } of this.#entries) if (request.key === key) return true;
    return false;
  }

  /** Gives back now what is waiting for this key, so that a new attempt is not refused by its own ghost. */
  async flush(key: string): Promise<void> {
    const entries = [...this.#entries].filter((entry) => entry.request.key === key);
    await Promise.all(entries.map((entry) => this.#try(entry)));
  }

  /** Resolves when nothing is left, or when `timeoutMs` has passed; what is left then is forgotten. */
  async drain(timeoutMs: number): Promise<void> {
    if (this.#running !== undefined) {
      for (const entry of this.#entries) entry.notBefore = 0;
      this.#wake?.();
      await settledWithin(this.#runtime, [this.#running], timeoutMs);
    }
    this.#entries.clear();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    for (let entry = this.#next(); entry !== undefined; entry = this.#next()) {
      const waitMs = entry.notBefore - this.#runtime.monotonic();
      if (waitMs > 0) {
        await this.#pause(waitMs);
        continue;
      }
      try {
        await this.#try(entry);
        retryMs = FIRST_RETRY_MS;
      } catch {
        // The store is away: this entry goes to the end of the line, and the line waits.
        const pausedUntil = this.#runtime.monotonic() + jittered(this.#runtime, retryMs);
        for (const other of this.#entries) other.notBefore = Math.max(other.notBefore, pausedUntil);
        if (this.#entries.delete(entry)) this.#entries.add(entry);
        retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
      }
    }
    this.#running = undefined;
  }

  async #try(entry: Entry): Promise<void> {
    // By when it is sent: it may be executed then, and be answered long after what it should find was applied.
    const isFinal = this.#runtime.monotonic() >= entry.finalFrom;
    const wasHeld = await this.#release(entry.request);
    if (wasHeld || isFinal) this.#entries.delete(entry);
    else entry.notBefore = entry.finalFrom;
  }

  #next(): Entry | undefined {
    const now = this.#runtime.monotonic();
    let next: Entry | undefined;
    for (const entry of this.#entries) {
      if (entry.until <= now) this.#entries.delete(entry);
      else if (next === undefined || entry.notBefore < next.notBefore) next = entry;
    }
    return next;
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.#runtime.setTimer(resolve, ms, { background: true });
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
