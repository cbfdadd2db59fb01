import { createLocks, type LockEventName, type Locks, type LocksOptions } from 'joblatch';
import { type MemoryStore, memoryProvider } from 'joblatch/memory';
import { type FaultyProvider, faultyProvider, type ManualRuntime, manualRuntime } from 'joblatch/testing';

export interface Instance {
  readonly locks: Locks;
  readonly runtime: ManualRuntime;
  readonly provider: FaultyProvider;
  /** What the listeners were told: `lost key`, in order. */
  readonly told: string[];
  times(event: LockEventName): number;
}

const EVENTS: readonly LockEventName[] = [
  'attempt',
  'acquired',
  'refused',
  'started',
  'finished',
  'extended',
  'lost',
  'released',
  'error',
];

/** Several instances over one store, in a time that the test drives. */
export class World {
  readonly time: ManualRuntime = manualRuntime();
  readonly store: MemoryStore = new Map();

  instance(options: Partial<LocksOptions> = {}): Instance {
    const runtime = this.time.fork();
    const inner = memoryProvider({ store: this.store, runtime: this.time });
    const provider = faultyProvider(inner, { runtime });
    const locks = createLocks({ provider, runtime, ...options });
    const told: string[] = [];
    for (const event of EVENTS) locks.on(event, ({ key }) => told.push(`${event} ${key}`));
    const times = (event: LockEventName): number =>
      told.filter((line) => line.startsWith(`${event} `)).length;
    return { locks, runtime, provider, told, times };
  }

  advance(ms: number): Promise<void> {
    return this.time.advance(ms);
  }

  /** Lets time pass in steps until the promise settles. */
  async until<T>(promise: Promise<T>, stepMs = 100, atMostMs = 600_000): Promise<T> {
    let settled = false;
    const watched = promise.finally(() => {
      settled = true;
    });
    watched.catch(() => {});
    for (let ms = 0; !settled && ms <= atMostMs; ms += stepMs) await this.advance(stepMs);
    return watched;
  }

  /** A promise that resolves after this time, for functions that take a while. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.time.setTimer(resolve, ms);
    });
  }
}
