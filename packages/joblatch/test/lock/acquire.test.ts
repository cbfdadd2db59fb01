import { LockLostError, LockNotAcquiredError, LockStoreError } from 'joblatch';
import { fault } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';
import { World } from '../support/world.js';

describe('waiting', () => {
  test('gets a key that is released, within a poll', async () => {
    const world = new World();
    const a = world.instance();
    const b = world.instance();
    const lock = await a.locks.acquire('k');
    const waiting = b.locks.acquire('k', { wait: '1m' });
    await world.advance(20_000);
    await lock.release();
    const before = world.time.monotonic();
    const second = await world.until(waiting, 10);
    expect(world.time.monotonic() - before).toBeLessThanOrEqual(260);
    expect(second.token).toBeGreaterThan(lock.token);
  });

  test('after three leases of others, the handle shows nearly a whole lease', async () => {
    const world = new World();
    const { locks } = world.instance();
    await locks.acquire('k', { lease: '30s' });
    const waiters = [1, 2, 3].map(async () => {
      const lock = await world.instance().locks.acquire('k', { wait: '5m', lease: '30s' });
      return { leftMs: lock.leftMs, waitedMs: world.time.monotonic() };
    });
    const winners = await world.until(Promise.all(waiters), 20);
    expect(winners.every(({ leftMs }) => leftMs > 29_600)).toBe(true);
    expect(Math.max(...winners.map(({ waitedMs }) => waitedMs))).toBeGreaterThan(89_000);
  });

  test('sleeps no longer than the present lease runs', async () => {
    const world = new World();
    const { locks } = world.instance({ pollEvery: '1h' });
    await locks.acquire('k', { lease: '3s' });
    const waiting = locks.acquire('k', { wait: '1m' });
    await world.advance(3_010);
    expect((await waiting).held).toBe(true);
  });

  test('gives up when the time is up, with what was found', async () => {
    const world = new World();
    const { locks } = world.instance();
    await locks.acquire('k', { lease: '1m' });
    const error = await world.until(locks.acquire('k', { wait: '2s' })).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(LockNotAcquiredError);
    expect(error).toMatchObject({ reason: 'held', key: 'k' });
    expect((error as Error).message).toMatch(/within 2000 ms: somebody else holds it. .* another 58000 ms/);
  });

  test('wait: 0 is one attempt', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    await locks.acquire('k');
    await expect(locks.acquire('k', { wait: 0 })).rejects.toBeInstanceOf(LockNotAcquiredError);
    expect(provider.calls('acquire')).toBe(2);
  });

  test('a slot that is taken is not waited for', async () => {
    const world = new World();
    const { locks } = world.instance();
    const slot = world.time.wall();
    await (await locks.acquire('k', { slot })).release();
    const error = await locks.acquire('k', { slot, wait: '1h' }).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'NOT_ACQUIRED', reason: 'slot' });
  });

  test('can be aborted, before, between and during attempts', async () => {
    const world = new World();
    const { locks, provider, runtime } = world.instance();
    await locks.acquire('k', { lease: '1h' });
    const reason = new Error('enough');
    await expect(locks.acquire('k', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);

    const between = new AbortController();
    const waiting = locks.acquire('k', { wait: '1h', signal: between.signal });
    await world.advance(1_000);
    between.abort(reason);
    await expect(waiting).rejects.toBe(reason);

    const during = new AbortController();
    provider.failNext('acquire', fault.hangForEver());
    const hanging = locks.acquire('j', { signal: during.signal });
    await world.advance(10);
    during.abort(reason);
    await expect(hanging).rejects.toBe(reason);
    await world.until(locks.stop({ grace: 0 }));
    expect(runtime.pendingTimers()).toBe(0);
  });

  test('ten thousand acquisitions under one signal leave no listener', async () => {
    const world = new World();
    const { locks } = world.instance();
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...args);
    };
    for (let i = 0; i < 10_000; i += 1) await (await locks.acquire(`k${i % 10}`, { signal })).release();
    expect(listeners).toBe(0);
  });
});

