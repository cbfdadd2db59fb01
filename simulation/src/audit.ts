import type { AcquireRequest, AcquireResult, ReleaseRequest, RenewRequest, RenewResult } from 'joblatch';
import { insist } from './invariants.js';

/*
 * What a store has to do, said once more and independently of the library: the specification as a model. Each verb
 * that the store executes is executed here too, at the same instant of the same clock, and the answers are compared.
 * The library's own store is the one under test.
 */

const MINUTE_MS = 60_000;
const SLOT_MEMORY_MS = 31 * 24 * 60 * MINUTE_MS;

/** An instant of the clock of the store: the one that ends are counted on, and its wall clock. */
export interface StoreTime {
  readonly ends: number;
  readonly wall: number;
}

/** One acquisition, as the store has it. */
export interface Grant {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  readonly acquiredAt: number;
  until: number;
  over: boolean;
  /** Why the holder may believe in it though it is gone: the store forgot it, was forced, or its clock was set. */
  revoked: string | undefined;
  /** The clock of the store was put back meanwhile: it lasts longer than anybody could know. */
  stretched: boolean;
}

export interface KeyState {
  grant: Grant | undefined;
  /** Until when a released record is kept. */
  keptUntil: number;
  slot: number | undefined;
  token: number;
  /** Whether the record is there; a purge may forget one that says nothing any more. */
  known: boolean;
}

/** The keys as the store has to have them. */
export class Audit {
  readonly keys = new Map<string, KeyState>();
  /** The largest token ever, which no forgetting may undo. */
  readonly #tokens = new Map<string, number>();

  state(key: string): KeyState {
    let state = this.keys.get(key);
    if (state === undefined) {
      state = {
        grant: undefined,
        keptUntil: Number.NEGATIVE_INFINITY,
        slot: undefined,
        token: 0,
        known: false,
      };
      this.keys.set(key, state);
    }
    return state;
  }

  live(key: string, now: StoreTime): Grant | undefined {
    const grant = this.keys.get(key)?.grant;
    return grant !== undefined && !grant.over && grant.until > now.ends ? grant : undefined;
  }

  /** Until when the key is refused, by the clock of the store. */
  takenUntil(key: string, now: StoreTime): number {
    const state = this.keys.get(key);
    if (state === undefined) return Number.NEGATIVE_INFINITY;
    return Math.max(this.live(key, now)?.until ?? Number.NEGATIVE_INFINITY, state.keptUntil);
  }

  acquired(request: AcquireRequest, answer: AcquireResult, now: StoreTime): Grant | undefined {
    const { key, owner, leaseMs, claim = 'acquire' } = request;
    const state = this.state(key);
    const live = this.live(key, now);
    const slot =
      request.oncePerMs === undefined
        ? request.slot
        : Math.floor(now.wall / request.oncePerMs) * request.oncePerMs;
    const slotFault = slot === undefined ? undefined : whySlotIsRefused(slot, state.slot, now.wall);
    if (answer.ok) {
      insist(
        live === undefined,
        'exclusion',
        () => `${key} was granted to ${owner} while ${live?.owner} has it`,
      );
      insist(
        slotFault === undefined,
        'slots',
        () => `${key} was granted with slot ${slot}, which ${slotFault}`,
      );
      insist(
        state.keptUntil <= now.ends,
        'at-least',
        () => `${key} was granted ${state.keptUntil - now.ends} ms before its at-least was over`,
      );
      const due = Math.max(state.token + 1, Math.floor(now.wall * 1000), request.minToken ?? 0);
      const largest = this.#tokens.get(key) ?? 0;
      // What the store has forgotten it can not count on from, if its clock was set back behind the last token.
      const mayRepeat = !state.known && due <= largest;
      insist(
        answer.token > largest || mayRepeat,
        'fencing',
        () => `${key} was granted with token ${answer.token}, after ${largest}`,
      );
      insist(
        answer.token === due,
        'fencing',
        () => `${key} was granted with token ${answer.token}, not ${due}`,
      );
      insist(
        answer.leftMs > 0 && answer.leftMs <= leaseMs,
        'held-is-true',
        () => `${key} was asked for ${leaseMs} ms and granted for ${answer.leftMs} ms`,
      );
      insist(answer.slot === slot, 'slots', () => `${key} was granted with slot ${answer.slot}, not ${slot}`);
      state.token = answer.token;
      state.known = true;
      this.#tokens.set(key, answer.token);
      if (claim === 'acquire') state.slot = latest(state.slot, slot);
      state.keptUntil = Number.NEGATIVE_INFINITY;
      state.grant = {
        key,
        owner,
        token: answer.token,
        acquiredAt: now.ends,
        until: now.ends + leaseMs,
        over: false,
        revoked: undefined,
        stretched: false,
      };
      return state.grant;
    }
    const left = this.takenUntil(key, now) - now.ends;
    const expected = slotFault !== undefined ? 'slot' : left > 0 ? 'held' : undefined;
    insist(
      expected !== undefined,
      'free-is-free',
      () => `${key} was refused as ${answer.reason}, and is free`,
    );
    insist(
      answer.reason === 'slot' || slotFault === undefined,
      'slots',
      () => `${key} was not refused for its slot ${slot}, which ${slotFault}`,
    );
    insist(
      answer.reason === expected,
      'free-is-free',
      () => `${key} was refused as ${answer.reason}; what is true is ${expected}`,
    );
    const told = answer.leftMs ?? Math.ceil(Math.max(0, left));
    insist(
      told - Math.max(0, left) <= 1 && told - left > -1,
      'free-is-free',
      () => `${key} was refused for ${told} ms, and is taken for ${left} ms`,
    );
    return undefined;
  }

