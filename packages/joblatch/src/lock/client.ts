import {
  isLockError,
  LockError,
  LockLostError,
  LockOptionsError,
  LockStoreError,
  type LossDetection,
} from '../provider/errors.js';
import type {
  AcquireResult,
  CallOptions,
  Granted,
  Refused,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from '../provider/lock-provider.js';
import { createOwnerId } from '../provider/runtime.js';
import { messageOf, show } from '../provider/values.js';
import { Activity, delay, Emitter, Lines, settledWithin } from './activity.js';
import { deadlineOf, driftOf, HeldLock, type Keeping, type LockHome } from './held-lock.js';
import { expectResults, Keeper } from './keeper.js';
import type { Settings } from './options.js';
import { callStore, GiveBack, type StoreCall } from './store-call.js';

/** One attempt, in milliseconds, checked. */
export interface Attempt extends Keeping {
  readonly key: string;
  readonly leaseMs: number;
  readonly slot?: number | undefined;
  readonly oncePerMs?: number | undefined;
  readonly claim?: 'acquire' | 'release' | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly job: boolean;
}

/** When an attempt went to the store, on the monotonic clock; undefined while it has not, so that nothing can be granted. */
interface Sending {
  at: number | undefined;
}

/** An extension that the store can not decide now is asked for again after this. */
const UNDECIDED_RETRY_MS = 50;

/**
 * What every kind of lock stands on: one attempt with its deadline, renewal, giving back, and draining.
 * Waiting and jobs are written over it.
 */
export class LockClient implements LockHome {
  readonly settings: Settings;
  readonly events: Emitter = new Emitter();
  readonly activity: Activity;
  readonly lines: Lines = new Lines();
  readonly #keeper: Keeper;
  readonly #giveBack: GiveBack;
  readonly #attempts = new Set<StoreCall<AcquireResult>>();
  readonly #releases = new Set<Promise<boolean>>();
  #drained = false;

  constructor(settings: Settings) {
    const { provider, runtime, storeTimeoutMs } = settings;
    this.settings = settings;
    this.activity = new Activity(runtime);
    this.#keeper = new Keeper(
      runtime,
      storeTimeoutMs,
      (requests, options) => provider.renewMany(requests, options),
      (error, locks) =>
        this.events.emit('error', { key: locks.length === 1 ? locks[0]?.key : undefined, error }),
    );
    this.#giveBack = new GiveBack(runtime, storeTimeoutMs, (request) => this.#release(request));
  }

  /**
   * One attempt at the store. A grant comes with the deadline counted from the send; one that could not be
   * used any more when its answer was read is given back.
   */
  async attempt(attempt: Attempt): Promise<HeldLock | Refused> {
    const { key, job } = attempt;
    attempt.signal?.throwIfAborted();
    this.events.emit('attempt', { key, job });
    const owner = createOwnerId(this.settings.runtime);
    const sending: Sending = { at: undefined };
    const call = this.#send(attempt, owner, sending);
    this.#attempts.add(call);
    let result: AcquireResult;
    try {
      result = await call.bounded;
    } catch (error) {
      if (sending.at !== undefined) this.#giveBackUncertain(call, { key, owner }, attempt.leaseMs);
      throw error;
    } finally {
      this.#attempts.delete(call);
    }
    if (!result.ok) {
      this.events.emit('refused', { key, job, reason: result.reason, leftMs: result.leftMs });
      return result;
    }
    const sentAt = sending.at as number;
    this.#refuseLate(attempt, owner, sentAt, result);
    const { token, slot } = result;
    const leaseMs = Math.min(attempt.leaseMs, result.leftMs);
    const lock = new HeldLock(this, { key, owner, token, slot, sentAt, leaseMs }, attempt);
    this.#keeper.add(lock);
    this.events.emit('acquired', { key, job, owner, token, slot });
    return lock;
  }

  #send(attempt: Attempt, owner: string, sending: Sending): StoreCall<AcquireResult> {
    const { provider, runtime, storeTimeoutMs } = this.settings;
    const { key, leaseMs, slot, oncePerMs, claim, signal } = attempt;
    const limits = { operation: 'acquire', key, timeoutMs: storeTimeoutMs, signal } as const;
    return callStore(runtime, limits, async (options) => {
      if (this.#giveBack.has(key)) {
        await this.#giveBackBefore(key);
        // That may have taken until the caller gave up: then nothing must be acquired any more.
        options.lightSignal.throwIfAborted();
      }
      sending.at = runtime.monotonic();
      try {
        return expectResult(await provider.acquire({ key, owner, leaseMs, slot, oncePerMs, claim }, options));
      } catch (error) {
        // A request that this store can not hold was not sent to it.
        if (isLockError(error, 'OPTIONS')) sending.at = undefined;
        throw error;
      }
    });
  }

  /** Whether the store granted it is not known; nobody will hold it, so it is given back in any case. */
  #giveBackUncertain(call: StoreCall<AcquireResult>, request: ReleaseRequest, leaseMs: number): void {
    this.#giveBackLater(request, leaseMs, 'uncertain');
    call.answer.then(
      (late) => late.ok && this.#giveBackLater(request, leaseMs, 'granted'),
      () => {},
    );
  }

  async #giveBackBefore(key: string): Promise<void> {
    try {
      await this.#giveBack.flush(key);
    } catch (error) {
      throw new LockStoreError(
        `${JSON.stringify(key)} was not tried: what an earlier attempt may have left in the store could not be given back. ${messageOf(error)}`,
        { operation: 'acquire', key, cause: error },
      );
    }
  }

  #refuseLate({ key, leaseMs, atLeastMs }: Attempt, owner: string, sentAt: number, granted: Granted): void {
    const now = this.settings.runtime.monotonic();
    const late = now >= deadlineOf(sentAt, Math.min(leaseMs, granted.leftMs));
    if (!late && !this.activity.stopping) return;
    this.#giveBackLater({ key, owner, keepMs: late ? atLeastMs : 0 }, leaseMs, 'granted');
    if (!late) throw stoppedError(key);
    const tookMs = Math.round(now - sentAt);
    const why =
      leaseMs <= driftOf(leaseMs)
        ? `but a lease of ${leaseMs} ms is over before anybody can use it: ${Math.ceil(driftOf(leaseMs))} ms are taken off for clocks ` +
          'that run apart. It was given back. Use a longer lease.'
        : `but its answer took ${tookMs} ms, too long for a lease of ${leaseMs} ms. It was given back. Use a longer ` +
          'lease, or find out why the store is slow.';
    throw new LockStoreError(`The store granted ${JSON.stringify(key)}, ${why}`, {
      operation: 'acquire',
      key,
    });
  }

  /** Once the client has stopped, the store is not called any more: it may be closed. */
  #giveBackLater(request: ReleaseRequest, leaseMs: number, kind: 'granted' | 'uncertain'): void {
    if (!this.#drained) {
      this.#giveBack.add(request, leaseMs, kind);
      return;
    }
    if (kind === 'uncertain') return;
    const { key } = request;
    const error = new LockStoreError(
      `The store granted ${JSON.stringify(key)} after the client had stopped. Nobody holds it, and it stays taken until its lease ` +
        `of ${leaseMs} ms is over.`,
      { operation: 'release', key },
    );
    this.events.emit('error', { key, error });
  }

  // What a lock needs from its home.

  monotonic(): number {
    return this.settings.runtime.monotonic();
  }

  async renewNow(lock: HeldLock, request: RenewRequest): Promise<number> {
    const { provider, runtime, storeTimeoutMs } = this.settings;
    const { key } = lock;
    const giveUpAt = runtime.monotonic() + storeTimeoutMs;
    for (;;) {
      const sentAt = runtime.monotonic();
      const limits = { operation: 'renew', key, timeoutMs: Math.max(0, giveUpAt - sentAt) } as const;
      const call = async (options: CallOptions): Promise<readonly RenewResult[]> =>
        expectResults(await provider.renewMany([request], options), 1);
      const [result] = await callStore(runtime, limits, call).bounded;
      if (result === 'ok') return sentAt;
      if (result === 'lost') lock.lose('renewal');
      lock.assertHeld();
      if (runtime.monotonic() + UNDECIDED_RETRY_MS >= giveUpAt) {
        throw new LockStoreError(
          `The store could not decide within ${storeTimeoutMs} ms whether ${JSON.stringify(key)} is renewed: somebody else has its ` +
            'record locked. The lock is held as long as it was before.',
          { operation: 'renew', key },
        );
      }
      await delay(runtime, UNDECIDED_RETRY_MS);
      lock.assertHeld();
    }
  }

  async guard(lock: HeldLock, transaction: object): Promise<boolean> {
    const { provider, runtime, storeTimeoutMs } = this.settings;
    const { key, owner, token, leftMs } = lock;
    if (provider.guard === undefined) {
      throw new LockOptionsError(
        `${JSON.stringify(key)} can not be guarded in a transaction: its store (${provider.name}) has none. Compare the fencing ` +
          'token where you write, or keep the lock in the database of the transaction.',
        { key },
      );
    }
    const timeoutMs = Math.ceil(Math.min(storeTimeoutMs, leftMs));
    const limits = { operation: 'guard', key, timeoutMs } as const;
    const call = async (options: CallOptions): Promise<boolean | undefined> =>
      provider.guard?.({ key, owner, token, leftMs }, transaction, options);
    try {
      return (await callStore(runtime, limits, call).bounded) === true;
    } catch (error) {
      // An answer that the lease did not wait for is a loss, and nothing else.
      if (!isLockError(error, 'OPTIONS')) lock.assertHeld();
      throw error;
    }
  }

  async giveBack(lock: HeldLock, doneSlot: number | undefined, isFirst: boolean): Promise<boolean> {
    if (this.#drained) {
      // A release that failed before may be called again, but the store may be closed by now.
      lock.releaseFailed();
      throw stoppedError(lock.key);
    }
    this.#keeper.remove(lock);
    const { key, owner, token, atLeastMs: keepMs } = lock;
    const request: ReleaseRequest = { key, owner, keepMs, slot: doneSlot };
    this.activity.begin();
    const releasing = this.#release(request);
    this.#releases.add(releasing);
    try {
      const wasHeld = await releasing;
      this.lines.nudge(key);
      if (wasHeld) this.events.emit('released', { key, token });
      // That it was gone is a loss only if neither an earlier release nor the end of the lease explains it.
      else if (isFirst && !lock.isOver) lock.lostAtRelease();
      return wasHeld;
    } catch (error) {
      lock.releaseFailed();
      this.#giveBackLater(request, lock.storedForMs, 'granted');
      this.events.emit('error', { key, error });
      throw error;
    } finally {
      this.#releases.delete(releasing);
      this.activity.end();
    }
  }

  onLost(lock: HeldLock, detectedBy: LossDetection): void {
    const { key, owner, token, atLeastMs: keepMs } = lock;
    this.#keeper.remove(lock);
    this.events.emit('lost', { key, token, detectedBy });
    // The store may have it for a little longer (we stop before it does): no need to keep others waiting.
    if (detectedBy === 'deadline' || detectedBy === 'cap') {
      this.#giveBackLater({ key, owner, keepMs }, lock.storedForMs, 'granted');
    }
    this.activity.changed();
  }

  onExtended(lock: HeldLock): void {
    this.#keeper.moved(lock);
    this.events.emit('extended', { key: lock.key, token: lock.token, leftMs: lock.leftMs });
  }

  /** Gives back what somebody still uses: for them it is lost. */
  #abandon(lock: HeldLock): void {
    const { key, owner, atLeastMs: keepMs } = lock;
    lock.lose('release');
    this.#giveBackLater({ key, owner, keepMs }, lock.storedForMs, 'granted');
  }

  #release(request: ReleaseRequest): Promise<boolean> {
    const { provider, runtime, storeTimeoutMs } = this.settings;
    const limits = { operation: 'release', key: request.key, timeoutMs: storeTimeoutMs } as const;
    return callStore(runtime, limits, (options) => provider.release(request, options)).bounded;
  }

  /** @throws LockError STOPPED once the client is stopping */
  refuseWhenStopping(key: string): void {
    if (this.activity.stopping) throw stoppedError(key);
  }

  /** See `Locks.stop`. */
  async stop(graceMs: number): Promise<void> {
    const { storeTimeoutMs } = this.settings;
    this.activity.stop();
    await this.activity.until(this.#isDrained, graceMs);
    if (!this.#isDrained()) {
      for (const lock of this.#keeper.locks) lock.abort(stoppedError(lock.key));
      await this.activity.until(this.#isDrained, SETTLE_AFTER_ABORT_MS);
    }
    for (const lock of this.#keeper.locks) this.#abandon(lock);
    // What is still under way to the store may be granted yet; told to give up, the provider answers soon.
    const answers = [...this.#attempts].map((call) => {
      call.cancel(new LockError('STOPPED', 'The client is stopping.'));
      return call.answer;
    });
    // So may a release that somebody began in the last moment: the store must not be closed under it.
    await settledWithin(this.settings.runtime, [...answers, ...this.#releases], storeTimeoutMs);
    await this.#giveBack.drain(storeTimeoutMs);
    // Another call with a longer grace need not wait for a function that never ends.
    this.#drained = true;
    this.activity.changed();
  }

  readonly #isDrained = (): boolean => this.#drained || (this.activity.idle && this.#keeper.locks.size === 0);
}

function expectResult(result: AcquireResult): AcquireResult {
  if (typeof result?.ok === 'boolean') return result;
  throw new TypeError(`the provider answered acquire with ${show(result)}`);
}

/** How long a function has, after its signal was aborted at the end of the grace, to come to an end. */
const SETTLE_AFTER_ABORT_MS = 1_000;

export function stoppedError(key: string): LockError {
  return new LockError(
    'STOPPED',
    `The client is stopping: ${JSON.stringify(key)} is not taken, and what runs has to end.`,
    {
      key,
    },
  );
}

export function isLock(result: HeldLock | Refused): result is HeldLock {
  return result instanceof HeldLock;
}

/** What `withLock` rejects with, and what a job's outcome tells of. */
export function lossOf(lock: HeldLock, result: unknown): LockLostError | undefined {
  const detectedBy = lock.lostBy;
  if (detectedBy === undefined) return undefined;
  return new LockLostError(
    `The lock on ${JSON.stringify(lock.key)} (token ${lock.token}) was lost before the function ended; ` +
      'somebody else may have run at the same time.',
    { key: lock.key, detectedBy, result },
  );
}