describe('a store in trouble', () => {
  test('nobody acquires, and the caller hears within the store time-out', async () => {
    const world = new World();
    const { locks, provider } = world.instance({ storeTimeout: '2s' });
    provider.failNext('acquire', fault.hangForEver());
    const attempt = locks.acquire('k', { wait: '1m' });
    const before = world.time.monotonic();
    const error = await world.until(attempt, 100).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ operation: 'acquire', key: 'k' });
    expect((error as Error).message).toMatch(/did not answer acquire of "k" within 2000 ms/);
    expect(world.time.monotonic() - before).toBe(2_000);
  });

  test('an error of the driver is wrapped, with its cause', async () => {
    const { locks, provider } = new World().instance();
    const cause = new RangeError('socket closed');
    provider.failNext('acquire', fault.error(cause));
    const error = await locks.tryAcquire('k').catch((e: unknown) => e);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ cause, message: 'The store failed at acquire of "k": socket closed' });
  });

  test('a grant whose reply was lost is given back', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    provider.failNext('acquire', fault.replyLost());
    await expect(locks.tryAcquire('k', { lease: '1h' })).rejects.toBeInstanceOf(LockStoreError);
    await world.advance(0);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });

  test('nobody is refused by the ghost of his own lost attempt', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    provider.failNext('acquire', fault.replyLost());
    // The give-back in the background fails too, for now.
    provider.failNext('release', fault.error());
    await expect(locks.tryAcquire('k', { lease: '1h' })).rejects.toBeInstanceOf(LockStoreError);
    await world.advance(1);
    expect((await locks.tryAcquire('k'))?.held).toBe(true);
  });

  test('a request that is applied after it was given up is given back', async () => {
    const world = new World();
    const { locks, provider } = world.instance({ storeTimeout: '2s' });
    // On its way for 3 s; the first give-back, after 2 s, comes before it.
    provider.failNext('acquire', { delayBeforeMs: 3_000, applied: true, ends: 'hang', ignoresAbort: true });
    await expect(world.until(locks.tryAcquire('k', { lease: '1h' }))).rejects.toBeInstanceOf(LockStoreError);
    await world.advance(1_100);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'held' }]);
    await world.advance(3_000);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });

  test('an outage costs one probing call at a time, however much is to be given back', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    provider.failWith(['acquire', 'release'], 1, fault.error());
    for (let i = 0; i < 100; i += 1) {
      await locks.tryAcquire(`k${i}`, { lease: '1h' }).catch(() => undefined);
    }
    const before = provider.calls('release');
    await world.advance(60_000);
    expect(provider.calls('release') - before).toBeLessThan(20);
    provider.heal();
    await world.advance(60_000);
    await world.until(locks.stop({ grace: 0 }));
  });
});

describe('withLock', () => {
  test('gives back what the function returns, and the key', async () => {
    const { locks } = new World().instance();
    expect(await locks.withLock('k', async (lock) => [lock.held, 7])).toEqual([true, 7]);
    expect(await locks.withLock('k', { wait: 0 }, () => 8)).toBe(8);
  });

  test('the error of the function is what the caller sees, also when the release fails', async () => {
    const world = new World();
    const { locks, provider, told } = world.instance();
    provider.failNext('release', fault.error());
    const run = locks.withLock('k', async () => {
      throw new RangeError('mine');
    });
    await expect(run).rejects.toThrow('mine');
    expect(told).toContain('error k');
  });

  test('when the lock was lost it rejects after the function has settled, with its result', async () => {
    const world = new World();
    const { locks } = world.instance();
    let ended = false;
    const run = locks.withLock('k', { lease: '1s' }, async () => {
      await world.sleep(2_000);
      ended = true;
      return 'late';
    });
    const error = await world.until(run).catch((e: unknown) => e);
    expect(ended).toBe(true);
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ detectedBy: 'deadline', result: 'late' });
  });
});
