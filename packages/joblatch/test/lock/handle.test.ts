import {
  isLockError,
  LockLostError,
  LockOptionsError,
  LockStoreError,
  type TryAcquireOptions,
} from 'joblatch';
import { fault } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';
import { World } from '../support/world.js';

describe('the deadline', () => {
  test('is counted from the send, less 1 % of the lease and 2 ms', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    provider.failNext('acquire', fault.slow(100, 100));
    const lock = await world.until(locks.acquire('k', { lease: '1s' }), 50);
    // 200 ms were spent on the way; 1000 - 12 - 200 are left.
    expect(lock.leftMs).toBe(788);
    await world.advance(787);
    expect(lock.held).toBe(true);
    await world.advance(1);
    expect(lock.held).toBe(false);
    expect(lock.leftMs).toBe(0);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });

  test('passes for a process that was paused, at the first read', async () => {
    const world = new World();
    const { locks, runtime, told } = world.instance();
    const lock = await locks.acquire('k');
    runtime.pause();
    await world.advance(60_000);
    const successor = await world.instance().locks.acquire('k');
    expect(successor.token).toBeGreaterThan(lock.token);
    const resumed = runtime.resume();
    // No timer has run yet.
    expect(told).not.toContain('lost k');
    expect(lock.held).toBe(false);
    expect(lock.signal.aborted).toBe(true);
    expect(lock.signal.reason).toMatchObject({ code: 'LOST', detectedBy: 'deadline' });
    await resumed;
    expect(told).toContain('lost k');
    expect(await lock.release()).toBe(false);
    expect(successor.held).toBe(true);
  });

  test('is not moved by setting the wall clock', async () => {
    const world = new World();
    const { locks, runtime } = world.instance();
    const lock = await locks.acquire('k', { lease: '10s' });
    runtime.jumpWall(3_600_000);
    expect(lock.held).toBe(true);
    runtime.jumpWall(-7_200_000);
    await world.advance(9_800);
    expect(lock.held).toBe(true);
    await world.advance(200);
    expect(lock.held).toBe(false);
  });

  test('a grant whose deadline passed before its answer came is refused and given back', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    provider.failNext('acquire', fault.slow(0, 995));
    const error = await world.until(locks.acquire('k', { lease: '1s' })).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(LockStoreError);
    expect((error as Error).message).toMatch(/took 995 ms, too long for a lease of 1000 ms/);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });

  test('the signal aborts at the deadline, once, and the loss is told once', async () => {
    const world = new World();
    const { locks, told } = world.instance();
    const lock = await locks.acquire('k', { lease: '5s' });
    let aborts = 0;
    lock.signal.addEventListener('abort', () => {
      aborts += 1;
    });
    await world.advance(20_000);
    expect(aborts).toBe(1);
    expect(told.filter((line) => line === 'lost k')).toHaveLength(1);
  });

  test('a lock of 30 days overflows no timer', async () => {
    const world = new World();
    const { locks } = world.instance();
    const lock = await locks.acquire('k', { lease: '30d' });
    await world.advance(29 * 86_400_000);
    expect(lock.held).toBe(true);
    await world.advance(86_400_000);
    expect(lock.held).toBe(false);
  });
});

