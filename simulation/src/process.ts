import type {
  AcquireRequest,
  AcquireResult,
  Lock,
  Locks,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from 'joblatch';
import type { Grant } from './audit.js';
import { Claim, type Terms } from './claim.js';
import { insist } from './invariants.js';
import type { Library } from './library.js';
import type { Machine } from './machine.js';
import { Network, ROUND_TRIP_MS, type Verb, type Weather, type Wire } from './network.js';
import type { Random } from './random.js';
import type { Counters } from './sometimes.js';
import type { Store } from './store.js';
import type { World } from './world.js';

/** The error of a function that fails, so that it can be told from all others. */
export class OwnError extends Error {}

export interface ClientConfig {
  readonly watchdogLeaseMs: number;
  readonly storeTimeoutMs: number;
  readonly pollMs: number;
}

/** The library tries to give back again after at most this long. */
const LONGEST_GIVE_BACK_PAUSE_MS = 10_000;
/** Timers may be late by about this, and a suspended machine's by a second. */
const SLACK_MS = 150;
const SLEEPING_SLACK_MS = 1_200;
/** What has ended this long ago is not looked at any more. */
const FORGET_AFTER_MS = 5_000;
/** How many calls a process may send in a second of its running, however busy its users are. */
const CALLS_A_SECOND = 150;

const LISTENER_ERROR = new Error('a listener that throws');

interface Waiter {
  readonly key: string;
  readonly since: number;
}

/** One process: the machine, the library's client on it, and what is known of both. Checked at every step. */
export class Process implements Wire {
  readonly machine: Machine;
  readonly network: Network;
  readonly locks: Locks;
  readonly config: ClientConfig;
  readonly claims = new Map<string, Claim>();
  readonly waiters = new Set<Waiter>();
  /** Keys that somebody has asked for with a signal. */
  readonly abortable = new Set<string>();
  /** Calls of the library that have not settled. */
  readonly unsettled = new Set<string>();
  readonly #tokens = new Map<string, Claim>();
  readonly #world: World;
  readonly #store: Store;
  readonly #counters: Counters;
  readonly #trace: ((text: string) => void) | undefined;
  readonly #calm: boolean;
  /** On the monotonic clock: when stop was called first, when its grace is over at the latest, and when it had ended. */
  stopCalledAt: number | undefined;
  #graceEndsAt = Number.POSITIVE_INFINITY;
  stopped = false;
  #windowStart = 0;
  #callsInWindow = 0;
  #calls = 0;
  /** What is or was held, until a while after its end. */
  readonly open: Claim[] = [];

  constructor(
    world: World,
    store: Store,
    machine: Machine,
    library: Library,
    config: ClientConfig,
    weather: Weather,
    chance: Random,
    counters: Counters,
    calm: boolean,
    trace: ((text: string) => void) | undefined,
  ) {
    this.#world = world;
    this.#store = store;
    this.machine = machine;
    this.config = config;
    this.#counters = counters;
    this.#calm = calm;
    this.#trace = trace;
    this.network = new Network(world, store, machine, chance, counters, weather, this);
    this.locks = library.core.createLocks({
      provider: this.network,
      runtime: machine,
      watchdogLease: config.watchdogLeaseMs,
      storeTimeout: config.storeTimeoutMs,
      pollEvery: config.pollMs,
    });
    this.#listen();
  }

  get timeoutMs(): number {
    return this.config.storeTimeoutMs;
  }

  /** True time of the last thing that may have held this process up. */
  get lastTrouble(): number {
    return Math.max(this.machine.timelyFrom, this.network.lastTrouble, this.#store.lastTrouble);
  }

  /** True time. */
  get now(): number {
    return this.#world.now;
  }

  /** Nothing goes wrong in this seed, and nobody has blocked this process. */
  get #undisturbed(): boolean {
    return this.#calm && this.machine.stoppedMs === 0;
  }

  trace(text: () => string): void {
    this.#trace?.(text());
  }

  // What goes over the wire.

  sending(verb: Verb): void {
    insist(!this.stopped, 'drain', () => `${this.machine.name} sends ${verb} after its client has stopped`);
    if (this.#world.now - this.#windowStart > 1_000) {
      this.#windowStart = this.#world.now;
      this.#callsInWindow = 0;
    }
    this.#callsInWindow += 1;
    insist(
      this.#callsInWindow <= CALLS_A_SECOND,
      'restraint',
      () => `${this.machine.name} sent ${this.#callsInWindow} calls within a second`,
    );
  }

  granted(request: AcquireRequest, grant: Grant, outwardMs: number): void {
    this.#counters.hit('granted');
    if (request.slot !== undefined && request.claim !== 'release') this.#counters.hit('slot claimed');
    if (request.oncePerMs !== undefined) this.#counters.hit('oncePer granted');
    this.trace(() => `  the store grants ${grant.key} with token ${grant.token}`);
    if (!this.machine.running) this.#counters.hit('granted, and nobody was there any more');
    // A request that was under way for longer than the library reckons with is given up for good: the time-out, and
    // once more as long after it was given up, which somebody's signal may have done at once.
    const longestMs = this.abortable.has(grant.key) ? this.timeoutMs : 2 * this.timeoutMs - SLACK_MS;
    if (outwardMs < longestMs) this.#watchHandedBack(grant);
  }

  /** A grant that nobody holds is given back: after two time-outs, and a pause if a release failed before. */
  #watchHandedBack(grant: Grant): void {
    const soonMs = 3 * this.timeoutMs + SLEEPING_SLACK_MS;
    let unheldSince: number | undefined;
    const look = (): void => {
      if (this.machine.dead || this.stopped || grant.stretched) return;
      if (this.#store.audit.live(grant.key, this.#store.now()) !== grant) return;
      const { now } = this.#world;
      const claim = this.claims.get(grant.owner);
      const isHeld = claim?.lock !== undefined && !claim.releasing && claim.lock.held;
      unheldSince = isHeld ? undefined : (unheldSince ?? now);
      const trouble =
        Math.max(this.network.lastReleaseTrouble, this.#store.lastTrouble) + LONGEST_GIVE_BACK_PAUSE_MS;
      const due = Math.max(unheldSince ?? now, this.machine.timelyFrom, trouble) + soonMs;
      insist(
        unheldSince === undefined || now < due,
        'handed-back',
        () => `nobody holds ${grant.key}, which was granted to ${grant.owner}, and it is not given back`,
      );
      this.#world.at(due, look);
    };
    this.#world.after(soonMs, look);
  }

  answeredAcquire(
    request: AcquireRequest,
    answer: AcquireResult,
    grant: Grant | undefined,
    sentAt: number,
  ): void {
    if (!answer.ok) {
      this.#counters.hit(answer.reason === 'held' ? 'refused: held' : 'refused: slot');
      if (answer.reason === 'held') this.#noteKept(request.key);
      else if (request.slot !== undefined) this.#noteOddSlot(request.slot);
      this.trace(() => `  ${request.key} is refused: ${answer.reason}`);
      return;
    }
    const claim = new Claim(request, answer, grant as Grant, sentAt);
    this.claims.set(claim.owner, claim);
    this.#tokens.set(tokenKey(claim.key, claim.token), claim);
    if (this.machine.monotonic() >= claim.deadline) this.#counters.hit('granted too late');
  }

  #noteOddSlot(slot: number): void {
    const ahead = slot - this.#store.now().wall;
    if (ahead > 60_000) this.#counters.hit('slot too far ahead');
    if (ahead < -30 * 86_400_000) this.#counters.hit('slot too old');
  }

  #noteKept(key: string): void {
    const state = this.#store.audit.keys.get(key);
    if (state !== undefined && state.keptUntil > this.#store.now().ends)
      this.#counters.hit('kept for its at-least');
  }

  sendingRenewal(requests: readonly RenewRequest[]): void {
    const now = this.machine.monotonic();
    for (const { key, owner, leaseMs, atLeastMs = 0 } of requests) {
      const claim = this.claims.get(owner);
      insist(
        claim?.terms !== undefined,
        'fail-closed',
        () => `${key} is renewed for ${owner}, who holds nothing`,
      );
      insist(!claim.releasing, 'never-revive', () => `${key} is renewed after its release has begun`);
      insist(
        !claim.toldLost,
        'never-revive',
        () => `${key} is renewed after the store has said that it is lost`,
      );
      insist(now < claim.deadline, 'never-revive', () => `${key} is renewed after its deadline`);
      claim.renewalsUnderWay += 1;
      const { terms } = claim;
      insist(
        terms.atLeastMs.includes(atLeastMs),
        'at-least',
        () =>
          `${key} is renewed with at-least ${atLeastMs} ms; agreed was ${terms.atLeastMs.join(' or ')} ms`,
      );
      if (terms.renewLeaseMs === undefined) {
        insist(claim.extensions.length > 0, 'at-most', () => `${key} is renewed, and its lease is fixed`);
        continue;
      }
      const capAt = claim.extensions.reduce((latest, ms) => Math.max(latest, now + ms), claim.capAt);
      insist(
        now + leaseMs <= capAt + 1,
        'at-most',
        () => `${key} is renewed for ${leaseMs} ms, ${now + leaseMs - capAt} ms beyond its cap`,
      );
    }
  }

  renewalIsOver(
    requests: readonly RenewRequest[],
    answers: readonly RenewResult[] | undefined,
    sentAt: number,
  ): void {
    const now = this.machine.monotonic();
    const surely = requests.length > 1 || now - sentAt < 40;
    requests.forEach((request, i) => {
      const claim = this.claims.get(request.owner) as Claim;
      claim.renewalsUnderWay -= 1;
      const answer = answers?.[i];
      if (answer === 'ok') {
        this.#counters.hit('renewed');
        if (claim.failedRenewals > 0) this.#counters.hit('renewal failed and a later one came through');
        claim.failedRenewals = 0;
        claim.renewed(sentAt, request.leaseMs, now, surely);
      } else if (answer === 'lost') {
        this.#counters.hit('renewal refused');
        claim.toldLost = true;
      } else {
        claim.failedRenewals += 1;
      }
    });
  }

  sendingRelease({ key, owner, keepMs = 0, slot }: ReleaseRequest): void {
    const claim = this.claims.get(owner);
    if (claim !== undefined) claim.releases += 1;
    if (claim?.lock === undefined) {
      this.#counters.hit('given back in the background');
      insist(slot === undefined, 'slots', () => `${key} is given back unheld, with slot ${slot} as done`);
      return;
    }
    const { terms } = claim;
    insist(
      this.#mayEnd(claim, this.machine.monotonic()),
      'job-is-locked',
      () => `${key} is given back, and its holder has not ended`,
    );
    if (claim.renewalsUnderWay > 0) this.#counters.hit('released while a renewal was under way');
    insist(
      terms?.atLeastMs.includes(keepMs) === true,
      'at-least',
      () => `${key} is released to be kept for ${keepMs} ms; agreed was ${terms?.atLeastMs.join(' or ')} ms`,
    );
    if (slot === undefined) return;
    this.#counters.hit('slot recorded at the end');
    insist(
      claim.succeeded === true,
      'slots',
      () => `slot ${slot} of ${key} is recorded as done, and its run did not succeed under its lock`,
    );
  }

  answeredRelease({ owner }: ReleaseRequest, wasHeld: boolean, sentAt: number): void {
    this.#counters.hit(wasHeld ? 'release: was held' : 'release: was not held');
    const claim = this.claims.get(owner);
    if (claim === undefined) return;
    claim.releaseAnswers += 1;
    if (wasHeld) return;
    claim.toldLost = true;
    const now = this.machine.monotonic();
    claim.goneAtRelease = claim.releases === 1 && now - sentAt < 40 && now < claim.sureDeadline;
  }

  // What its users have, and are told.

  /** Somebody has got a lock into his hands. */
  hold(lock: Lock, terms: Terms): Claim {
    const claim = this.claims.get(lock.owner);
    insist(
      claim !== undefined && claim.lock === undefined,
      'fail-closed',
      () => `${this.machine.name} holds ${lock.key}, and no answer of the store has granted it`,
    );
    claim.hold(lock, terms);
    this.open.push(claim);
    const atLeastMs = Math.max(...terms.atLeastMs);
    insist(
      claim.leaseMs >= atLeastMs,
      'at-least',
      () => `${lock.key} was asked for ${claim.leaseMs} ms, less than its at-least of ${atLeastMs} ms`,
    );
    if (terms.atMostMs !== undefined) {
      insist(
        claim.leaseMs <= terms.atMostMs,
        'at-most',
        () =>
          `${lock.key} was asked for ${claim.leaseMs} ms, more than its lockAtMostFor of ${terms.atMostMs} ms`,
      );
    }
    insist(
      lock.token === claim.token,
      'fencing',
      () => `${lock.key} shows token ${lock.token}, not ${claim.token}`,
    );
    const isLate = this.machine.monotonic() >= claim.deadline;
    insist(!isLate, 'held-is-true', () => `${lock.key} was handed out after its deadline`);
    this.trace(
      () => `  holds ${lock.key} with token ${lock.token} for ${Math.round(lock.leftMs)} ms by its clock`,
    );
    return claim;
  }

  #listen(): void {
    const { locks } = this;
    const of = ({ key, token }: { key: string; token: number }): Claim => {
      const claim = this.#tokens.get(tokenKey(key, token));
      insist(
        claim !== undefined,
        'events',
        () => `an event tells of ${key} with token ${token}, which nobody has`,
      );
      return claim;
    };
    locks.on('acquired', (event) => void of(event));
    locks.on('started', (event) => {
      const claim = of(event);
      if (event.nested) {
        this.#counters.hit('run: nested');
        insist(
          claim.running > 0 && claim.lock?.held === true,
          'nesting',
          () => `a run of ${event.key} stands under one that has ended or is not held`,
        );
      } else {
        insist(
          this.stopCalledAt === undefined,
          'drain',
          () => `a run of ${event.key} was started after stop was called`,
        );
        insist(claim.running === 0, 'nesting', () => `two runs of ${event.key} have one lock`);
      }
      claim.running += 1;
    });
    locks.on('finished', (event) => {
      const claim = of(event);
      claim.running -= 1;
      insist(claim.running >= 0, 'events', () => `a run of ${event.key} finished twice`);
      if (event.nested) return;
      claim.succeeded = event.result === 'success' && claim.lock?.held === true;
      claim.releasing = true;
    });
    locks.on('lost', (event) => {
      const claim = of(event);
      claim.lostEvents += 1;
      this.trace(() => `  is told that ${event.key} is lost: ${event.detectedBy}`);
      insist(claim.lostEvents === 1, 'events', () => `the loss of ${event.key} was told twice`);
      insist(claim.releasedEvents === 0, 'events', () => `${event.key} was lost after it was released`);
      if (event.detectedBy === 'deadline') this.#insistOnReason(claim);
      if (event.detectedBy === 'renewal' || (event.detectedBy === 'release' && claim.releasing)) {
        insist(claim.toldLost, 'no-false-loss', () => `${event.key} was lost, and the store has not said so`);
      }
    });
    locks.on('released', (event) => {
      const claim = of(event);
      claim.releasedEvents += 1;
      insist(
        claim.releasedEvents === 1 && claim.lostEvents === 0,
        'events',
        () => `the end of ${event.key} was told twice`,
      );
    });
    locks.on('refused', (event) => {
      if (event.reason === 'stopping') this.#counters.hit('refused: stopping');
    });
    locks.on('error', (event) => {
      this.trace(() => `  is told of an error: ${String(event.error)}`);
      const own = event.error instanceof OwnError;
      insist(
        own || !this.#undisturbed,
        'fail-closed',
        () => `nothing was wrong, and an error was told: ${String(event.error)}`,
      );
    });
    // By contract it changes nothing.
    for (const event of [
      'acquired',
      'started',
      'finished',
      'lost',
      'released',
      'refused',
      'error',
    ] as const) {
      locks.on(event, () => {
        throw LISTENER_ERROR;
      });
    }
  }

  /** A lock that is renewed ends at its deadline only if something was in the way of the renewal. */
  #insistOnReason(claim: Claim): void {
    const { renewLeaseMs } = claim.terms as Terms;
    if (renewLeaseMs === undefined) return;
    // Told late, perhaps: what counts is when it was over.
    const overAt = this.#world.now - Math.max(0, this.machine.monotonic() - claim.sureDeadline);
    const quietMs = overAt - this.lastTrouble;
    insist(
      quietMs < renewLeaseMs * 0.8,
      'kept-alive',
      () =>
        `${claim.key} was lost at its deadline, and for ${quietMs} ms nothing was in the way of its renewal`,
    );
  }

  // Checks at every step.

  check(): void {
    if (!this.machine.readable) return;
    const now = this.machine.monotonic();
    for (let i = this.open.length - 1; i >= 0; i -= 1) {
      const claim = this.open[i] as Claim;
      this.#checkClaim(claim, claim.lock as Lock, now);
      const isPast = claim.ended && claim.running === 0 && now > claim.deadline + FORGET_AFTER_MS;
      if (isPast) this.open.splice(i, 1);
    }
  }

  #checkClaim(claim: Claim, lock: Lock, now: number): void {
    const { key } = claim;
    if (!lock.held) {
      if (!claim.ended) this.#insistOnEnd(claim, now);
      claim.ended = true;
      if (this.machine.running && this.#world.now - this.machine.lastStopEnd > SLEEPING_SLACK_MS)
        this.#insistOnWord(claim, now);
      return;
    }
    insist(!claim.ended, 'never-revive', () => `${key} is held again, after it was not`);
    insist(
      now < claim.deadline,
      'held-is-true',
      () => `${key} is held ${now - claim.deadline} ms after its deadline`,
    );
    insist(!claim.releasing, 'held-is-true', () => `${key} is held, and its release has begun`);
    insist(!claim.toldLost, 'told-of-loss', () => `${key} is held, and the store has said that it is lost`);
    insist(now < claim.capAt, 'at-most', () => `${key} is held ${now - claim.capAt} ms after lockAtMostFor`);
    insist(!this.stopped, 'drain', () => `${key} is held after its client has stopped`);
    const { grant } = claim;
    if (grant.revoked !== undefined) return;
    const leftAtStore = this.#store.trueMsUntil(grant.until);
    const isLive = this.#store.audit.keys.get(key)?.grant === grant && !grant.over;
    insist(
      isLive && leftAtStore >= lock.leftMs / 1.01,
      'held-is-true',
      () =>
        `${this.machine.name} believes in ${key} for ${lock.leftMs} ms, ` +
        `and the store ${isLive ? `ends it in ${leftAtStore} ms` : 'has ended it'}`,
    );
  }

  #insistOnEnd(claim: Claim, now: number): void {
    insist(
      this.#mayEnd(claim, now),
      'no-false-loss',
      () => `${claim.key} is not held, ${claim.sureDeadline - now} ms before its deadline and for no reason`,
    );
  }

  #mayEnd(claim: Claim, now: number): boolean {
    return now >= Math.min(claim.sureDeadline, this.#graceEndsAt) || claim.toldLost || claim.releasing;
  }

  /** Once it is lost, the signal has aborted and the event was told, as soon as the loop has turned. */
  #insistOnWord(claim: Claim, now: number): void {
    if (claim.releasing || now < claim.deadline + SLACK_MS || claim.lostEvents > 0) {
      if (claim.lostEvents > 0 && claim.signalWatched) {
        insist(
          claim.lock?.signal.aborted === true,
          'told-of-loss',
          () => `the signal of ${claim.key} has not aborted`,
        );
      }
      return;
    }
    insist(
      false,
      'told-of-loss',
      () => `${claim.key} is past its deadline by ${now - claim.deadline} ms, and nobody was told`,
    );
  }

  /** A free key goes to a waiter within his poll. */
  checkWaiters(freeSince: (key: string) => number | undefined): void {
    if (this.waiters.size === 0 || !this.machine.running) return;
    for (const waiter of this.waiters) {
      const free = freeSince(waiter.key);
      if (free === undefined) continue;
      const since = Math.max(free, waiter.since, this.lastTrouble);
      const limit = this.config.pollMs + 4 * ROUND_TRIP_MS + SLACK_MS;
      insist(
        this.#world.now - since <= limit,
        'waiting',
        () =>
          `${this.machine.name} waits for ${waiter.key}, which has been free for ${this.#world.now - free} ms`,
      );
    }
  }

  /** Holds a call of the library to its limit: so many milliseconds in which the process runs. */
  async call<T>(what: string, limitMs: number, promise: Promise<T>): Promise<T> {
    this.#calls += 1;
    const id = `${what} (call ${this.#calls})`;
    this.unsettled.add(id);
    const limit = limitMs + SLACK_MS + SLEEPING_SLACK_MS;
    const look = (stoppedBefore: number): void => {
      if (!this.unsettled.has(id) || this.machine.dead) return;
      const stoppedMs = this.machine.stoppedMs - stoppedBefore;
      const stopEnd = this.machine.lastStopEnd + SLEEPING_SLACK_MS;
      const again = Math.max(stoppedMs > 0 ? this.#world.now + stoppedMs : 0, stopEnd);
      insist(
        again > this.#world.now,
        'bounded',
        () => `${this.machine.name}: ${what} has not settled after ${limit} ms`,
      );
      this.#world.at(again, () => look(this.machine.stoppedMs));
    };
    const stoppedBefore = this.machine.stoppedMs;
    const probe = this.#world.after(limit, () => look(stoppedBefore));
    try {
      return await promise;
    } finally {
      this.unsettled.delete(id);
      this.#world.cancel(probe);
    }
  }

  /** A failure, where nothing was wrong, is a fault of the library's. */
  failed(what: string, error: unknown): void {
    insist(
      !this.#undisturbed,
      'fail-closed',
      () => `nothing was wrong, and ${what} failed: ${String(error)}`,
    );
  }

  async stop(graceMs: number, close: boolean): Promise<void> {
    const now = this.machine.monotonic();
    this.stopCalledAt ??= now;
    this.#graceEndsAt = Math.min(this.#graceEndsAt, now + graceMs);
    const busy = [...this.claims.values()].some((claim) => claim.lock?.held);
    if (busy) this.#counters.hit('stopped while something ran');
    this.trace(() => `${close ? 'closes' : 'stops'} with a grace of ${graceMs} ms`);
    const limitMs = graceMs + 1_000 + 3 * this.timeoutMs;
    const stopping = close ? this.locks.close({ grace: graceMs }) : this.locks.stop({ grace: graceMs });
    await this.call(close ? 'close' : 'stop', limitMs, stopping);
    if (!this.stopped) this.#checkStopped(now, limitMs);
    this.stopped = true;
    this.trace(() => '  has stopped');
    this.#counters.hit(
      this.machine.monotonic() >= now + graceMs ? 'stopped with the grace over' : 'closed in peace',
    );
  }

  /** Nothing is left in the store, if it could be reached, and no timer. */
  #checkStopped(stoppingSince: number, limitMs: number): void {
    const { machine } = this;
    const look = (): void => {
      // The last call that gives something back may still wait for its answer.
      const due = machine.timelyFrom + this.timeoutMs + SLEEPING_SLACK_MS;
      if (this.#world.now < due) {
        this.#world.at(due, look);
        return;
      }
      const left = machine.timers.size;
      insist(
        left === 0 || machine.dead,
        'leaks',
        () => `${machine.name} has stopped and has ${left} timers left`,
      );
    };
    this.#world.after(this.timeoutMs + SLEEPING_SLACK_MS, look);
    const wasReachable = this.lastTrouble < this.#world.now - (machine.monotonic() - stoppingSince) - limitMs;
    if (!wasReachable) return;
    for (const { key, grant } of this.claims.values()) {
      insist(
        grant.stretched || this.#store.audit.live(key, this.#store.now()) !== grant,
        'drain',
        () => `${machine.name} has stopped, and has not given ${key} back`,
      );
    }
  }
}

function tokenKey(key: string, token: number): string {
  return `${key}\n${token}`;
}
