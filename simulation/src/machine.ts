import type { Runtime } from 'joblatch';
import type { Library } from './library.js';
import type { Random } from './random.js';
import type { Happening, World } from './world.js';

/** The wall clock of a machine whose clock is right, at true time 0. */
export const START = Date.UTC(2026, 0, 1);

/** The uptime of a system comes in such steps, and the library is told so. */
const UPTIME_STEP_MS = 10;
const LIBRARY_STEP_MS = 25;
/** Timers of a running process fire a little late. */
const TIMER_LATE_MS = 4;
/** After a suspension Node's timers go on where they stood; the library lets none sleep longer than this. */
const LONGEST_SLEEP_MS = 1_000;
/** The library may look at the uptime this long after the machine has gone on. */
const LOOK_AGAIN_MS = 1.5;

export interface Clocks {
  /** How much faster than true time its clocks run: 0.002 is 2 ms in a second. */
  readonly rate: number;
  readonly wallOffsetMs: number;
}

interface Timer {
  readonly callback: () => void;
  /** On the monotonic clock. */
  readonly dueAt: number;
  happening: Happening;
}

/**
 * One process on a machine of its own: the library's `Runtime`, and everything that enters the process passes
 * through it. While it is stopped nothing enters; what came meanwhile enters when it goes on.
 */
export class Machine implements Runtime {
  readonly instance: string;
  /** Of the library's timers. */
  readonly timers = new Set<Timer>();
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly name: string;
  dead = false;
  /** Until when, in true time, nothing enters. */
  #stoppedUntil = 0;
  /** Since when the machine is suspended: its fine clock stands. */
  #suspendedAt: number | undefined;
  /** Until when, in true time, nothing on it can read a clock. */
  #blindUntil = Number.NEGATIVE_INFINITY;
  /** The true time that the fine clock has not counted. */
  #uncounted = 0;
  /** How long it was stopped in all, in true time. */
  stoppedMs = 0;
  #wallOffset: number;
  #waiting: (() => void)[] = [];
  readonly #world: World;
  readonly #rate: number;
  readonly #chance: Random;

  constructor(
    world: World,
    library: Library,
    name: string,
    { rate, wallOffsetMs }: Clocks,
    chance: Random,
    random: Random,
  ) {
    this.#world = world;
    this.name = name;
    this.instance = `${name}:1`;
    this.#rate = 1 + rate;
    this.#wallOffset = wallOffsetMs;
    this.#chance = chance;
    this.random = random.next;
    const fine = (): number => ((this.#suspendedAt ?? this.#world.now) - this.#uncounted) * this.#rate;
    const uptime = (): number =>
      Math.floor((this.#world.now * this.#rate) / UPTIME_STEP_MS) * UPTIME_STEP_MS + 100_000;
    this.monotonic = library.suspensionAwareClock(fine, uptime, LIBRARY_STEP_MS);
  }

  wall(): number {
    return Math.floor(START + this.#world.now * this.#rate + this.#wallOffset);
  }

  jumpWall(ms: number): void {
    this.#wallOffset += ms;
  }

  get running(): boolean {
    return !this.dead && this.#world.now >= this.#stoppedUntil;
  }

  /** When it last went on after a stop, or will, in true time. */
  get lastStopEnd(): number {
    return this.#stoppedUntil;
  }

  /** From when on, in true time, its timers fire when they are due, or a little later. */
  get timelyFrom(): number {
    return Math.max(this.#stoppedUntil, this.#blindUntil + LONGEST_SLEEP_MS);
  }

  /** Whether a program on it could read its clocks now. One that is merely paused reads them when it goes on. */
  get readable(): boolean {
    return !this.dead && this.#world.now >= this.#blindUntil;
  }

  setTimer(callback: () => void, delayMs: number): () => void {
    const timer: Timer = {
      callback,
      dueAt: this.monotonic() + Math.max(0, delayMs),
      happening: undefined as unknown as Happening,
    };
    this.timers.add(timer);
    this.#arm(timer, this.#lateness());
    return () => {
      if (this.timers.delete(timer)) this.#world.cancel(timer.happening);
    };
  }

  #lateness(): number {
    return this.#chance.chance(0.03) ? this.#chance.ms(0, 60) : this.#chance.ms(0, TIMER_LATE_MS);
  }

  #arm(timer: Timer, lateMs: number): void {
    const inMs = Math.max(0, timer.dueAt - this.monotonic()) / this.#rate + lateMs;
    timer.happening = this.#world.after(inMs, () => {
      // The timers of a suspended machine stand still: they are armed anew when it goes on.
      if (this.#suspendedAt === undefined) this.enter(() => this.#fire(timer));
    });
  }

  #fire(timer: Timer): void {
    if (!this.timers.has(timer)) return;
    if (this.monotonic() < timer.dueAt) {
      this.#arm(timer, 0.0625);
      return;
    }
    this.timers.delete(timer);
    timer.callback();
  }

  /** Lets something into the process: now, or when it goes on; never, once it is dead. */
  enter(callback: () => void): void {
    if (this.dead) return;
    if (this.running) callback();
    else this.#waiting.push(callback);
  }

  /** A sleep of the application's, not of the library's. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#world.after(ms / this.#rate, () => this.enter(resolve));
    });
  }

  /** Stops the process: a SIGSTOP, a pause of the collector, a blocked event loop. Its clocks go on. */
  pause(ms: number): void {
    if (!this.dead && this.#suspendedAt === undefined) this.#stop(ms, () => {});
  }

  /** Suspends the machine: the fine clock stands, and so do the timers; the uptime goes on. */
  suspend(ms: number): void {
    if (!this.running || this.#suspendedAt !== undefined) return;
    this.#suspendedAt = this.#world.now;
    this.#blindUntil = this.#world.now + ms + LOOK_AGAIN_MS;
    this.#world.after(ms, () => {
      this.#uncounted += this.#world.now - (this.#suspendedAt as number);
      this.#suspendedAt = undefined;
    });
    this.#stop(ms + LOOK_AGAIN_MS, () => this.#rearm());
  }

  #stop(ms: number, whenOver: () => void): void {
    const { now } = this.#world;
    const until = now + ms;
    if (until <= this.#stoppedUntil) return;
    this.stoppedMs += until - Math.max(now, this.#stoppedUntil);
    this.#stoppedUntil = until;
    this.#world.at(until, () => {
      if (!this.running) return;
      whenOver();
      this.#goOn();
    });
  }

  #goOn(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    // Timers and answers of the network come in either order.
    const first = waiting.length > 1 ? this.#chance.int(0, waiting.length - 1) : 0;
    for (const callback of [...waiting.slice(first), ...waiting.slice(0, first)]) {
      this.#world.after(0, () => this.enter(callback));
    }
  }

  #rearm(): void {
    for (const timer of this.timers) {
      this.#world.cancel(timer.happening);
      const overdue = this.monotonic() >= timer.dueAt;
      this.#arm(timer, overdue ? this.#chance.ms(0, LONGEST_SLEEP_MS) : this.#lateness());
    }
  }

  kill(): void {
    this.dead = true;
    for (const timer of this.timers) this.#world.cancel(timer.happening);
    this.timers.clear();
    this.#waiting = [];
  }
}
