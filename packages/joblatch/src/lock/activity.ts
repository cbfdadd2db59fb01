import { LockOptionsError } from '../provider/errors.js';
import type { Runtime } from '../provider/runtime.js';
import { show } from '../provider/values.js';
import type { LockEventName, LockEvents, LockListener } from './events.js';

/** What goes on in a client, so that it can be drained: attempts, functions that run, sleeping waiters. */
export class Activity {
  readonly #runtime: Runtime;
  #running = 0;
  #stopping = false;
  readonly #onStop = new Set<() => void>();
  readonly #onChange = new Set<() => void>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  get idle(): boolean {
    return this.#running === 0;
  }

  /** Something goes on from here until {@link end}. */
  begin(): void {
    this.#running += 1;
  }

  end(): void {
    this.#running -= 1;
    this.changed();
  }

  /** Counts a promise as something that goes on. */
  async track<T>(work: Promise<T>): Promise<T> {
    this.begin();
    try {
      return await work;
    } finally {
      this.end();
    }
  }

  stop(): void {
    this.#stopping = true;
    for (const wake of [...this.#onStop]) wake();
  }

  /** Something may have become idle. */
  changed(): void {
    for (const notice of [...this.#onChange]) notice();
  }

  /**
   * Sleeps, unless the client stops or the signal aborts: then it wakes at once, and rejects with the signal's
   * reason. `wakeable` gets a function that wakes it early.
   */
  sleep(ms: number, signal: AbortSignal | undefined, wakeable: (wake: () => void) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (): void => {
        stopTimer();
        stopListening();
        this.#onStop.delete(done);
        if (signal?.aborted) reject(signal.reason);
        else resolve();
      };
      const stopTimer = this.#runtime.setTimer(done, ms);
      const stopListening = onAbort(signal, done);
      this.#onStop.add(done);
      wakeable(done);
      if (this.#stopping || signal?.aborted) done();
    });
  }

  /** Waits until the condition holds, but not longer than `ms`. */
  until(condition: () => boolean, ms: number): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => {
      const check = (): void => {
        if (condition()) done();
      };
      const done = (): void => {
        cancel();
        this.#onChange.delete(check);
        resolve();
      };
      const cancel = this.#runtime.setTimer(done, ms);
      this.#onChange.add(check);
    });
  }
}

/** A waiter's place in line. */
export interface Place {
  readonly isFirst: boolean;
  /** Called when it becomes the first, or when looking again is worth while. */
  wake: () => void;
  leave(): void;
}

/**
 * Who waits for a key in this process stands in line, and only the first asks the store: a thousand waiters
 * cost it no more than one.
 */
export class Lines {
  readonly #lines = new Map<string, Place[]>();

  join(key: string): Place {
    const line = this.#lines.get(key) ?? [];
    this.#lines.set(key, line);
    const place: Place = {
      get isFirst() {
        return line[0] === place;
      },
      wake: () => {},
      leave: () => {
        const wasFirst = line[0] === place;
        line.splice(line.indexOf(place), 1);
        if (line.length === 0) this.#lines.delete(key);
        else if (wasFirst) line[0]?.wake();
      },
    };
    line.push(place);
    return place;
  }

  /** The key may be free: the first need not wait for his next look. */
  nudge(key: string): void {
    this.#lines.get(key)?.[0]?.wake();
  }
}

/** Waits for work to settle, however it ends, but not longer than `ms`. */
export function settledWithin(
  runtime: Runtime,
  work: readonly Promise<unknown>[],
  ms: number,
): Promise<void> {
  if (work.length === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const cancel = runtime.setTimer(resolve, ms);
    void Promise.allSettled(work).then(() => {
      cancel();
      resolve();
    });
  });
}

export function delay(runtime: Runtime, ms: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, ms);
  });
}

/** The one listener of a signal, for all who wait under it: Node warns of a leak when there are more than ten. */
class AbortFanOut {
  readonly callbacks = new Set<{ readonly call: (reason: unknown) => void }>();

  handleEvent({ target }: Event): void {
    const { reason } = target as AbortSignal;
    for (const { call } of [...this.callbacks]) call(reason);
  }
}

const fanOuts = new WeakMap<AbortSignal, AbortFanOut>();

function nothing(): void {}

/** Calls back when the signal aborts; returns a function that ends it. */
export function onAbort(signal: AbortSignal | undefined, call: (reason: unknown) => void): () => void {
  if (signal === undefined) return nothing;
  const fanOut = fanOuts.get(signal) ?? new AbortFanOut();
  fanOuts.set(signal, fanOut);
  if (fanOut.callbacks.size === 0) signal.addEventListener('abort', fanOut);
  const callback = { call };
  fanOut.callbacks.add(callback);
  return () => {
    fanOut.callbacks.delete(callback);
    if (fanOut.callbacks.size === 0) signal.removeEventListener('abort', fanOut);
  };
}

const EVENT_NAMES: ReadonlySet<string> = new Set<LockEventName>([
  'attempt',
  'acquired',
  'refused',
  'started',
  'finished',
  'extended',
  'lost',
  'released',
  'error',
]);

/** Tells listeners. What one throws, or rejects with, reaches nobody: a listener changes nothing. */
export class Emitter {
  readonly #listeners = new Map<LockEventName, Set<LockListener<never>>>();

  /** @throws LockOptionsError for an event that there is not */
  on<E extends LockEventName>(event: E, listener: LockListener<E>): () => void {
    if (!EVENT_NAMES.has(event)) {
      throw new LockOptionsError(
        `There is no event ${show(event)}. There are: ${[...EVENT_NAMES].join(', ')}.`,
      );
    }
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  emit<E extends LockEventName>(event: E, detail: LockEvents[E]): void {
    const listeners = this.#listeners.get(event) as Set<LockListener<E>> | undefined;
    if (listeners !== undefined && listeners.size > 0) {
      for (const listener of [...listeners]) callSafely(listener, detail);
    } else if (event === 'error') {
      warn(detail as LockEvents['error']);
    }
  }
}

function callSafely<T>(listener: (detail: T) => unknown, detail: T): void {
  try {
    const returned = listener(detail);
    if (returned instanceof Promise) returned.catch(ignoreListenerError);
  } catch (error) {
    ignoreListenerError(error);
  }
}

/** By contract: a listener that fails must not break the handling of locks, and has no caller to tell. */
function ignoreListenerError(_error: unknown): void {}

/** An error that nobody awaits and nobody listens for would vanish; so Node's warnings (stderr) tell it. */
function warn({ key, error }: LockEvents['error']): void {
  const about = key === undefined ? '' : ` (key ${JSON.stringify(key)})`;
  const text = error instanceof Error ? `${error.name}: ${error.message}` : show(error);
  process.emitWarning(`${text}${about}. Add locks.on('error', …) to handle such errors.`, {
    type: 'JoblatchWarning',
    ...(error instanceof Error && error.stack !== undefined ? { detail: error.stack } : {}),
  });
}