describe('renewal', () => {
  test('the watchdog keeps a lock for as long as it is not released', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k');
    await world.advance(600_000);
    expect(lock.held).toBe(true);
    expect(provider.calls('renewMany')).toBe(60);
    expect(await lock.release()).toBe(true);
  });

  test('one that fails is tried again, one that is refused is a loss', async () => {
    const world = new World();
    const { locks, provider, times } = world.instance();
    const lock = await locks.acquire('k');
    provider.failNext('renewMany', fault.error(), 2);
    await world.advance(15_000);
    expect(provider.calls('renewMany')).toBe(3);
    expect(lock.held).toBe(true);
    expect(times('error')).toBe(2);

    await locks.provider.forceRelease('k');
    await world.advance(10_001);
    expect(lock.held).toBe(false);
    expect(lock.signal.reason).toMatchObject({ detectedBy: 'renewal' });
    expect(times('lost')).toBe(1);
  });

  test('a store that hangs is a loss at the deadline, not later', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k');
    const { signal } = lock;
    provider.failWith('renewMany', 1, fault.hangForEver());
    await world.advance(29_697);
    expect(signal.aborted).toBe(false);
    await world.advance(1);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ detectedBy: 'deadline' });
  });

  test('an answer that comes after the call was given up still counts, from its send', async () => {
    const world = new World();
    const { locks, provider } = world.instance({ storeTimeout: '5s' });
    const lock = await locks.acquire('k');
    // Applied at once; the answer takes 7 s, and no other renewal gets through.
    provider.failNext('renewMany', { delayAfterMs: 7_000, ignoresAbort: true });
    provider.failWith('renewMany', 1, fault.error());
    await world.advance(17_000);
    expect(lock.leftMs).toBeCloseTo(10_000 + 30_000 - 302 - 17_000, 0);
  });

  test('an answer that is read after the deadline comes too late', async () => {
    const world = new World();
    const { locks, provider, runtime } = world.instance();
    const lock = await locks.acquire('k');
    provider.failNext('renewMany', fault.slow(0, 1_000));
    await world.advance(10_500);
    // The process stands still while the answer arrives, and goes on when the lease it knows of is over.
    runtime.pause();
    await world.advance(20_000);
    await runtime.resume();
    expect(lock.held).toBe(false);
    await world.advance(1_000);
    expect(lock.held).toBe(false);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });

  test('ten thousand locks: one call a beat, one timer', async () => {
    const world = new World();
    const { locks, provider, runtime } = world.instance();
    // Acquired over 4 s, so not in step at first.
    for (let i = 0; i < 10_000; i += 1) {
      const lock = await locks.tryAcquire(`k${i}`);
      expect(lock).toBeDefined();
      if (i % 2_500 === 0) await world.advance(1_000);
    }
    expect(runtime.pendingTimers()).toBe(1);
    await world.advance(120_000);
    // The first beats bring them into step.
    const calls = provider.calls('renewMany');
    await world.advance(100_000);
    expect(provider.calls('renewMany') - calls).toBe(10);
    await world.until(locks.stop({ grace: 0 }));
    expect(runtime.pendingTimers()).toBe(0);
  });

  test('a release while a renewal is under way is no loss, a thousand times, and leaves no timer', async () => {
    const world = new World();
    const { locks, provider, runtime, times } = world.instance();
    for (let i = 0; i < 1_000; i += 1) {
      const lock = await locks.acquire(`k${i}`);
      provider.failNext('renewMany', fault.slow(i % 7, i % 5));
      await world.advance(10_000 + (i % 4));
      const released = lock.release();
      await world.advance(20);
      expect(await released).toBe(true);
    }
    expect(times('lost')).toBe(0);
    expect(times('error')).toBe(0);
    expect(runtime.pendingTimers()).toBe(0);
  });
});

