import type { Runtime } from '../provider/runtime.js';
import { seededRandom } from './seeded-random.js';
import { Timeline, type TimelineTimer } from './timeline.js';

export interface ManualRuntimeOptions {
  /** The wall clock at the beginning, in epoch milliseconds. Default 2026-01-01T00:00:00Z. */
  readonly start?: number | undefined;
  /** Equal seeds give equal random numbers. Default 1. */
  readonly seed?: number | undefined;
  /** How owner ids name the instance. Default `manual:1`. */
  readonly instance?: string | undefined;
}

export interface InstanceOptions {
  /** How owner ids name the instance. Default: the next number. */
  readonly instance?: string | undefined;
  /** How far its wall clock is off, in milliseconds. Default 0. */
  readonly wallOffsetMs?: number | undefined;
}

/** A runtime whose time a test drives. */
export interface ManualRuntime extends Runtime {
  /**
   * Lets time pass, for this instance and for all that share its time: fires the timers that come due, in
   * their order, and lets promises settle before and between them. Resolves when all that is done.
   *
   * @throws what a timer's callback threw
   */
  advance(ms: number): Promise<void>;
  /** Sets this instance's wall clock, in epoch milliseconds. Timers and the monotonic clock do not notice. */
  setWall(epochMs: number): void;
  /** Moves this instance's wall clock, forward or back. */
  jumpWall(ms: number): void;
  /** How many timers are armed. One that is left when all is closed is a leak. */
  pendingTimers(kind?: 'all' | 'foreground'): number;
  /** Another instance in the same time: clocks, timers, random numbers and pauses of its own. */
  fork(options?: InstanceOptions): ManualRuntime;
  /** Stops this instance, as SIGSTOP does: its clocks stand and its timers do not fire while time passes. */
  pause(): void;
  /** Continues it: its clocks show the time that has passed meanwhile, and what was due fires now, late. */
  resume(): Promise<void>;
}

const START = Date.UTC(2026, 0, 1);

/**
 * A runtime whose time stands until it is advanced. Give the store and every instance one of their own, all
 * forked from the first: they share one time, and a paused process is a clock that nobody advances.
 *
 * ```ts
 * const time = manualRuntime();
 * const store = new Map();
 * const a = time.fork();
 * const b = time.fork({ wallOffsetMs: 3_600_000 });
 * const locks = createLocks({ provider: memoryProvider({ store, runtime: time }), runtime: a });
 * a.pause();
 * await time.advance(30_000); // the lease of a's lock runs out, and a has not noticed
 * await a.resume();
 * ```
 */
export function manualRuntime(options: ManualRuntimeOptions = {}): ManualRuntime {
  const { start = START, seed = 1, instance } = options;
  const timeline = new Timeline();
  return new Instance(new World(timeline, start, seed), { instance });
}

/** What the instances of one time share. */
class World {
  readonly timeline: Timeline;
  readonly start: number;
  readonly #seed: number;
  #instances = 0;

  constructor(timeline: Timeline, start: number, seed: number) {
    this.timeline = timeline;
    this.start = start;
    this.#seed = seed;
  }

  join(): { readonly number: number; readonly random: () => number } {
    this.#instances += 1;
    return { number: this.#instances, random: seededRandom(this.#seed, this.#instances) };
  }
}

class Instance implements ManualRuntime {
  readonly instance: string;
  readonly random: () => number;
  readonly #world: World;
  readonly #timers = new Set<TimelineTimer>();
  #wallOffset: number;
  /** The time at which it was paused; its clocks stand there. */
  #pausedAt: number | undefined;
  /** Timers that came due while it was paused. */
  #late: TimelineTimer[] = [];

  constructor(world: World, { instance, wallOffsetMs = 0 }: InstanceOptions) {
    const { number, random } = world.join();
    this.instance = instance ?? `manual:${number}`;
    this.random = random;
    this.#world = world;
    this.#wallOffset = wallOffsetMs;
  }

  wall(): number {
    return this.#world.start + this.monotonic() + this.#wallOffset;
  }

  monotonic(): number {
    return this.#pausedAt ?? this.#world.timeline.now;
  }

  setTimer(
    callback: () => void,
    delayMs: number,
    options: { readonly background?: boolean } = {},
  ): () => void {
    const { timeline } = this.#world;
    const timer = timeline.add(this.monotonic() + Math.max(0, delayMs), options.background === true, () =>
      this.#due(timer, callback),
    );
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
      timeline.remove(timer);
      this.#late = this.#late.filter((other) => other !== timer);
    };
  }

  async advance(ms: number): Promise<void> {
    await this.#world.timeline.advance(ms);
  }

  setWall(epochMs: number): void {
    this.jumpWall(epochMs - this.wall());
  }

  jumpWall(ms: number): void {
    this.#wallOffset += ms;
  }

  pendingTimers(kind: 'all' | 'foreground' = 'all'): number {
    if (kind === 'all') return this.#timers.size;
    return [...this.#timers].filter(({ background }) => !background).length;
  }

  fork(options: InstanceOptions = {}): ManualRuntime {
    return new Instance(this.#world, options);
  }

  pause(): void {
    this.#pausedAt ??= this.#world.timeline.now;
  }

  async resume(): Promise<void> {
    this.#pausedAt = undefined;
    const late = this.#late;
    this.#late = [];
    for (const timer of late) this.#world.timeline.put(timer);
    await this.#world.timeline.advance(0);
  }

  #due(timer: TimelineTimer, callback: () => void): void {
    if (this.#pausedAt !== undefined) {
      this.#late.push(timer);
      return;
    }
    this.#timers.delete(timer);
    callback();
  }
}
