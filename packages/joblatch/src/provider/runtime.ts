import { AsyncLocalStorage } from 'node:async_hooks';
import { hostname, uptime } from 'node:os';

/**
 * The world as far as joblatch needs it: clocks, timers, chance. Everything in the library takes these from
 * a `Runtime` and from nowhere else (a lint rule keeps it so), hence a simulation can drive hundreds of
 * instances in one thread, and a paused process is a clock that nobody advances.
 */
export interface Runtime {
  /** Epoch milliseconds of this host's wall clock. For showing, and for stores that have no clock of their own. */
  wall(): number;
  /**
   * Milliseconds on a clock that only goes forward, is not moved by setting the wall clock, and counts the
   * time in which the machine was suspended. Leases are counted on it.
   */
  monotonic(): number;
  /**
   * Calls back once, not before `delayMs` has passed on the monotonic clock; any delay from 0 up. Returns a
   * function that cancels. A background timer does not keep the process alive. The callback does not run in the
   * async context of whoever set the timer: a timer that many share is nobody's.
   */
  setTimer(callback: () => void, delayMs: number, options?: { readonly background?: boolean }): () => void;
  /** A number in [0, 1), not to be guessed: owner ids are made of these. */
  random(): number;
  /** Names this instance in owner ids, for people: host and process. */
  readonly instance: string;
}

/**
 * Node's timers stand still while the machine is suspended. So none sleeps longer than this at a time: a deadline
 * that passed meanwhile is noticed this soon after the machine goes on.
 */
const LONGEST_SLEEP_MS = 1_000;

/** Runs a function as if nobody had called it: for what outlives its caller. */
export const outsideOfAnyContext: <T, A extends unknown[]>(fn: (...args: A) => T, ...args: A) => T =
  AsyncLocalStorage.snapshot();

/** The system's uptime comes in steps: 10 ms on Linux, up to 1 s elsewhere. Some room is left for the reading. */
const UPTIME_STEP_MS = process.platform === 'linux' ? 25 : 1_050;

/**
 * Asking for the uptime costs far more than asking for the fine clock, so an answer is good for this long on the
 * fine clock, that is, of time in which the machine ran. For a holder it is as if the machine had been suspended
 * up to so much later, between his look at the clock and what he does next.
 */
const UPTIME_GOOD_FOR_MS = 1;

/**
 * The monotonic clock of Node stands still while the machine is suspended; the system's uptime does not, but
 * it is coarse. So the fine clock is used, and put forward when the uptime has run ahead of it by more than
 * the coarseness explains. It is put forward by the whole difference plus one step: rather too much, since a
 * holder that believes that more time has passed is on the safe side.
 */
export function suspensionAwareClock(
  fineMs: () => number,
  uptimeMs: () => number,
  stepMs: number,
): () => number {
  const start = uptimeMs() - fineMs();
  let askedAt = fineMs();
  let suspended = 0;
  let threshold = stepMs;
  return () => {
    const fine = fineMs();
    if (fine - askedAt >= UPTIME_GOOD_FOR_MS) {
      askedAt = fine;
      const ahead = uptimeMs() - fineMs() - start;
      if (ahead > threshold) {
        suspended = ahead + stepMs;
        threshold = suspended + stepMs;
      }
    }
    return fine + suspended;
  };
}

type SetTimer = Runtime['setTimer'];

function nodeTimers(monotonic: () => number): SetTimer {
  return (callback, delayMs, options) => {
    let timer: NodeJS.Timeout;
    const waitMs = Math.max(0, delayMs);
    const dueAt = monotonic() + waitMs;
    const arm = (leftMs: number): void => {
      timer = setTimeout(fire, Math.min(Math.ceil(leftMs), LONGEST_SLEEP_MS));
      if (options?.background) timer.unref();
    };
    // Node counts from the start of the turn of its loop, so after a long turn it fires early: then wait on.
    const fire = (): void => {
      const leftMs = dueAt - monotonic();
      if (leftMs > 0) arm(leftMs);
      else callback();
    };
    outsideOfAnyContext(arm, waitMs);
    return () => clearTimeout(timer);
  };
}

const RANDOM_POOL = 64;

function secureRandom(): () => number {
  const words = new Uint32Array(RANDOM_POOL * 2);
  let next = words.length;
  return () => {
    if (next === words.length) {
      crypto.getRandomValues(words);
      next = 0;
    }
    // 53 bits, as a double holds them.
    const high = (words[next++] as number) >>> 5;
    const low = (words[next++] as number) >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  };
}

/** @param uptimeMs how long the system runs, suspensions included */
export function createNodeRuntime(uptimeMs: () => number): Runtime {
  const monotonic = suspensionAwareClock(() => performance.now(), uptimeMs, UPTIME_STEP_MS);
  return {
    wall: () => Date.now(),
    monotonic,
    setTimer: nodeTimers(monotonic),
    random: secureRandom(),
    instance: `${hostname()}:${process.pid}`,
  };
}

/** The runtime of this process: Node's clocks and timers. */
export const nodeRuntime: Runtime = createNodeRuntime(() => uptime() * 1000);

/** What every store can hold, ShedLock's `locked_by` included; one character is left for a mark of the store's. */
const OWNER_MAX = 254;
/** Five digits are a small integer, which is made into text much faster than a large one. */
const RANDOM_GROUPS = 4;
const DIGITS_PER_GROUP = 5;

/**
 * An id that no other acquisition has, ever: it is the proof of ownership, so it can not be guessed either (103
 * random bits). The readable part says where the holder runs. Made anew for every acquisition, also within one
 * process: a snapshot of a process that is resumed twice must not share ids.
 */
export function createOwnerId(runtime: Runtime): string {
  let random = '';
  for (let i = 0; i < RANDOM_GROUPS; i += 1) random += randomGroup(runtime);
  const instance = runtime.instance.replace(/[^\x21-\x7d]/g, '_').slice(-(OWNER_MAX - random.length - 1));
  return `${instance}:${random}`;
}

function randomGroup(runtime: Runtime): string {
  return Math.floor(runtime.random() * 36 ** DIGITS_PER_GROUP)
    .toString(36)
    .padStart(DIGITS_PER_GROUP, '0');
}

/** A time by chance between half and all of it: what failed or was refused together must not come back together. */
export function jittered(runtime: Runtime, ms: number): number {
  return ms * (0.5 + runtime.random() / 2);
}
