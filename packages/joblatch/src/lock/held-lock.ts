import { type LockError, LockLostError, type LossDetection } from '../provider/errors.js';
import type { RenewRequest } from '../provider/lock-provider.js';
import { type Duration, parseDuration } from '../provider/values.js';
import type { Lock } from './lock.js';

/** What a lock needs from the client that made it. */
export interface LockHome {
  monotonic(): number;
  /** Sends one renewal now, apart from the beat; answers with the moment it was sent. */
  renewNow(lock: HeldLock, request: RenewRequest): Promise<number>;
  /** Whether the store says, within that transaction, that the lock is held. */
  guard(lock: HeldLock, transaction: object): Promise<boolean>;
  giveBack(lock: HeldLock, doneSlot: number | undefined, isFirst: boolean): Promise<boolean>;
  /** The lock is lost: told once. */
  onLost(lock: HeldLock, detectedBy: LossDetection): void;
  onExtended(lock: HeldLock): void;
}

export interface Grant {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  readonly slot: number | undefined;
  /** When the acquire was sent, on the monotonic clock. */
  readonly sentAt: number;
  readonly leaseMs: number;
}

export interface Keeping {
  /** The lease that the beat renews; undefined: the lock ends with its first lease. */
  readonly renewLeaseMs: number | undefined;
  /** How long the lock may be kept in all, counted from the send; undefined: as long as it is renewed. */
  readonly capMs: number | undefined;
  /** The key stays taken this long after the acquisition. */
  readonly atLeastMs: number;
  /**
   * `'function'`: a function runs under the lock, so the process stays alive for the lock's next event (it may
   * wait for nothing but its signal). `'handle'`: a lock in somebody's hand does not keep the process alive.
   */
  readonly heldBy: 'function' | 'handle';
}

/** Renewed every third of the lease, so that two beats may fail. */
const BEATS_PER_LEASE = 3;

/** One acquisition: its state, its deadline, and what may be done with it. The keeper beats for it. */
export class HeldLock implements Lock {
  readonly key: string;
  readonly token: number;
  readonly owner: string;
  readonly slot: number | undefined;
  readonly renewLeaseMs: number | undefined;
  readonly heldBy: 'function' | 'handle';
  atLeastMs: number;

  readonly #home: LockHome;
  #state: 'held' | 'lost' | 'released' = 'held';
  #lostBy: LossDetection | undefined;
  /** All on the monotonic clock. */
  #deadline: number;
  /** What the store has confirmed, and what it may have done at most: a request whose reply was lost counts. */
  #storedEnd: number;
  #mayBeStoredUntil: number;
  #capAt: number;
  #renewAt = Number.POSITIVE_INFINITY;
  #controller: AbortController | undefined;
  #aborted: LockError | undefined;
  #releasing: Promise<boolean> | undefined;
  #releases = 0;
  /** Extensions go one after another: each starts from what the one before has confirmed. */
  #lastExtension: Promise<unknown> | undefined;

  constructor(home: LockHome, grant: Grant, keeping: Keeping) {
    this.#home = home;
    this.key = grant.key;
    this.token = grant.token;
    this.owner = grant.owner;
    this.slot = grant.slot;
    this.renewLeaseMs = keeping.renewLeaseMs;
    this.atLeastMs = keeping.atLeastMs;
    this.heldBy = keeping.heldBy;
    this.#capAt = grant.sentAt + (keeping.capMs ?? Number.POSITIVE_INFINITY);
    this.#deadline = deadlineOf(grant.sentAt, grant.leaseMs);
    this.#storedEnd = grant.sentAt + grant.leaseMs;
    this.#mayBeStoredUntil = this.#storedEnd;
    this.#planRenewal(grant.sentAt);
  }

  get held(): boolean {
    return this.#state === 'held' && this.#home.monotonic() < this.#deadline;
  }