describe('extending', () => {
  test('prolongs from now, three times in a row', async () => {
    const world = new World();
    const { locks, told } = world.instance();
    const lock = await locks.acquire('k', { lease: '2s' });
    for (const seconds of [10, 20, 30]) {
      await lock.extend(`${seconds}s`);
      expect(lock.leftMs).toBe(seconds * 990 - 2);
    }
    expect(told.filter((line) => line === 'extended k')).toHaveLength(3);
    await lock.extend('1s');
    expect(lock.leftMs).toBe(30 * 990 - 2);
  });

  test('an expired or released one is refused, and the record is unchanged', async () => {
    const world = new World();
    const { locks } = world.instance();
    const expired = await locks.acquire('k', { lease: '2s' });
    await world.advance(2_000);
    const before = await locks.provider.inspect({ key: 'k' });
    await expect(expired.extend('10s')).rejects.toMatchObject({ code: 'LOST', detectedBy: 'deadline' });
    expect(await locks.provider.inspect({ key: 'k' })).toEqual(before);

    const released = await locks.acquire('k', { lease: '2s' });
    await released.release();
    await expect(released.extend('10s')).rejects.toMatchObject({ code: 'LOST', detectedBy: 'release' });
  });

  test('finds out that the lock is lost', async () => {
    const world = new World();
    const { locks, times } = world.instance();
    const lock = await locks.acquire('k', { lease: '10s' });
    await locks.provider.forceRelease('k');
    await expect(lock.extend('1m')).rejects.toMatchObject({ code: 'LOST', detectedBy: 'renewal' });
    expect(lock.held).toBe(false);
    expect(times('lost')).toBe(1);
  });

  test('fails with the store, and the lock is held as long as before', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k', { lease: '10s' });
    provider.failNext('renewMany', fault.error());
    await expect(lock.extend('1m')).rejects.toBeInstanceOf(LockStoreError);
    expect(lock.leftMs).toBe(9_898);
  });

  test('with atLeast keeps the key taken after an early release', async () => {
    const world = new World();
    const { locks } = world.instance();
    const lock = await locks.acquire('k', { lease: '10s' });
    await lock.extend('20s', { atLeast: '15s' });
    await lock.release();
    await world.advance(14_000);
    expect(await locks.tryAcquire('k')).toBeUndefined();
    await world.advance(1_001);
    expect(await locks.tryAcquire('k')).toBeDefined();
  });

  test('a watchdog lock that was extended is not shortened by the next beat', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k');
    await lock.extend('10m');
    provider.failWith('renewMany', 1, fault.error());
    await world.advance(590_000);
    expect(lock.held).toBe(true);
    expect((await locks.provider.inspect({ key: 'k' }))[0]?.leftMs).toBeGreaterThan(9_000);
  });
});

describe('releasing', () => {
  test('true once, then false', async () => {
    const { locks, told } = new World().instance();
    const lock = await locks.acquire('k');
    const both = await Promise.all([lock.release(), lock.release()]);
    expect(both).toEqual([true, false]);
    expect(await lock.release()).toBe(false);
    expect(lock.held).toBe(false);
    expect(told.filter((line) => line === 'released k')).toHaveLength(1);
  });

  test('a failed release can be repeated, and is given back in the background anyway', async () => {
    const world = new World();
    const { locks, provider, times } = world.instance();
    const lock = await locks.acquire('k', { lease: '1h' });
    provider.failNext('release', fault.error(), 3);
    await expect(lock.release()).rejects.toBeInstanceOf(LockStoreError);
    expect(times('error')).toBe(1);
    await world.advance(2_000);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
    expect(await lock.release()).toBe(false);
  });

  test('disposal after a manual release does nothing, and never hides the error of the block', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const block = async (): Promise<void> => {
      await using lock = await locks.acquire('k');
      await lock.release();
      provider.failNext('release', fault.error());
      throw new RangeError('of the block');
    };
    await expect(block()).rejects.toThrow('of the block');
    const failing = async (): Promise<void> => {
      await using _lock = await locks.acquire('k');
      throw new RangeError('of the block');
    };
    await expect(failing()).rejects.toThrow('of the block');
  });

  test('an old handle does not touch the next holder', async () => {
    const world = new World();
    const { locks } = world.instance();
    const a = await locks.acquire('k', { lease: '2s' });
    await world.advance(2_000);
    const b = await locks.acquire('k', { lease: '9s' });
    const before = await locks.provider.inspect({ key: 'k' });
    expect(await a.release()).toBe(false);
    await expect(a.extend('1m')).rejects.toBeInstanceOf(LockLostError);
    expect(await locks.provider.inspect({ key: 'k' })).toEqual(before);
    expect(b.held).toBe(true);
  });
});

