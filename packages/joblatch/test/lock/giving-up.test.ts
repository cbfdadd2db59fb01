import { createLocks, type LockProvider, LockStoreError } from 'joblatch';
import { memoryProvider } from 'joblatch/memory';
import { sqliteProvider } from 'joblatch/sqlite';
import { manualRuntime } from 'joblatch/testing';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { abandonable, type CallSignal, GaveUp, signalOf } from '../../dist/provider/abandoning.js';

describe('the signal of a call', () => {
  afterEach(() => vi.unstubAllGlobals());

  test.each([
    ['memory', () => memoryProvider()],
    ['sqlite', () => sqliteProvider({ path: ':memory:' })],
  ])('%s: none is made for a provider of ours', async (_name, open) => {
    await using locks = createLocks({ provider: open() });
    await (await locks.acquire('first')).release();
    const made = countControllers();
    const lock = await locks.acquire('k', { lease: '30s' });
    expect(await locks.tryAcquire('k')).toBeUndefined();
    await lock.extend('1m');
    await lock.release();
    expect(made()).toBe(0);
  });

  test('a provider that looks at it gets a real one, always the same, that aborts with the reason', async () => {
    const time = manualRuntime();
    let seen: readonly (AbortSignal | undefined)[] = [];
    const provider: LockProvider = {
      ...memoryProviderOf(time),
      acquire: (_request, options) => {
        seen = [options?.signal, options?.signal];
        return new Promise(() => {});
      },
    };
    const locks = createLocks({ provider, runtime: time, storeTimeout: '2s' });
    const attempt = locks.tryAcquire('k').catch((error: unknown) => error);
    await time.advance(1_999);
    const [signal, again] = seen as readonly [AbortSignal, AbortSignal];
    expect(signal).toBeInstanceOf(AbortSignal);
    expect(again).toBe(signal);
    expect(signal.aborted).toBe(false);
    await time.advance(1);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toBeInstanceOf(LockStoreError);
    expect(await attempt).toBe(signal.reason);
  });

  test('one that is first looked at afterwards is aborted already', async () => {
    const time = manualRuntime();
    let late: (() => AbortSignal | undefined) | undefined;
    const provider: LockProvider = {
      ...memoryProviderOf(time),
      acquire: (_request, options) => {
        late = () => options?.signal;
        return new Promise(() => {});
      },
    };
    const locks = createLocks({ provider, runtime: time });
    const controller = new AbortController();
    const attempt = locks.tryAcquire('k', { signal: controller.signal }).catch((error: unknown) => error);
    controller.abort('enough');
    expect(await attempt).toBe('enough');
    expect(late?.()).toMatchObject({ aborted: true, reason: 'enough' });
  });

  test('the light one tells each listener once, and none that has gone', async () => {
    const time = manualRuntime();
    const told: string[] = [];
    let light: CallSignal | undefined;
    const provider: LockProvider = {
      ...memoryProviderOf(time),
      acquire: (_request, options) => {
        light = signalOf(options);
        const listen = (name: string): (() => void) => {
          const listener = (): void => {
            told.push(name);
            light?.removeEventListener('abort', listener);
          };
          light?.addEventListener('abort', listener);
          return listener;
        };
        listen('a');
        light?.removeEventListener('abort', listen('gone'));
        listen('b');
        return new Promise(() => {});
      },
    };
    const locks = createLocks({ provider, runtime: time, storeTimeout: '2s' });
    const attempt = locks.tryAcquire('k').catch(() => 'failed');
    expect(() => light?.throwIfAborted()).not.toThrow();
    await time.advance(2_000);
    expect(await attempt).toBe('failed');
    expect(told).toEqual(['a', 'b']);
    expect(light?.aborted).toBe(true);
    expect(() => light?.throwIfAborted()).toThrow(light?.reason as Error);
  });
});

describe('what is waited for under a signal', () => {
  test("of a foreign call is its own signal's", () => {
    const { signal } = new AbortController();
    expect(signalOf({ signal })).toBe(signal);
    expect(signalOf({})).toBeUndefined();
    expect(signalOf(undefined)).toBeUndefined();
  });

  test('is left at once when the signal aborts, and cleaned up after', async () => {
    const controller = new AbortController();
    const leave = vi.fn();
    const waiting = abandonable(new Promise(() => {}), controller.signal, leave);
    expect(leave).not.toHaveBeenCalled();
    controller.abort('why');
    const error = await waiting.catch((found: unknown) => found);
    expect(error).toBeInstanceOf(GaveUp);
    expect(error).toMatchObject({ cause: 'why', waitedMs: 0 });
    expect(leave).toHaveBeenCalledOnce();
  });

  test('is left before it began if the signal had aborted; what it comes to later is nobody’s', async () => {
    const leave = vi.fn();
    const failing = Promise.reject(new Error('too late'));
    await expect(abandonable(failing, AbortSignal.abort('why'), leave)).rejects.toBeInstanceOf(GaveUp);
    expect(leave).toHaveBeenCalledOnce();
  });

  test('that has come is not given up any more', async () => {
    const controller = new AbortController();
    const leave = vi.fn();
    expect(await abandonable(Promise.resolve(1), controller.signal, leave)).toBe(1);
    await expect(abandonable(Promise.reject(new Error('no')), controller.signal, leave)).rejects.toThrow(
      'no',
    );
    controller.abort();
    expect(leave).not.toHaveBeenCalled();
  });

  test('without a signal is waited for as it is', () => {
    const promise = Promise.resolve(1);
    expect(abandonable(promise, undefined)).toBe(promise);
  });
});

function countControllers(): () => number {
  let count = 0;
  vi.stubGlobal(
    'AbortController',
    class extends AbortController {
      constructor() {
        super();
        count += 1;
      }
    },
  );
  return () => count;
}

/** Its verbs are methods of a class: spread they would be lost. */
function memoryProviderOf(runtime: ReturnType<typeof manualRuntime>): LockProvider {
  const inner = memoryProvider({ runtime });
  return {
    name: inner.name,
    abilities: () => inner.abilities(),
    acquire: (request) => inner.acquire(request),
    renewMany: (requests) => inner.renewMany(requests),
    release: (request) => inner.release(request),
    inspect: (request) => inner.inspect(request),
    forceRelease: (key) => inner.forceRelease(key),
    purge: (request) => inner.purge(request),
  };
}

test('a "was not held" that was sent while the request could still be under way is asked for again, however late it is answered', async () => {
  const time = manualRuntime();
  const store = memoryProvider({ runtime: time });
  const after = (ms: number): Promise<void> => new Promise((resolve) => void time.setTimer(resolve, ms));
  let releases = 0;
  const provider: LockProvider = {
    ...memoryProviderOf(time),
    acquire: async (request) => {
      await after(9_000);
      await store.acquire(request);
      return new Promise(() => {});
    },
    release: async (request) => {
      releases += 1;
      if (releases === 1) throw new Error('down');
      const wasHeld = await store.release(request);
      // The second is executed before the acquire is, and answered after it.
      if (releases === 2) await after(4_960);
      return wasHeld;
    },
  };
  const locks = createLocks({ provider, runtime: time.fork() });
  const attempt = locks.tryAcquire('k', { lease: '10m' }).catch((error: unknown) => error);
  await time.advance(40_000);
  expect(await attempt).toBeInstanceOf(LockStoreError);
  expect(releases).toBeGreaterThan(2);
  expect(await store.inspect({ key: 'k' })).not.toContainEqual(expect.objectContaining({ state: 'held' }));
});