  get leftMs(): number {
    return this.#state === 'held' ? Math.max(0, this.#deadline - this.#home.monotonic()) : 0;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#state === 'held' && !this.held) this.#abort(this.#lossError(this.#howItEnds()));
      else if (this.#aborted) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  assertHeld(): void {
    if (this.held) return;
    if (this.#state === 'released') {
      throw new LockLostError(`The lock on ${this.#name} was released and is not held any more.`, {
        key: this.key,
        detectedBy: 'release',
      });
    }
    throw this.#lossError(this.#lostBy ?? this.#howItEnds());
  }

  async extend(duration: Duration, options: { readonly atLeast?: Duration | undefined } = {}): Promise<void> {
    const ms = parseDuration(duration, `The extension of ${this.#name}`);
    const atLeastMs =
      options.atLeast === undefined
        ? undefined
        : parseDuration(options.atLeast, `atLeast of the extension of ${this.#name}`, { min: 0 });
    this.assertHeld();
    const before = this.#lastExtension ?? Promise.resolve();
    const extension = before.then(() => this.#extend(ms, atLeastMs ?? this.atLeastMs));
    this.#lastExtension = extension.catch(() => {});
    await extension;
  }

  async #extend(ms: number, atLeastMs: number): Promise<void> {
    this.assertHeld();
    const capped = Number.isFinite(this.#capAt);
    const leaseMs = capped && this.renewLeaseMs !== undefined ? Math.min(ms, this.renewLeaseMs) : ms;
    const sentAt = await this.#home.renewNow(this, this.#request(leaseMs, atLeastMs));
    this.assertHeld();
    this.atLeastMs = atLeastMs;
    if (capped) this.#capAt = Math.max(this.#capAt, sentAt + ms);
    this.renewed(sentAt, leaseMs);
    this.#home.onExtended(this);
  }

  async guard(transaction: object): Promise<void> {
    this.assertHeld();
    const isHeld = await this.#home.guard(this, transaction);
    if (!isHeld) this.lose('guard');
    this.assertHeld();
  }

  release(): Promise<boolean> {
    return this.giveBack(undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The error of a release was told to the listeners; thrown here it would hide the error of the block.
    await this.release().catch(() => false);
  }

  /** Releases; with `doneSlot` the store records that slot as done. */
  giveBack(doneSlot: number | undefined): Promise<boolean> {
    if (this.noticeLoss()) return Promise.resolve(false);
    if (this.#releasing !== undefined) return this.#releasing.then(() => false);
    // From here on no renewal is sent, and an answer to one that is under way means nothing.
    this.#state = 'released';
    this.#releases += 1;
    this.#releasing = this.#home.giveBack(this, doneSlot, this.#releases === 1);
    return this.#releasing;
  }

  /** Whether the lease that was confirmed last is over by now: then the store may have ended it by itself. */
  get isOver(): boolean {
    return this.#home.monotonic() >= this.#deadline;
  }

  /** How long the store may still keep the grant, at most. */
  get storedForMs(): number {
    return Math.max(0, this.#mayBeStoredUntil - this.#home.monotonic());
  }

  /** The next moment at which the keeper has something to do for this lock. */
  get nextEventAt(): number {
    return Math.min(this.#deadline, this.#renewAt);
  }

  /** Whether the beat at `now` should take this lock along: its own is due, or at least half of the way there. */
  isDue(now: number): boolean {
    if (this.#state !== 'held' || this.renewLeaseMs === undefined) return false;
    return now >= this.#renewAt - this.renewLeaseMs / BEATS_PER_LEASE / 2;
  }

  /** The renewal to send at `now`; none is due again until it is answered. */
  beginRenewal(now: number): RenewRequest {
    this.#renewAt = Number.POSITIVE_INFINITY;
    return this.#request(this.#leaseWithinCap(now), this.atLeastMs);
  }

  #request(leaseMs: number, atLeastMs: number): RenewRequest {
    this.#mayBeStoredUntil = Math.max(this.#mayBeStoredUntil, this.#home.monotonic() + leaseMs);
    return { key: this.key, owner: this.owner, token: this.token, leaseMs, atLeastMs };
  }

  /**
   * The store renewed the lease by a request that was sent at `sentAt`. An answer that is read after the
   * deadline comes too late: the holder may have been told already that it lost.
   */
  renewed(sentAt: number, leaseMs: number): void {
    if (this.noticeLoss() || this.#state !== 'held') return;
    this.#deadline = Math.max(this.#deadline, deadlineOf(sentAt, leaseMs));
    this.#storedEnd = Math.max(this.#storedEnd, sentAt + leaseMs);
    this.#planRenewal(sentAt);
  }

  /** Try again at this moment; the deadline stays. */
  retryAt(at: number): void {
    this.#renewAt = at;
  }

  /** Becomes lost if the deadline has passed; says whether the lock is lost. */
  noticeLoss(): boolean {
    if (this.#state === 'held' && !this.held) this.lose(this.#howItEnds());
    return this.#state === 'lost';
  }

  get lostBy(): LossDetection | undefined {
    return this.#lostBy;
  }

  lose(detectedBy: LossDetection): void {
    if (this.#state !== 'held') return;
    this.#state = 'lost';
    this.#lostBy = detectedBy;
    this.#abort(this.#lossError(detectedBy));
    this.#home.onLost(this, detectedBy);
  }

  /** The store said at the release that the grant was gone. */
  lostAtRelease(): void {
    this.#state = 'lost';
    this.#lostBy = 'release';
    this.#abort(this.#lossError('release'));
    this.#home.onLost(this, 'release');
  }

  /** The release failed: it may be called again. */
  releaseFailed(): void {
    this.#releasing = undefined;
  }

  /** Aborts the signal while the lock is still held: the client stops. */
  abort(reason: LockError): void {
    this.#abort(reason);
  }

  get #name(): string {
    return JSON.stringify(this.key);
  }

  #abort(reason: LockError): void {
    this.#aborted ??= reason;
    this.#controller?.abort(this.#aborted);
  }

  #planRenewal(sentAt: number): void {
    if (this.renewLeaseMs === undefined || this.#storedEnd >= this.#capAt) {
      this.#renewAt = Number.POSITIVE_INFINITY;
    } else {
      this.#renewAt = sentAt + this.renewLeaseMs / BEATS_PER_LEASE;
    }
  }

  /** Near the cap the lease ends with it, so that the key is free when the holder has to stop. */
  #leaseWithinCap(now: number): number {
    return Math.max(1, Math.ceil(Math.min(this.renewLeaseMs as number, this.#capAt - now)));
  }

  #howItEnds(): LossDetection {
    return this.#storedEnd >= this.#capAt ? 'cap' : 'deadline';
  }

  #lossError(detectedBy: LossDetection): LockLostError {
    return new LockLostError(`The lock on ${this.#name} (token ${this.token}) is lost: ${WHY[detectedBy]}.`, {
      key: this.key,
      detectedBy,
    });
  }
}

const WHY: Readonly<Record<LossDetection, string>> = {
  renewal: 'the store said at the renewal that somebody else has the key or that the lease is over',
  deadline: 'its lease ran out before it was renewed or released',
  cap: 'it was held for as long as lockAtMostFor allows',
  release: 'it was given back, or the store said at the release that it was gone',
  guard: 'the store said inside the transaction that somebody else has the key or that the lease is over',
};

/** Allowance for clocks that run at different rates: 1 % of the lease, and 2 ms for short ones (as in Redlock). */
const DRIFT_RATE = 0.01;
const DRIFT_MS = 2;

/**
 * Until when, on the monotonic clock, a holder may act on a lease that it asked for at `sentAt`. The store
 * began to count when it executed the request, which was later; so the holder stops before the store does.
 */
export function deadlineOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - driftOf(leaseMs);
}

export function driftOf(leaseMs: number): number {
  return leaseMs * DRIFT_RATE + DRIFT_MS;
}
