import { getEventListeners } from 'node:events';
import { isLockError, type LockProvider } from 'joblatch';
import { memoryProvider } from 'joblatch/memory';
import {
  type FaultyProvider,
  fault,
  faultyProvider,
  type ManualRuntime,
  manualRuntime,
} from 'joblatch/testing';
import { beforeEach, describe, expect, test } from 'vitest';

let runtime: ManualRuntime;
let inner: LockProvider;
let provider: FaultyProvider;

beforeEach(() => {
  runtime = manualRuntime();
  inner = memoryProvider({ runtime });
  provider = faultyProvider(inner, { runtime });
});

const request = { key: 'key', owner: 'me', leaseMs: 60_000 };

async function isHeld(): Promise<boolean> {
  const [record] = await inner.inspect({ key: 'key' });
  return record?.state === 'held';
}

/** How a call has ended by now, if it has. */
async function ending(call: Promise<unknown>): Promise<unknown> {
  const pending = { pending: true };
  await runtime.advance(0);
  return Promise.race([
    call.then(
      (answer) => ({ answer }),
      (error: unknown) => ({ error }),
    ),
    pending,
  ]);
}

describe('a fault', () => {
  test('error: the store never sees the call', async () => {
    provider.failNext('acquire', fault.error());
    await expect(provider.acquire(request)).rejects.toSatisfy((error) => isLockError(error, 'STORE'));
    expect(await isHeld()).toBe(false);
    expect((await provider.acquire(request)).ok).toBe(true);
  });

  test('error: of the test’s own choice', async () => {
    const chosen = new Error('connection reset');
    provider.failNext('acquire', fault.error(chosen));
    await expect(provider.acquire(request)).rejects.toBe(chosen);
  });

  test('reply lost: the store carries it out, and the caller sees an error', async () => {
    provider.failNext('acquire', fault.replyLost());
    await expect(provider.acquire(request)).rejects.toThrow('injected into acquire');
    expect(await isHeld()).toBe(true);
  });

  test('slow: the effect comes after the way there, the answer after the way back', async () => {
    provider.failNext('acquire', fault.slow(100, 50));
    const call = provider.acquire(request);
    await runtime.advance(99);
    expect(await isHeld()).toBe(false);
    await runtime.advance(1);
    expect(await isHeld()).toBe(true);
    expect(await ending(call)).toEqual({ pending: true });
    await runtime.advance(50);
    expect((await call).ok).toBe(true);
  });

  test('slow: a caller that gives up gets its reason at once, and the store carries the call out all the same', async () => {
    provider.failNext('acquire', fault.slow(100));
    const controller = new AbortController();
    const call = provider.acquire(request, { signal: controller.signal });
    await runtime.advance(10);
    controller.abort(new Error('given up'));
    await expect(call).rejects.toThrow('given up');
    expect(await isHeld()).toBe(false);
    await runtime.advance(90);
    expect(await isHeld()).toBe(true);
  });

  test('a call that was given up before is never sent', async () => {
    provider.failNext('acquire', fault.slow(100));
    await expect(
      provider.acquire(request, { signal: AbortSignal.abort(new Error('given up before')) }),
    ).rejects.toThrow('given up before');
    await runtime.advance(100);
    expect(await isHeld()).toBe(false);
  });

  test.each([false, true])('hang: no answer until the signal aborts (applied: %s)', async (applied) => {
    provider.failNext('acquire', fault.hang({ applied }));
    const controller = new AbortController();
    const call = provider.acquire(request, { signal: controller.signal });
    await runtime.advance(1_000);
    expect(await isHeld()).toBe(applied);
    expect(await ending(call)).toEqual({ pending: true });
    controller.abort(new Error('given up'));
    await expect(call).rejects.toThrow('given up');
  });

  test('hang for ever: not even when the signal aborts', async () => {
    provider.failNext('acquire', fault.hangForEver());
    const controller = new AbortController();
    const call = provider.acquire(request, { signal: controller.signal });
    controller.abort(new Error('given up'));
    await runtime.advance(86_400_000);
    expect(await ending(call)).toEqual({ pending: true });
  });

  test('of one verb leaves the others alone', async () => {
    provider.failNext('renewMany', fault.error());
    expect((await provider.acquire(request)).ok).toBe(true);
    const renewal = { ...request, token: 1 };
    await expect(provider.renewMany([renewal])).rejects.toThrow('injected into renewMany');
    expect(await provider.renewMany([renewal])).toEqual(['ok']);
  });
});

describe('faults to come', () => {
  test('failNext: one after the other, as often as said', async () => {
    provider.failNext('inspect', fault.error(new Error('first')), 2);
    provider.failNext('inspect', fault.error(new Error('second')));
    for (const message of ['first', 'first', 'second']) {
      await expect(provider.inspect({})).rejects.toThrow(message);
    }
    expect(await provider.inspect({})).toEqual([]);
    expect([provider.calls('inspect'), provider.faults('inspect'), provider.calls('acquire')]).toEqual([
      4, 3, 0,
    ]);
  });

  test('failWith: always, until it is ended', async () => {
    const end = provider.failWith(['purge', 'inspect'], 1, fault.error());
    await expect(provider.purge({ idleMs: 0 })).rejects.toThrow('injected');
    await expect(provider.inspect({})).rejects.toThrow('injected');
    end();
    expect(await provider.purge({ idleMs: 0 })).toBe(0);
  });

  test('failWith: with a probability that the seed decides', async () => {
    const run = async (): Promise<boolean[]> => {
      const seeded = faultyProvider(inner, { runtime: manualRuntime({ seed: 42 }) });
      seeded.failWith('inspect', 0.3, fault.error());
      const outcomes: boolean[] = [];
      for (let i = 0; i < 200; i += 1) {
        outcomes.push(
          await seeded.inspect({}).then(
            () => true,
            () => false,
          ),
        );
      }
      return outcomes;
    };
    const first = await run();
    const failed = first.filter((ok) => !ok).length;
    expect(failed).toBeGreaterThan(35);
    expect(failed).toBeLessThan(90);
    expect(await run()).toEqual(first);
  });

  test('heal ends all that is set', async () => {
    provider.failNext('release', fault.error(), 5);
    provider.failWith('acquire', 1, fault.error());
    provider.heal();
    expect((await provider.acquire(request)).ok).toBe(true);
    expect(await provider.release(request)).toBe(true);
  });

  test('leave no timer and no listener behind', async () => {
    const { signal } = new AbortController();
    provider.failNext('acquire', fault.slow(10, 10));
    const call = provider.acquire(request, { signal });
    await runtime.advance(20);
    await call;
    expect(runtime.pendingTimers()).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});
