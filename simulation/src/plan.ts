import type { JobOptions } from 'joblatch';
import { type Clocks, START } from './machine.js';
import { CALM, type Weather } from './network.js';
import type { ClientConfig } from './process.js';
import { Random } from './random.js';
import type { StoreConfig } from './store.js';

/** What a function under a lock does, step by step. */
export type Step =
  | { readonly do: 'work'; readonly ms: number }
  /** Blocks the event loop. */
  | { readonly do: 'block'; readonly ms: number }
  | { readonly do: 'extend'; readonly ms: number; readonly atLeastMs: number | undefined }
  /** The same job again, inside of itself. */
  | { readonly do: 'nest'; readonly steps: readonly Step[] }
  /** The same job again, started from inside and left running. */
  | { readonly do: 'detach'; readonly ms: number; readonly steps: readonly Step[] }
  /** Another key, inside of it. */
  | { readonly do: 'inner'; readonly key: number; readonly steps: readonly Step[] }
  | { readonly do: 'assert' }
  | { readonly do: 'release' }
  | { readonly do: 'until abort' }
  | { readonly do: 'throw' }
  | { readonly do: 'hang' };

export type SlotAsked = { readonly slot: number } | { readonly oncePerMs: number } | undefined;

export type UserAct =
  | {
      readonly do: 'job';
      readonly key: number;
      readonly slot: SlotAsked;
      readonly tick: boolean;
      readonly steps: readonly Step[];
    }
  | {
      readonly do: 'try' | 'acquire' | 'withLock';
      readonly key: number;
      readonly leaseMs: number | undefined;
      readonly atLeastMs: number;
      readonly waitMs: number;
      readonly slot: SlotAsked;
      /** Which of the process's shared signals it is called with. */
      readonly signal: number | undefined;
      readonly steps: readonly Step[];
      readonly end: 'release' | 'release twice' | 'release while extending' | 'drop';
    }
  | { readonly do: 'abort signal'; readonly signal: number }
  | { readonly do: 'stop' | 'close'; readonly graceMs: number };

export type Fault =
  | { readonly do: 'pause' | 'suspend'; readonly ms: number }
  | { readonly do: 'set wall clock'; readonly byMs: number }
  | { readonly do: 'kill' }
  | { readonly do: 'start' }
  | { readonly do: 'link down'; readonly ms: number; readonly how: 'refusing' | 'silent' };

export type WorldFault =
  | { readonly do: 'restart store'; readonly ms: number }
  | { readonly do: 'forget all' }
  | { readonly do: 'forget key'; readonly key: number }
  | { readonly do: 'set clock of the store'; readonly byMs: number }
  | { readonly do: 'force'; readonly key: number }
  | { readonly do: 'purge'; readonly idleMs: number };

export interface Act {
  readonly id: number;
  readonly at: number;
  /** On which machine; undefined: in the store. */
  readonly place: number | undefined;
  readonly what: UserAct | Fault | WorldFault;
}

export interface JobKey {
  readonly name: string;
  readonly options: JobOptions & {
    readonly lockAtMostFor: number;
    readonly lockAtLeastFor: number;
    readonly keepAlive: boolean;
    readonly perSlot: 'at-most-once' | 'at-least-once';
  };
}

/** All that a seed says: a plan is carried out the same way every time. */
export interface Plan {
  readonly seed: number;
  readonly horizonMs: number;
  /** If it takes fewer steps than these, all acts happen once more. */
  readonly fewestSteps: number;
  readonly calm: boolean;
  readonly store: StoreConfig;
  readonly client: ClientConfig;
  readonly weather: Weather;
  readonly places: readonly Clocks[];
  readonly jobs: readonly JobKey[];
  readonly keys: readonly string[];
  readonly acts: readonly Act[];
}

const FEWEST_STEPS = 1_000;
const DAY_MS = 86_400_000;
const SHAPES = ['mail', 'nightly:settlement', 'outbox{eu}', 'Zürich ☂', 'a b', 'mail ', 'MAIL'];
/** Shared signals of a process. */
export const SIGNALS = 3;