  renewed(request: RenewRequest, answer: RenewResult, until: number | undefined, now: StoreTime): void {
    const { key, owner, leaseMs, atLeastMs = 0 } = request;
    const live = this.live(key, now);
    const ours = live?.owner === owner;
    if (answer === 'ok') {
      insist(ours, 'never-revive', () => `${owner} renewed ${key}, and ${live?.owner ?? 'nobody'} has it`);
      const due = Math.max(live.until, now.ends + leaseMs, live.acquiredAt + atLeastMs);
      insist(
        until === due,
        'renewal-end',
        () => `${key} was renewed until ${until}, not ${due}, at ${now.ends} by the clock of the store`,
      );
      live.until = due;
    } else {
      insist(answer === 'lost', 'renewal-end', () => `the renewal of ${key} was answered with ${answer}`);
      insist(!ours, 'no-false-loss', () => `${owner} was told that ${key} is lost, and has it`);
    }
  }

  released(request: ReleaseRequest, answer: boolean, after: KeyEnd | undefined, now: StoreTime): void {
    const { key, owner, keepMs = 0, slot } = request;
    const live = this.live(key, now);
    const ours = live?.owner === owner;
    insist(
      !answer || ours,
      'never-revive',
      () => `${owner} released ${key}, and ${live?.owner ?? 'nobody'} has it`,
    );
    insist(answer || !ours, 'outcome', () => `${owner} released ${key}, had it, and was told that not`);
    if (live === undefined || !ours) return;
    const state = this.state(key);
    live.over = true;
    state.keptUntil = Math.max(now.ends, live.acquiredAt + keepMs);
    state.slot = latest(state.slot, slot);
    insist(
      after?.until === state.keptUntil,
      'at-least',
      () => `${key} was released and is kept until ${after?.until}, not ${state.keptUntil}`,
    );
    insist(
      after?.slot === state.slot,
      'slots',
      () => `${key} was released with slot ${after?.slot}, not ${state.slot}`,
    );
  }

  forced(key: string, answer: boolean, now: StoreTime): void {
    const state = this.state(key);
    const taken = this.takenUntil(key, now) > now.ends;
    insist(
      answer === taken,
      'outcome',
      () => `${key} was released by force: ${answer}, and was taken: ${taken}`,
    );
    if (!taken) return;
    const live = this.live(key, now);
    if (live !== undefined) this.revoke(live, 'released by force');
    state.keptUntil = now.ends;
    state.token = Math.max(state.token + 1, Math.floor(now.wall * 1000));
    this.#tokens.set(key, Math.max(state.token, this.#tokens.get(key) ?? 0));
  }

  /** A purge may forget what says nothing any more: no end in the future, no slot that could be asked for again. */
  purged(key: string, idleMs: number, now: StoreTime): void {
    const state = this.state(key);
    const grantEnd = state.grant?.over === false ? state.grant.until : Number.NEGATIVE_INFINITY;
    const end = Math.max(grantEnd, state.keptUntil);
    insist(
      end < now.ends - idleMs,
      'exclusion',
      () => `${key} was purged ${end - now.ends} ms before its end`,
    );
    insist(
      state.slot === undefined || state.slot <= now.wall - SLOT_MEMORY_MS,
      'slots',
      () => `${key} was purged with slot ${state.slot}, which could be asked for again`,
    );
    insist(
      state.token <= now.wall * 1000,
      'fencing',
      () => `${key} was purged with a token ahead of the clock`,
    );
    this.keys.delete(key);
  }

  /** The store loses what it had: for those who hold something it is as if the key had been taken from them. */
  forget(key: string): void {
    const grant = this.keys.get(key)?.grant;
    if (grant !== undefined) this.revoke(grant, 'forgotten by the store');
    this.keys.delete(key);
  }

  revoke(grant: Grant, why: string): void {
    grant.over = true;
    grant.revoked = why;
  }
}

/** What the store's own record says after a verb. */
export interface KeyEnd {
  readonly until: number;
  readonly slot: number | undefined;
}

function whySlotIsRefused(slot: number, last: number | undefined, wall: number): string | undefined {
  if (slot > wall + MINUTE_MS) return `is ${slot - wall} ms ahead of the store`;
  if (slot <= wall - SLOT_MEMORY_MS) return 'is too old';
  return last !== undefined && slot <= last ? `is not later than ${last}` : undefined;
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a;
}
