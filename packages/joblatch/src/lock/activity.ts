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

  /** Counts a promise as something that goes on. */
  async track<T>(work: Promise<T>): Promise<T> {
    this.#running += 1;
    try {
      return await work;
    } finally {
      this.#running -= 1;
      this.changed();
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

  /** Sleeps, unless the client stops or the signal aborts: then it wakes at once, and rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (): void => {
        cancel();
        this.#onStop.delete(done);
        signal?.removeEventListener('abort', done);
        if (signal?.aborted) reject(signal.reason);
        else resolve();
      };
      const cancel = this.#runtime.setTimer(done, ms);
      if (this.#stopping) return done();
      this.#onStop.add(done);
      signal?.addEventListener('abort', done, { once: true });
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

export function delay(runtime: Runtime, ms: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, ms);
  });
}

/** Tells listeners. What one throws, or rejects with, reaches nobody: a listener changes nothing. */
export class Emitter {
  readonly #listeners = new Map<LockEventName, Set<LockListener<never>>>();

  on<E extends LockEventName>(event: E, listener: LockListener<E>): () => void {
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
  process.emitWarning(`${text}${about}. Add locks.on('error', …) to handle such errors.`, 'JoblatchWarning');
}
