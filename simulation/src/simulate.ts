import { insist, takeViolation, Violation } from './invariants.js';
import type { Library } from './library.js';
import { type Clocks, Machine } from './machine.js';
import type { Act, Fault, Plan, UserAct, WorldFault } from './plan.js';
import { Process } from './process.js';
import { Random } from './random.js';
import { Counters } from './sometimes.js';
import { Store } from './store.js';
import { type Timeline, writeTimeline } from './timeline.js';
import { Ledger, User } from './user.js';
import { World } from './world.js';

export interface Result {
  readonly steps: number;
  readonly violation: Violation | undefined;
  readonly counters: Counters;
  readonly timeline: readonly string[];
}

/** How long all that was begun may take to come to its end, once nothing goes wrong any more. */
const SETTLING_MS = 120_000;
const LAST_GRACE_MS = 500;
/** A seed that is busier ends before its horizon: another one shows more than the rest of it. */
const ENOUGH_STEPS = 1_500;

interface Place {
  incarnation: number;
  process: Process;
  user: User;
}

/** Carries a plan out. The same plan, with the same library, gives the same result on every machine. */
export async function simulate(library: Library, plan: Plan, traced: boolean): Promise<Result> {
  takeViolation();
  const simulation = new Simulation(library, plan, traced);
  let violation: Violation | undefined;
  try {
    await simulation.run();
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    violation = error;
  }
  violation = takeViolation() ?? violation;
  if (violation !== undefined) simulation.tellEnd(violation);
  return {
    steps: simulation.world.steps,
    violation,
    counters: simulation.counters,
    timeline: simulation.timeline?.lines ?? [],
  };
}

class Simulation {
  readonly world = new World();
  readonly counters = new Counters();
  readonly timeline: Timeline | undefined;
  readonly #library: Library;
  readonly #plan: Plan;
  readonly #store: Store;
  readonly #ledger = new Ledger();
  readonly #places: Place[] = [];
  /** Keys that the store has forgotten; undefined: all of them. */
  readonly #forgotten = new Set<string | undefined>();
  readonly #rejections: unknown[] = [];
  #healed = false;
  readonly #freeSince = new Map<string, number>();

  constructor(library: Library, plan: Plan, traced: boolean) {
    this.#library = library;
    this.#plan = plan;
    this.#store = new Store(this.world, library, plan.store);
    this.timeline = traced ? writeTimeline(this.world, this.#store) : undefined;
  }

  async run(): Promise<void> {
    const reject = (reason: unknown): void => void this.#rejections.push(reason);
    process.on('unhandledRejection', reject);
    try {
      for (const [place, clocks] of this.#plan.places.entries()) {
        this.#places.push(this.#start(clocks, place, 0));
      }
      this.#schedule(0);
      await this.#live(this.#plan.horizonMs);
      // Once more what people do, where that was little.
      for (let from = this.world.now; this.world.steps < this.#plan.fewestSteps; from = this.world.now) {
        this.#schedule(from);
        await this.#live(from + this.#plan.horizonMs);
      }
      this.#heal();
      for (const { process, user } of this.#places) {
        process.machine.enter(() => void user.act({ do: 'close', graceMs: LAST_GRACE_MS }));
      }
      const end = this.world.now + SETTLING_MS;
      await this.#until(() => this.world.now > end);
      this.#checkEnd();
    } finally {
      process.removeListener('unhandledRejection', reject);
    }
  }

  #schedule(from: number): void {
    for (const act of this.#plan.acts) this.world.at(from + act.at, () => this.#act(act));
  }

  #live(untilMs: number): Promise<void> {
    this.world.at(untilMs, () => {});
    return this.#until(() => this.world.now >= untilMs || this.world.steps >= ENOUGH_STEPS);
  }

  #until(over: () => boolean): Promise<void> {
    return this.world.run(() => this.#afterStep(), over);
  }