export function planOf(seed: number): Plan {
  const chance = new Random(seed, 0);
  const mood = chance.weighted({ calm: 6, mixed: 40, network: 18, pauses: 18, store: 18 });
  const places = chance.int(5, 12);
  const horizonMs = chance.pick([60_000, 80_000, 100_000]);
  const watchdogLeaseMs = chance.pick([600, 1_500, 3_000, 9_000]);
  const jobs = Array.from({ length: chance.int(1, 3) }, (_, i) => jobKey(chance, i, watchdogLeaseMs));
  const keys = Array.from({ length: chance.int(1, 3) }, (_, i) => `${chance.pick(SHAPES)} ${i}`);
  const draft = new Draft(chance, places, horizonMs, jobs, keys.length, watchdogLeaseMs);
  draft.users(chance.int(170, 225));
  if (mood !== 'calm') draft.faults(mood);
  return {
    seed,
    horizonMs,
    fewestSteps: FEWEST_STEPS,
    calm: mood === 'calm',
    store: { rate: chance.ms(-20, 20) / 10_000, endsOnWall: chance.chance(0.6) },
    client: {
      watchdogLeaseMs,
      storeTimeoutMs: chance.pick([250, 600, 1_500]),
      pollMs: chance.pick([100, 250, 600]),
    },
    weather: mood === 'calm' ? CALM : weather(chance, mood === 'network' ? 3 : 1),
    places: Array.from({ length: places }, () => ({
      rate: chance.ms(-45, 45) / 10_000,
      wallOffsetMs: chance.chance(0.5) ? 0 : chance.ms(-600_000, 600_000),
    })),
    jobs,
    keys,
    acts: draft.acts.sort((a, b) => a.at - b.at || a.id - b.id),
  };
}

function weather(chance: Random, strength: number): Weather {
  const some = (most: number): number => (chance.chance(0.4) ? 0 : chance.next() * most * strength);
  return {
    fastMs: CALM.fastMs,
    slow: some(0.06),
    slowMs: chance.pick([100, 700, 4_000]),
    drop: some(0.03),
    lose: some(0.04),
    silent: chance.pick([0, 0.5, 1]),
    locked: some(0.02),
    twice: some(0.05),
    freeze: some(0.006),
    freezeMs: chance.pick([300, 2_000, 12_000]),
  };
}

function jobKey(chance: Random, i: number, watchdogLeaseMs: number): JobKey {
  const keepAlive = chance.chance(0.5);
  const lockAtMostFor = keepAlive
    ? Math.round(watchdogLeaseMs * chance.pick([0.7, 2, 5, 20]))
    : chance.pick([400, 2_000, 8_000, 30_000]);
  const lockAtLeastFor = chance.chance(0.4)
    ? 0
    : Math.round(lockAtMostFor * chance.pick([0.05, 0.3, 0.8, 1]));
  return {
    name: `${chance.pick(SHAPES)} job ${i}`,
    options: {
      lockAtMostFor,
      lockAtLeastFor,
      keepAlive,
      perSlot: chance.chance(0.5) ? 'at-most-once' : 'at-least-once',
    },
  };
}

class Draft {
  readonly acts: Act[] = [];
  readonly #chance: Random;
  readonly #places: number;
  readonly #horizonMs: number;
  readonly #jobs: readonly JobKey[];
  readonly #keys: number;
  readonly #leaseMs: number;

  constructor(
    chance: Random,
    places: number,
    horizonMs: number,
    jobs: readonly JobKey[],
    keys: number,
    leaseMs: number,
  ) {
    this.#chance = chance;
    this.#places = places;
    this.#horizonMs = horizonMs;
    this.#jobs = jobs;
    this.#keys = keys;
    this.#leaseMs = leaseMs;
  }

