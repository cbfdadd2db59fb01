import { LockLostError, LockNotAcquiredError, LockOptionsError, LockStoreError } from 'joblatch';
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

describe('what nobody holds is given back', () => {
  test('asking again at once does not count as the second "was not held"', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const controller = new AbortController();
    // Applied 2 s after the caller has given up.
    provider.failNext('acquire', { delayBeforeMs: 3_000, applied: true, ends: 'hang', ignoresAbort: true });
    const attempt = locks.tryAcquire('k', { lease: '10h', signal: controller.signal });
    attempt.catch(() => {});
    await world.advance(1_000);
    controller.abort();
    await world.advance(1);
    const second = await locks.tryAcquire('k', { lease: '1s' });
    await second?.release();
    await world.advance(20_000);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });

  test('whatever the reason of the abort is', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const controller = new AbortController();
    provider.failNext('acquire', { delayAfterMs: 1_000, ignoresAbort: true });
    const attempt = locks.tryAcquire('k', { lease: '10h', signal: controller.signal });
    attempt.catch(() => {});
    await world.advance(10);
    controller.abort(new LockOptionsError('of somebody else'));
    await world.advance(10_000);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });

  test('an outage leaves one entry for a key, not one for each attempt', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, () => 1);
    locks.on('error', () => {});
    const heal = provider.failWith(['acquire', 'release'], 1, fault.error());
    for (let i = 0; i < 600; i += 1) {
      job.tick();
      await world.advance(1_000);
    }
    expect(provider.calls('acquire')).toBe(1);
    heal();
    const before = provider.calls('release');
    expect(await job()).toMatchObject({ status: 'ran' });
    expect(provider.calls('release') - before).toBeLessThanOrEqual(3);
  });

  test('a client that stops waits for what is under way, and gives it back', async () => {
    const world = new World();
    const { locks, provider, runtime } = world.instance();
    provider.failNext('acquire', { delayAfterMs: 3_000, ignoresAbort: true });
    const attempt = locks.tryAcquire('k', { lease: '10h' });
    attempt.catch(() => {});
    await world.advance(0);
    await world.until(locks.close({ grace: 0 }));
    await expect(attempt).rejects.toMatchObject({ code: 'STOPPED' });
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
    const calls = provider.calls('release');
    await world.advance(3_600_000);
    expect(provider.calls('release')).toBe(calls);
    expect(runtime.pendingTimers()).toBe(0);
  });

  test('a client that stops tries a failed release again', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    await locks.acquire('k', { lease: '10h' });
    provider.failNext('release', fault.error(), 2);
    await world.until(locks.stop({ grace: 0 }));
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });
});

describe('a thousand waiters of one process', () => {
  test('cost the store no more than one, each gets its turn, and one signal has one listener', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const held = await world.instance().locks.acquire('k');
    const controller = new AbortController();
    let listeners = 0;
    const add = controller.signal.addEventListener.bind(controller.signal);
    controller.signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners += 1;
      add(...args);
    };
    let turns = 0;
    const waiters = Array.from({ length: 1_000 }, () =>
      locks.withLock('k', { wait: '1h', signal: controller.signal }, () => {
        turns += 1;
      }),
    );
    await world.advance(0);
    const before = provider.calls('acquire');
    await world.advance(10_000);
    expect(provider.calls('acquire') - before).toBeLessThan(100);
    expect(listeners).toBeLessThan(10);
    await held.release();
    await world.until(Promise.all(waiters));
    expect(turns).toBe(1_000);
  });
});

describe('odd callers and odd providers', () => {
  test('an abort between two steps is noticed', async () => {
    const world = new World();
    const { locks } = world.instance({ pollEvery: '1h' });
    const reason = new Error('enough');
    for (const event of ['attempt', 'refused'] as const) {
      const controller = new AbortController();
      const off = locks.on(event, () => controller.abort(reason));
      const holder = await world.instance().locks.acquire(event, { lease: '1h' });
      const waiting = locks.acquire(event, { wait: '1h', signal: controller.signal });
      await expect(waiting).rejects.toBe(reason);
      off();
      await holder.release();
    }
  });

  test('answers that are none are errors of the store', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const told: unknown[] = [];
    locks.on('error', ({ error }) => told.push(error));
    const lock = await locks.acquire('k');
    provider.renewMany = async () => undefined as never;
    await world.advance(11_000);
    expect(told[0]).toMatchObject({ code: 'STORE', operation: 'renew' });
    await expect(lock.extend('1m')).rejects.toMatchObject({ code: 'STORE' });
    for (const answer of [undefined, null, {}, 'yes']) {
      provider.acquire = async () => answer as never;
      await expect(locks.tryAcquire('other')).rejects.toMatchObject({ code: 'STORE', operation: 'acquire' });
    }
    provider.acquire = () => {
      throw Object.create(null);
    };
    await expect(locks.tryAcquire('other')).rejects.toMatchObject({ code: 'STORE' });
  });

  test.each([{}, 'no', null])('signal: %j is refused', async (signal) => {
    const { locks } = new World().instance();
    await expect(locks.tryAcquire('k', { signal: signal as never })).rejects.toBeInstanceOf(LockOptionsError);
  });

  test('withLock without a function rejects, and does not throw', async () => {
    const { locks } = new World().instance();
    await expect(locks.withLock('k', undefined as never)).rejects.toBeInstanceOf(LockOptionsError);
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