  #start(clocks: Clocks, place: number, incarnation: number): Place {
    const { seed, client, weather, calm } = this.#plan;
    const stream = 1 + place * 1_000 + incarnation * 10;
    const name = `${String.fromCharCode(97 + place)}${incarnation + 1}`;
    const machine = new Machine(
      this.world,
      this.#library,
      name,
      clocks,
      new Random(seed, stream),
      new Random(seed, stream + 1),
    );
    const tell = this.timeline?.of(machine);
    const chance = new Random(seed, stream + 2);
    const process = new Process(
      this.world,
      this.#store,
      machine,
      this.#library,
      client,
      weather,
      chance,
      this.counters,
      calm,
      tell,
    );
    const user = new User(
      this.#library,
      this.#plan,
      process,
      this.counters,
      this.#ledger,
      (key) => this.#forgotten.has(key) || this.#forgotten.has(undefined),
    );
    return { incarnation, process, user };
  }

  #act({ place, what }: Act): void {
    if (this.#healed) return;
    if (place === undefined) {
      this.#storeFault(what as WorldFault);
      return;
    }
    const { process } = this.#places[place] as Place;
    if (!this.#machineFault(place, process, what as Fault)) {
      const { user } = this.#places[place] as Place;
      process.machine.enter(() => void user.act(what as UserAct));
    }
  }

  /** Whether it was one. */
  #machineFault(place: number, process: Process, fault: Fault): boolean {
    const { machine, network } = process;
    const { counters } = this;
    switch (fault.do) {
      case 'pause':
      case 'suspend': {
        process.trace(() => `${fault.do === 'pause' ? 'is paused' : 'is suspended'} for ${fault.ms} ms`);
        counters.hit(fault.do === 'pause' ? 'process paused' : 'machine suspended');
        const holds = [...process.claims.values()].some(({ lock }) => lock?.held && lock.leftMs < fault.ms);
        if (holds) counters.hit('process paused beyond a lease');
        machine[fault.do](fault.ms);
        return true;
      }
      case 'set wall clock':
        process.trace(() => `has its wall clock set by ${fault.byMs} ms`);
        counters.hit('wall clock of a machine set');
        machine.jumpWall(fault.byMs);
        return true;
      case 'link down':
        process.trace(() => `is cut off for ${fault.ms} ms (${fault.how})`);
        counters.hit('link down');
        network.down = fault.how;
        network.trouble(fault.ms);
        this.world.after(fault.ms, () => {
          network.down = undefined;
        });
        return true;
      case 'kill':
        if (machine.dead) return true;
        process.trace(() => 'is killed');
        counters.hit('process killed');
        if ([...process.claims.values()].some(({ lock }) => lock?.held))
          counters.hit('process killed while it held');
        machine.kill();
        return true;
      case 'start': {
        if (!machine.dead && !process.stopped) return true;
        counters.hit('process started again');
        machine.kill();
        const { incarnation } = this.#places[place] as Place;
        this.#places[place] = this.#start(this.#plan.places[place] as Clocks, place, incarnation + 1);
        this.#places[place].process.trace(() => 'starts');
        return true;
      }
      default:
        return false;
    }
  }

  #storeFault(fault: WorldFault): void {
    const { counters, world } = this;
    const store = this.#store;
    this.timeline?.tell(
      () =>
        `the store: ${fault.do}${'ms' in fault ? `, down for ${fault.ms} ms` : ''}${'byMs' in fault ? ` by ${fault.byMs} ms` : ''}`,
    );
    switch (fault.do) {
      case 'restart store':
        counters.hit('store restarted');
        store.up = false;
        store.lastTrouble = Math.max(store.lastTrouble, world.now + fault.ms);
        world.after(fault.ms, () => {
          store.up = true;
        });
        return;
      case 'forget all':
        counters.hit('store forgot everything');
        this.#forgotten.add(undefined);
        store.forgetAll();
        return;
      case 'forget key':
        counters.hit('store forgot a key');
        this.#forgotten.add(this.#keyOf(fault.key));
        store.forget(this.#keyOf(fault.key));
        return;
      case 'set clock of the store':
        counters.hit(fault.byMs < 0 ? 'clock of the store put back' : 'clock of the store put forward');
        store.setClock(fault.byMs);
        return;
      case 'force':
        counters.hit('key released by force');
        void store.forceRelease(this.#keyOf(fault.key));
        return;
      case 'purge':
        counters.hit('records purged');
        void store.purge(fault.idleMs);
    }
  }

  #keyOf(index: number): string {
    const { jobs, keys } = this.#plan;
    return jobs[index]?.name ?? (keys[index - jobs.length] as string);
  }

  #afterStep(): void {
    const violation = takeViolation();
    if (violation !== undefined) throw violation;
    for (const { process } of this.#places) process.check();
    this.#checkExclusion();
    this.#checkWaiting();
    if (this.#rejections.length > 0) {
      const reason = this.#rejections[0];
      if (reason instanceof Violation) throw reason;
      insist(false, 'leaks', () => `a rejection that nobody handles: ${String(reason)}`);
    }
  }

  /** Two processes that both believe in one key; where the store itself took it from one, he may not know yet. */
  #checkExclusion(): void {
    const holders = new Map<string, string>();
    for (const { process } of this.#places) {
      if (!process.machine.readable) continue;
      for (const { key, lock, grant, ended } of process.open) {
        if (ended || grant.revoked !== undefined || !lock?.held) continue;
        const other = holders.get(key);
        insist(
          other === undefined,
          'exclusion',
          () => `${other} and ${process.machine.name} both hold ${key}`,
        );
        holders.set(key, process.machine.name);
      }
    }
  }

  #checkWaiting(): void {
    const { now } = this.world;
    for (const { process } of this.#places) {
      process.checkWaiters((key) => {
        const time = this.#store.now();
        const until = this.#store.audit.takenUntil(key, time);
        if (until > time.ends) {
          this.#freeSince.delete(key);
          return undefined;
        }
        // Never taken, or free for so long, by a clock that may have been set; seen to be free by us.
        const seen = this.#freeSince.get(key) ?? now;
        this.#freeSince.set(key, seen);
        return seen;
      });
    }
  }

  #heal(): void {
    this.timeline?.tell(() => 'nothing goes wrong any more; all close');
    this.#healed = true;
    this.#store.up = true;
    for (const { process } of this.#places) process.network.heal();
  }

  #checkEnd(): void {
    for (const { process, user } of this.#places) {
      const { machine } = process;
      if (machine.dead) continue;
      insist(process.stopped, 'bounded', () => `${machine.name} has not closed`);
      insist(
        machine.timers.size === 0,
        'leaks',
        () => `${machine.name} has ${machine.timers.size} timers left`,
      );
      insist(process.waiters.size === 0, 'leaks', () => `${machine.name} has waiters left`);
      insist(
        process.unsettled.size === 0,
        'leaks',
        () => `${machine.name} never settled: ${[...process.unsettled]}`,
      );
      insist(
        user.listeners === 0,
        'leaks',
        () => `${machine.name} has ${user.listeners} listeners left on signals`,
      );
    }
  }

  /** Who holds what by whose clock, when it happened. */
  tellEnd(violation: Violation): void {
    const { timeline } = this;
    if (timeline === undefined) return;
    timeline.tell(() => `VIOLATION of ${violation.invariant}: ${violation.message}`);
    for (const { process } of this.#places) {
      for (const { key, lock, deadline, token, grant } of process.open) {
        const now = process.machine.monotonic();
        const state = lock?.held ? `held for another ${round(deadline - now)} ms by its clock` : 'not held';
        const left = round(this.#store.trueMsUntil(grant.until));
        const stored = grant.over
          ? `over${grant.revoked ? ` (${grant.revoked})` : ''}`
          : left > 0
            ? `live for another ${left} ms`
            : `ended ${-left} ms ago`;
        timeline.tell(
          () => `  ${process.machine.name}: ${key}, token ${token}: ${state}; in the store: ${stored}`,
        );
      }
    }
  }
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