  #add(at: number, place: number | undefined, what: Act['what']): void {
    this.acts.push({ id: this.acts.length, at, place, what });
  }

  #moment(): number {
    return this.#chance.ms(0, this.#horizonMs);
  }

  #place(): number {
    return this.#chance.int(0, this.#places - 1);
  }

  /** What people do with the library. */
  users(count: number): void {
    for (let i = 0; i < count; i += 1) {
      const kind = this.#chance.weighted({
        tick: 18,
        job: 22,
        try: 16,
        acquire: 22,
        withLock: 8,
        abort: 5,
        stop: 1.5,
        close: 1.5,
      });
      if (kind === 'tick') this.#tickOfASchedule();
      else if (kind === 'job') this.#job(this.#moment(), this.#place(), this.#oddSlot());
      else if (kind === 'abort')
        this.#add(this.#moment(), this.#place(), {
          do: 'abort signal',
          signal: this.#chance.int(0, SIGNALS - 1),
        });
      else if (kind === 'stop' || kind === 'close') this.#end(kind);
      else this.#lock(kind);
    }
  }

  /** Every machine wakes for the same slot, each a little late by its own timer. */
  #tickOfASchedule(): void {
    const at = Math.floor(this.#moment() / 1_000) * 1_000;
    const key = this.#chance.int(0, this.#jobs.length - 1);
    const slot = this.#chance.weighted({ slot: 5, none: 2, oncePer: 2 });
    const asked: SlotAsked =
      slot === 'slot'
        ? { slot: START + at }
        : slot === 'oncePer'
          ? { oncePerMs: this.#chance.pick([1_000, 5_000, 60_000]) }
          : undefined;
    const steps = this.#steps(2);
    for (let place = 0; place < this.#places; place += 1) {
      if (this.#chance.chance(0.3)) continue;
      this.#add(at + this.#chance.ms(0, 120), place, { do: 'job', key, slot: asked, tick: false, steps });
    }
  }

  #oddSlot(): SlotAsked {
    const at = Math.floor(this.#moment() / 1_000) * 1_000;
    const kind = this.#chance.weighted({ none: 12, slot: 5, ahead: 1, justAhead: 1, old: 1, oncePer: 2 });
    if (kind === 'none') return undefined;
    if (kind === 'oncePer') return { oncePerMs: this.#chance.pick([1_000, 10_000]) };
    const by = { slot: 0, ahead: 75_000, justAhead: 30_000, old: -31 * DAY_MS }[kind];
    return { slot: START + at + by };
  }

  #job(at: number, place: number, slot: SlotAsked): void {
    const key = this.#chance.int(0, this.#jobs.length - 1);
    const tick = slot === undefined && this.#chance.chance(0.2);
    this.#add(at, place, { do: 'job', key, slot, tick, steps: this.#steps(2) });
  }

  #lock(kind: 'try' | 'acquire' | 'withLock'): void {
    const chance = this.#chance;
    const leaseMs = chance.chance(0.5) ? undefined : chance.pick([80, 500, 3_000, 20_000, 60_000]);
    const atLeastMs = chance.chance(0.75)
      ? 0
      : Math.round((leaseMs ?? this.#leaseMs * 2) * chance.pick([0.1, 0.5, 1]));
    const slot = chance.chance(0.92) ? undefined : this.#oddSlot();
    const end = chance.weighted({
      release: 12,
      'release twice': 2,
      'release while extending': 2,
      drop: leaseMs === undefined ? 0 : 2,
    });
    this.#add(this.#moment(), this.#place(), {
      do: kind,
      key: chance.int(0, this.#keys - 1),
      leaseMs,
      atLeastMs,
      waitMs: chance.pick([0, 300, 2_000, 8_000]),
      slot,
      signal: chance.chance(0.3) ? chance.int(0, SIGNALS - 1) : undefined,
      steps: this.#steps(1),
      end,
    });
  }

  #end(kind: 'stop' | 'close'): void {
    const place = this.#place();
    const at = this.#moment();
    this.#add(at, place, { do: kind, graceMs: this.#chance.pick([0, 200, 3_000]) });
    this.#add(at + this.#chance.ms(100, 9_000), place, { do: 'start' });
  }

  #steps(depth: number): Step[] {
    const chance = this.#chance;
    const steps: Step[] = [];
    const count = chance.int(0, 3);
    for (let i = 0; i < count; i += 1) {
      const kind = chance.weighted({
        work: 30,
        extend: 7,
        nest: depth > 0 ? 4 : 0,
        detach: depth > 0 ? 2 : 0,
        inner: depth > 0 ? 3 : 0,
        assert: 4,
        block: 2,
        release: 1,
        'until abort': 1.5,
        throw: 4,
        hang: 0.3,
      });
      if (kind === 'work' || kind === 'block') steps.push({ do: kind, ms: this.#duration() });
      else if (kind === 'extend') steps.push(this.#extension());
      else if (kind === 'nest') steps.push({ do: kind, steps: this.#steps(depth - 1) });
      else if (kind === 'detach') steps.push({ do: kind, ms: this.#duration(), steps: this.#steps(0) });
      else if (kind === 'inner')
        steps.push({ do: kind, key: chance.int(0, this.#keys - 1), steps: this.#steps(0) });
      else steps.push({ do: kind });
    }
    return steps;
  }

  /** Most of what people do is short; some of it outlasts its lease. */
  #duration(): number {
    const chance = this.#chance;
    return chance.ms(0, chance.pick([5, 5, 40, 300, 300, 2_000, 2 * this.#leaseMs, 9_000]));
  }

  #extension(): Step {
    const chance = this.#chance;
    const ms = chance.pick([100, 1_000, 5_000, this.#leaseMs * 3]);
    return {
      do: 'extend',
      ms,
      atLeastMs: chance.chance(0.7) ? undefined : Math.round(ms * chance.pick([0, 0.5, 1])),
    };
  }

  /** What goes wrong around them. */
  faults(mood: 'mixed' | 'network' | 'pauses' | 'store'): void {
    const { pauses, links, ends, stores } = {
      mixed: { pauses: 7, links: 3, ends: 4, stores: 3 },
      network: { pauses: 2, links: 8, ends: 2, stores: 1 },
      pauses: { pauses: 20, links: 1, ends: 3, stores: 0 },
      store: { pauses: 2, links: 1, ends: 2, stores: 9 },
    }[mood];
    const chance = this.#chance;
    for (let i = chance.int(0, pauses); i > 0; i -= 1) this.#add(this.#moment(), this.#place(), this.#stop());
    for (let i = chance.int(0, links); i > 0; i -= 1) {
      const how = chance.pick(['refusing', 'silent'] as const);
      this.#add(this.#moment(), this.#place(), { do: 'link down', ms: chance.ms(50, 8_000), how });
    }
    for (let i = chance.int(0, ends); i > 0; i -= 1) {
      const [at, place] = [this.#moment(), this.#place()];
      this.#add(at, place, { do: 'kill' });
      this.#add(at + chance.ms(50, 8_000), place, { do: 'start' });
    }
    for (let i = chance.int(0, stores); i > 0; i -= 1)
      this.#add(this.#moment(), undefined, this.#storeFault());
  }

  #stop(): Fault {
    const chance = this.#chance;
    const kind = chance.weighted({ pause: 6, suspend: 3, 'set wall clock': 2 });
    if (kind === 'set wall clock') return { do: kind, byMs: chance.ms(-3_600_000, 3_600_000) };
    const ms = chance.ms(kind === 'suspend' ? 100 : 5, chance.pick([150, 1_000, 2 * this.#leaseMs, 15_000]));
    return { do: kind, ms };
  }

  #storeFault(): WorldFault {
    const chance = this.#chance;
    const kind = chance.weighted({
      'restart store': 5,
      'forget all': 1,
      'forget key': 2,
      'set clock of the store': 3,
      force: 3,
      purge: 3,
    });
    const key = chance.int(0, this.#jobs.length + this.#keys - 1);
    switch (kind) {
      case 'restart store':
        return { do: kind, ms: chance.ms(20, 6_000) };
      case 'forget all':
        return { do: kind };
      case 'forget key':
        return { do: kind, key };
      case 'set clock of the store':
        return { do: kind, byMs: chance.ms(-20_000, 20_000) * chance.pick([0.01, 1, 60]) };
      case 'force':
        return { do: kind, key };
      case 'purge':
        return { do: kind, idleMs: chance.pick([0, 100, 5_000]) };
    }
  }
}