describe('a release that is not what it seems', () => {
  test.each([
    ['was applied, and its reply lost', fault.replyLost()],
    ['was given back in the background meanwhile', fault.error()],
  ])('one that %s: repeating it is no loss', async (_what, how) => {
    const world = new World();
    const { locks, provider, times } = world.instance();
    const lock = await locks.acquire('k', { lease: '1h' });
    provider.failNext('release', how);
    await expect(lock.release()).rejects.toBeInstanceOf(LockStoreError);
    await world.advance(1_000);
    expect(await lock.release()).toBe(false);
    expect(times('lost')).toBe(0);

    provider.failNext('release', how);
    expect(await locks.withLock('w', () => 7)).toBe(7);
    provider.failNext('release', how);
    expect(await locks.job({ name: 'j', lockAtMostFor: '1m' }, () => 8)()).toMatchObject({ status: 'ran' });
  });

  test('one that reaches the store after the lease is no loss: it was held until it was given back', async () => {
    const world = new World();
    const { locks, provider, times } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '10s' }, () => world.sleep(9_000));
    provider.failNext('release', fault.slow(2_000));
    expect(await world.until(job())).toMatchObject({ status: 'ran' });
    expect(times('lost')).toBe(0);
  });

  test('what an extension with a lost reply has stored is given back too, when the store is back', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k', { lease: '10s' });
    provider.failNext('renewMany', fault.replyLost());
    await expect(lock.extend('10h')).rejects.toBeInstanceOf(LockStoreError);
    const heal = provider.failWith(['release', 'renewMany'], 1, fault.error());
    await world.advance(90_000);
    expect(lock.held).toBe(false);
    heal();
    await world.advance(20_000);
    expect(await locks.provider.inspect({ key: 'k' })).toMatchObject([{ state: 'free' }]);
  });
});

describe('extensions at odd moments', () => {
  test('two at once: both count', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k', { lease: '10s' });
    provider.failNext('renewMany', fault.slow(20, 20));
    await world.until(Promise.all([lock.extend('10m', { atLeast: '1h' }), lock.extend('20m')]), 10);
    await lock.release();
    await world.advance(3_500_000);
    expect(await locks.tryAcquire('k')).toBeUndefined();
  });

  test('one that the store can not decide ends with the store time-out, or with the lock', async () => {
    const world = new World();
    const { locks, provider, runtime } = world.instance({ storeTimeout: '2s' });
    const inner = provider.renewMany.bind(provider);
    let undecided = 0;
    provider.renewMany = async (requests, options) => {
      await inner(requests, options);
      undecided += 1;
      return requests.map(() => 'unknown' as const);
    };
    const lock = await locks.acquire('k', { lease: '1h' });
    const error = await world.until(lock.extend('2h')).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'STORE', operation: 'renew' });
    expect((error as Error).message).toMatch(/could not decide within 2000 ms/);

    const extension = lock.extend('2h');
    extension.catch(() => {});
    await world.advance(10);
    await lock.release();
    await world.advance(100);
    await expect(extension).rejects.toMatchObject({ code: 'LOST' });
    const before = undecided;
    await world.advance(60_000);
    expect(undecided).toBe(before);
    expect(runtime.pendingTimers()).toBe(0);
  });
});

describe('what is refused at once', () => {
  test.each([
    ['an empty key', '', {}, /is empty/],
    ['a NUL', 'a\0b', {}, /NUL/],
    ['half a surrogate pair', 'a\ud800', {}, /surrogate/],
    ['513 characters', 'k'.repeat(513), {}, /513 characters/],
    ['a lease of nothing', 'k', { lease: 0 }, /lease of "k" is 0\. Accepted: .*from 1ms to ten years/],
    ['an infinite lease', 'k', { lease: Number.POSITIVE_INFINITY }, /Infinity/],
    ['an unparsable lease', 'k', { lease: 'soon' }, /"soon"/],
    ['atLeast longer than the lease', 'k', { lease: '1s', atLeast: '2s' }, /longer than its lease/],
    ['slot and oncePer', 'k', { slot: 1, oncePer: '1h' }, /both a slot and oncePer/],
    ['a slot that is no whole number', 'k', { slot: 1.5 }, /1\.5/],
    ['a period under a second', 'k', { oncePer: 999 }, /oncePer of "k" is 999/],
    ['a misspelt option', 'k', { leese: '1s' }, /no option "leese"/],
  ])('%s', async (_what, key, options, message) => {
    const { locks, provider } = new World().instance();
    const error = await locks.tryAcquire(key, options as TryAcquireOptions).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(LockOptionsError);
    expect((error as Error).message).toMatch(message);
    expect(isLockError(error, 'OPTIONS')).toBe(true);
    expect(provider.calls('acquire')).toBe(0);
  });

  test('512 characters of four bytes are a key', async () => {
    const { locks } = new World().instance();
    expect((await locks.tryAcquire('😀'.repeat(512)))?.held).toBe(true);
  });
});
