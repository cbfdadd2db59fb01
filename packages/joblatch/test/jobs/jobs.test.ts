import { assertLocked, currentJob, extendActiveLock, LockOptionsError, LockStoreError } from 'joblatch';
import { fault } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';
import { World } from '../support/world.js';

describe('a run', () => {
  test('of several instances one runs, the others are skipped, as a value', async () => {
    const world = new World();
    let runs = 0;
    const jobs = [1, 2, 3, 4, 5].map(() =>
      world.instance().locks.job({ name: 'j', lockAtMostFor: '1m' }, async () => {
        runs += 1;
        await world.sleep(10);
        return 'value';
      }),
    );
    const outcomes = await world.until(Promise.all(jobs.map((job) => job())), 5);
    expect(runs).toBe(1);
    expect(outcomes.filter(({ status }) => status === 'skipped')).toHaveLength(4);
    expect(outcomes.find(({ status }) => status === 'ran')).toMatchObject({ value: 'value', tookMs: 10 });
    expect(outcomes.find(({ status }) => status === 'skipped')).toEqual({
      status: 'skipped',
      reason: 'held',
      leftMs: 60_000,
    });
  });

  test('is unlocked when the promise settles, not when the function returns', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => world.sleep(1_000));
    const first = job();
    await world.advance(999);
    expect(await job()).toMatchObject({ status: 'skipped' });
    await world.advance(1);
    expect(await first).toMatchObject({ status: 'ran' });
    expect(await world.until(job())).toMatchObject({ status: 'ran' });
  });

  test('the error of the function is thrown as itself, also when the release fails, and the key is given back', async () => {
    const world = new World();
    const { locks, provider, told } = world.instance();
    const mine = new RangeError('mine');
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, () => {
      throw mine;
    });
    provider.failNext('release', fault.error());
    await expect(job()).rejects.toBe(mine);
    expect(told).toContain('error j');
    await world.advance(1_000);
    expect(await locks.provider.inspect({ key: 'j' })).toMatchObject([{ state: 'free' }]);
  });

  test('a store that is down rejects with a LockStoreError, and nothing runs', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    let runs = 0;
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, () => {
      runs += 1;
    });
    provider.failWith('acquire', 1, fault.error());
    await expect(job()).rejects.toBeInstanceOf(LockStoreError);
    expect(runs).toBe(0);
  });

  test('a store that is down at the release: the result of the function is what the caller sees', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, () => 7);
    provider.failWith('release', 1, fault.error());
    expect(await job()).toMatchObject({ status: 'ran', value: 7 });
  });

  test('gets signal, token, lock and slot', async () => {
    const world = new World();
    const { locks } = world.instance();
    const slot = world.time.wall();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, (context) => {
      context.assertHeld();
      return [context.name, context.token === context.lock.token, context.slot, context.signal.aborted];
    });
    expect(await job({ slot })).toMatchObject({ value: ['j', true, slot, false] });
  });
});

describe('lockAtMostFor', () => {
  test('a run that outlives it: aborted before anybody else could start, and the outcome is lost', async () => {
    const world = new World();
    const a = world.instance();
    const b = world.instance();
    let abortedAt = 0;
    const options = { name: 'j', lockAtMostFor: '10s' };
    const slow = a.locks.job(options, async ({ signal }) => {
      signal.addEventListener('abort', () => {
        abortedAt = world.time.monotonic();
      });
      await world.sleep(20_000);
      return 'too late';
    });
    const run = slow();
    await world.advance(9_950);
    expect(abortedAt).toBe(9_898);
    expect(await b.locks.job(options, () => 'b')()).toMatchObject({ status: 'ran' });
    expect(await world.until(run)).toEqual({
      status: 'lost',
      detectedBy: 'deadline',
      token: expect.any(Number),
      tookMs: 20_000,
      value: 'too late',
    });
    expect(a.times('lost')).toBe(1);
  });

  test('a lost run that fails tells its error in the outcome', async () => {
    const world = new World();
    const { locks } = world.instance();
    const error = new RangeError('mine');
    const job = locks.job({ name: 'j', lockAtMostFor: '1s' }, async () => {
      await world.sleep(2_000);
      throw error;
    });
    expect(await world.until(job())).toMatchObject({ status: 'lost', detectedBy: 'deadline', error });
  });

  test('a record that was taken away under the run shows at the release', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, async () => {
      world.store.delete('j');
    });
    expect(await job()).toMatchObject({ status: 'lost', detectedBy: 'release' });
  });
});

describe('lockAtLeastFor', () => {
  test('counts from the acquisition, however soon the run ends', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m', lockAtLeastFor: '2s' }, () => world.sleep(500));
    await world.until(job(), 500);
    await world.advance(1_490);
    expect(await job()).toMatchObject({ status: 'skipped', reason: 'held' });
    await world.advance(11);
    expect(await world.until(job())).toMatchObject({ status: 'ran' });
  });

  test('counts from the acquisition after an extension too', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '10s', lockAtLeastFor: '5s' }, async () => {
      await world.sleep(3_000);
      await extendActiveLock('1m');
    });
    await world.until(job(), 100);
    await world.advance(1_800);
    expect(await job()).toMatchObject({ status: 'skipped' });
    await world.advance(300);
    expect(await world.until(job())).toMatchObject({ status: 'ran' });
  });

  test('holds when the run fails, and under keep-alive', async () => {
    const world = new World();
    const { locks } = world.instance({ watchdogLease: '3s' });
    const options = { name: 'j', lockAtMostFor: '10m', lockAtLeastFor: '1m', keepAlive: true };
    const job = locks.job(options, async () => {
      await world.sleep(20_000);
      throw new RangeError('mine');
    });
    await expect(world.until(job())).rejects.toThrow('mine');
    await world.advance(39_000);
    expect(await job()).toMatchObject({ status: 'skipped' });
    await world.advance(2_000);
    expect((await locks.provider.inspect({ key: 'j' }))[0]).toMatchObject({ state: 'free' });
  });

  test('under keep-alive it holds though the process dies: the first lease is as long', async () => {
    const world = new World();
    const { locks, runtime } = world.instance({ watchdogLease: '3s' });
    const options = { name: 'j', lockAtMostFor: '10m', lockAtLeastFor: '1m', keepAlive: true };
    void locks.job(options, () => new Promise(() => {}))();
    await world.advance(0);
    runtime.pause();
    const other = world.instance().locks.job({ ...options }, () => 1);
    await world.advance(59_000);
    expect(await other()).toMatchObject({ status: 'skipped' });
    await world.advance(1_001);
    expect(await other()).toMatchObject({ status: 'ran' });
  });
});

describe('keepAlive', () => {
  test('a crash frees the key within the short lease, not within lockAtMostFor', async () => {
    const world = new World();
    const { locks, runtime } = world.instance();
    const options = { name: 'j', lockAtMostFor: '1h', keepAlive: true };
    void locks.job(options, () => new Promise(() => {}))();
    await world.advance(600_000);
    const other = world.instance().locks.job(options, () => 1);
    expect(await other()).toMatchObject({ status: 'skipped' });
    runtime.pause();
    await world.advance(30_001);
    expect(await other()).toMatchObject({ status: 'ran' });
  });

  test('lockAtMostFor is the cap of the whole hold: the signal aborts, renewal stops, the key is free', async () => {
    const world = new World();
    const { locks, provider, told } = world.instance();
    const options = { name: 'j', lockAtMostFor: '100s', keepAlive: true };
    let abortedAt = 0;
    const job = locks.job(options, async ({ signal }) => {
      signal.addEventListener('abort', () => {
        abortedAt = world.time.monotonic();
      });
      await world.sleep(150_000);
    });
    const run = job();
    await world.advance(99_000);
    expect(abortedAt).toBe(0);
    await world.advance(1_000);
    expect(abortedAt).toBeGreaterThan(99_600);
    expect(abortedAt).toBeLessThan(100_000);
    const calls = provider.calls('renewMany');
    expect((await locks.provider.inspect({ key: 'j' }))[0]).toMatchObject({ state: 'free' });
    expect(await world.until(run)).toMatchObject({ status: 'lost', detectedBy: 'cap' });
    expect(provider.calls('renewMany')).toBe(calls);
    expect(told.filter((line) => line === 'lost j')).toHaveLength(1);
  });

  test('a cap that the first lease reaches, since at-least is as long, is told as the cap', async () => {
    const world = new World();
    const { locks } = world.instance({ watchdogLease: 600 });
    const options = { name: 'j', lockAtMostFor: 3_000, lockAtLeastFor: 3_000, keepAlive: true };
    const run = locks.job(options, () => world.sleep(4_000))();
    expect(await world.until(run)).toMatchObject({ status: 'lost', detectedBy: 'cap' });
  });

  test('extendActiveLock moves the cap', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '60s', keepAlive: true }, async ({ lock }) => {
      for (let i = 0; i < 5; i += 1) {
        await world.sleep(50_000);
        await extendActiveLock('60s');
      }
      return lock.held;
    });
    expect(await world.until(job(), 1_000)).toMatchObject({ status: 'ran', value: true, tookMs: 250_000 });
  });
});

describe('slots', () => {
  const run = { status: 'ran' };
  const skipped = { status: 'skipped', reason: 'slot' };

  test('with oncePer the slot is a number, also to the compiler; else there may be none', async () => {
    const world = new World();
    const { locks } = world.instance();
    const options = { name: 'typed', lockAtMostFor: '1m' };
    const periodic = locks.job({ ...options, oncePer: '1m' }, ({ slot }) => slot satisfies number);
    expect(await world.until(periodic())).toMatchObject({ status: 'ran', value: expect.any(Number) });
    // @ts-expect-error: nobody has named a slot
    const plain = locks.job(options, ({ slot }) => slot satisfies number);
    expect(await world.until(plain())).toMatchObject({ status: 'ran', value: undefined });
  });

  test('one run for a slot, however quickly it ended, failed or crashed', async () => {
    const world = new World();
    const slot = world.time.wall();
    const options = { name: 'j', lockAtMostFor: '10s' };
    const quick = world.instance().locks.job(options, () => 1);
    expect(await quick({ slot })).toMatchObject(run);
    await world.advance(800);
    expect(await world.instance().locks.job(options, () => 1)({ slot })).toMatchObject(skipped);

    const failing = world.instance().locks.job(options, () => Promise.reject(new Error('no')));
    await expect(failing({ slot: slot + 1 })).rejects.toThrow('no');
    expect(await quick({ slot: slot + 1 })).toMatchObject(skipped);

    const crashing = world.instance();
    void crashing.locks.job(options, () => new Promise(() => {}))({ slot: slot + 2 });
    await world.advance(0);
    crashing.runtime.pause();
    await world.advance(20_000);
    expect(await quick({ slot: slot + 2 })).toMatchObject(skipped);
    expect(await quick({ slot: slot + 3 })).toMatchObject(run);
  });

  test('at-least-once: a failed run may be tried again, one at a time; a done one not', async () => {
    const world = new World();
    const { locks } = world.instance();
    const slot = world.time.wall();
    let tries = 0;
    const job = locks.job({ name: 'j', lockAtMostFor: '1m', perSlot: 'at-least-once' }, async () => {
      tries += 1;
      await world.sleep(10);
      if (tries === 1) throw new Error('first');
    });
    const both = Promise.allSettled([job({ slot }), job({ slot })]);
    const [first, second] = await world.until(both);
    expect(first.status).toBe('rejected');
    expect(second).toMatchObject({ value: { status: 'skipped', reason: 'held' } });
    expect(await world.until(job({ slot }))).toMatchObject(run);
    expect(await job({ slot })).toMatchObject(skipped);
    expect(tries).toBe(2);
  });

  test('at-least-once: a run that lost its lock has not done the slot', async () => {
    const world = new World();
    const { locks } = world.instance();
    const slot = world.time.wall();
    let takes = 2_000;
    const options = { name: 'j', lockAtMostFor: '1s', perSlot: 'at-least-once' } as const;
    const job = locks.job(options, () => world.sleep(takes));
    expect(await world.until(job({ slot }))).toMatchObject({ status: 'lost' });
    takes = 10;
    expect(await world.until(job({ slot }))).toMatchObject(run);
  });

  test('oncePer: the store computes the slot, so timers out of step do not matter', async () => {
    const world = new World();
    const jobs = [0, 400, -300_000].map((wallOffsetMs) => {
      const { locks, runtime } = world.instance();
      runtime.jumpWall(wallOffsetMs);
      return locks.job({ name: 'j', lockAtMostFor: '1m', oncePer: '1h' }, ({ slot }) => slot);
    });
    const [first, second, third] = jobs;
    expect(await first?.()).toMatchObject({ status: 'ran', value: Date.UTC(2026, 0, 1) });
    await world.advance(3_500_000);
    expect(await second?.()).toMatchObject(skipped);
    await world.advance(100_000);
    expect(await third?.()).toMatchObject({ status: 'ran', value: Date.UTC(2026, 0, 1, 1) });
    expect(await first?.()).toMatchObject(skipped);
  });

  test('an instance whose clock is an hour fast can not claim the slots of the future', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => 1);
    expect(await job({ slot: world.time.wall() + 3_600_000 })).toMatchObject(skipped);
    expect(await job({ slot: world.time.wall() })).toMatchObject(run);
  });

  test('of the argument only the own slot of a plain object is read', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, ({ slot }) => slot);
    const slot = world.time.wall();
    class Task {
      slot = slot;
    }
    for (const arg of [
      undefined,
      null,
      7,
      new Date(slot),
      new Task(),
      Object.create({ slot }),
      [slot],
      () => slot,
    ]) {
      expect(await job(arg)).toMatchObject({ status: 'ran', value: undefined });
    }
    expect(await job({ slot: new Date(slot) })).toMatchObject({ value: slot });
    await expect(job({ slot: 'noon' })).rejects.toThrow(
      /slot of job "j" is "noon". Accepted: epoch milliseconds/,
    );
    for (const slot of [new Date(Number.NaN), undefined, null]) {
      await expect(job({ slot })).rejects.toBeInstanceOf(LockOptionsError);
    }
  });
});

describe('nesting', () => {
  test('the same name runs inside without touching the store; another context is a contender', async () => {
    const world = new World();
    const { locks, provider, told } = world.instance();
    const inner = locks.job({ name: 'j', lockAtMostFor: '1m' }, ({ token }) => token);
    const outer = locks.job({ name: 'j', lockAtMostFor: '1m' }, async ({ token }) => {
      const outcome = await inner();
      expect(outcome).toMatchObject({ status: 'ran', value: token, token });
      await world.sleep(10);
      return 'outer';
    });
    const run = outer();
    await world.advance(1);
    expect(await inner()).toMatchObject({ status: 'skipped' });
    expect(await world.until(run)).toMatchObject({ value: 'outer' });
    expect(provider.calls('acquire')).toBe(2);
    expect(told).toEqual([
      'attempt j',
      'acquired j',
      'started j',
      'started j',
      'finished j',
      'attempt j',
      'refused j',
      'finished j',
      'released j',
    ]);
  });

  test('different names nest freely', async () => {
    const { locks } = new World().instance();
    const b = locks.job({ name: 'b', lockAtMostFor: '1m' }, () => currentJob('a')?.name);
    const a = locks.job({ name: 'a', lockAtMostFor: '1m' }, async () => (await b()).status);
    expect(await a()).toMatchObject({ value: 'ran' });
  });

  test('after the outer hold has ended or is lost, it is a contender like any other', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const inner = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => 1);
    const outer = locks.job({ name: 'j', lockAtMostFor: '1s' }, async () => {
      void world.sleep(5_000).then(() => inner());
      await world.sleep(1_500);
      return inner();
    });
    // The inner one took the key anew, since the outer lease was over.
    expect(await world.until(outer())).toMatchObject({ status: 'lost', value: { status: 'ran' } });
    await world.advance(5_000);
    expect(provider.calls('acquire')).toBe(3);
  });

  test('a nested run that the outer one does not wait for is lost when the outer one gives the key back', async () => {
    const world = new World();
    const { locks } = world.instance();
    const inner = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => world.sleep(1_000));
    let nested: Promise<unknown> = Promise.resolve();
    const outer = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => {
      nested = inner();
    });
    expect(await outer()).toMatchObject({ status: 'ran' });
    expect(await world.until(nested)).toMatchObject({ status: 'lost', detectedBy: 'release' });
  });
});

describe('a run that gives its lock away', () => {
  test('was not held until it ended: lost, and its slot is not done', async () => {
    const world = new World();
    const { locks } = world.instance();
    let runs = 0;
    const options = { name: 'j', lockAtMostFor: '1m', perSlot: 'at-least-once' } as const;
    const job = locks.job(options, async ({ lock }) => {
      runs += 1;
      if (runs === 1) await lock.release();
    });
    const slot = world.time.wall();
    expect(await job({ slot })).toMatchObject({ status: 'lost', detectedBy: 'release' });
    expect(await job({ slot })).toMatchObject({ status: 'ran' });
    expect(await job({ slot })).toMatchObject({ status: 'skipped', reason: 'slot' });
  });
});

test('a listener that a shared timer calls is inside no job', async () => {
  const { createLocks } = await import('joblatch');
  const { memoryProvider } = await import('joblatch/memory');
  // With the timers of Node, which carry the async context of whoever sets them.
  const locks = createLocks({ provider: memoryProvider() });
  const asserted = new Promise((resolve) => {
    locks.on('lost', () => {
      try {
        resolve(assertLocked('a'));
      } catch (error) {
        resolve(error);
      }
    });
  });
  const job = locks.job({ name: 'a', lockAtMostFor: '1m' }, async () => {
    await locks.acquire('other', { lease: 50 });
    return asserted;
  });
  expect(await job()).toMatchObject({ value: { code: 'NOT_LOCKED' } });
});

describe('asserting and extending', () => {
  test('assertLocked throws outside, passes inside, and knows names', async () => {
    const { locks } = new World().instance();
    expect(() => assertLocked()).toThrow(/runs outside a job/);
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, async () => {
      assertLocked();
      assertLocked('j');
      expect(() => assertLocked('other')).toThrow(/outside the job "other"/);
    });
    expect(await job()).toMatchObject({ status: 'ran' });
    expect(() => assertLocked()).toThrow();
  });

  test('assertLocked throws in what a job left running, and once the lock is lost', async () => {
    const world = new World();
    const { locks } = world.instance();
    let later: unknown;
    const job = locks.job({ name: 'j', lockAtMostFor: '1s' }, async () => {
      void world.sleep(3_000).then(() => {
        try {
          assertLocked();
        } catch (error) {
          later = error;
        }
      });
      await world.sleep(1_200);
      expect(() => assertLocked()).toThrow(/is lost/);
    });
    await world.until(job());
    await world.advance(3_000);
    expect(later).toMatchObject({ code: 'NOT_LOCKED' });
  });

  test('extendActiveLock prolongs the innermost lock, several times', async () => {
    const world = new World();
    const { locks } = world.instance();
    await expect(extendActiveLock('1m')).rejects.toMatchObject({ code: 'NOT_LOCKED' });
    const job = locks.job({ name: 'j', lockAtMostFor: '1s' }, async ({ lock }) => {
      for (const duration of ['2s', '4s', '8s']) {
        await extendActiveLock(duration);
        await world.sleep(900);
      }
      await expect(extendActiveLock('soon')).rejects.toBeInstanceOf(LockOptionsError);
      return lock.held;
    });
    expect(await world.until(job())).toMatchObject({ status: 'ran', value: true });
  });
});

describe('tick', () => {
  test('ignores what it is called with, never throws, and reports errors to the listeners', async () => {
    const world = new World();
    const { locks } = world.instance();
    const errors: unknown[] = [];
    locks.on('error', ({ error }) => errors.push(error));
    const mine = new RangeError('mine');
    let slot: unknown = 'unset';
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, (context) => {
      slot = context.slot;
      throw mine;
    });
    const tick = job.tick as (...args: unknown[]) => unknown;
    expect(tick({ slot: 'nonsense' }, 2, 3)).toBeUndefined();
    await world.advance(1);
    expect(errors).toEqual([mine]);
    expect(slot).toBeUndefined();
  });

  test('without a listener an error becomes a warning of the process, not nothing', async () => {
    const world = new World();
    const { createLocks } = await import('joblatch');
    const { memoryProvider } = await import('joblatch/memory');
    const locks = createLocks({ provider: memoryProvider({ runtime: world.time }), runtime: world.time });
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    locks.job({ name: 'j', lockAtMostFor: '1m' }, () => Promise.reject(new RangeError('mine'))).tick();
    await world.advance(1);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', onWarning);
    expect(warnings.map(({ message }) => message).join()).toMatch(/RangeError: mine \(key "j"\)/);
  });

  test('a listener that throws or rejects changes nothing', async () => {
    const { locks } = new World().instance();
    for (const event of ['attempt', 'acquired', 'started', 'finished', 'released'] as const) {
      locks.on(event, () => {
        throw new Error('listener');
      });
      locks.on(event, () => Promise.reject(new Error('listener')));
    }
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => 1);
    expect(await job()).toMatchObject({ status: 'ran', value: 1 });
  });
});

describe('draining', () => {
  test('starts nothing new, waits for what runs, gives the keys back, and stops waiters', async () => {
    const world = new World();
    const { locks, runtime } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1m' }, () => world.sleep(5_000));
    const run = job();
    await world.advance(0);
    const other = await world.instance().locks.acquire('k');
    const waiting = locks.acquire('k', { wait: '1h' });
    waiting.catch(() => {});
    await world.advance(100);
    let stopped = false;
    const stop = locks.stop().then(() => {
      stopped = true;
    });
    await expect(waiting).rejects.toMatchObject({ code: 'STOPPED' });
    expect(await job()).toEqual({ status: 'skipped', reason: 'stopping' });
    await expect(locks.tryAcquire('x')).rejects.toMatchObject({ code: 'STOPPED' });
    await world.advance(4_000);
    expect(stopped).toBe(false);
    await world.advance(1_000);
    await stop;
    expect(await run).toMatchObject({ status: 'ran' });
    expect(await locks.provider.inspect({ key: 'j' })).toMatchObject([{ state: 'free' }]);
    expect(runtime.pendingTimers()).toBe(0);
    expect(other.held).toBe(true);
  });

  test('after the grace it aborts what is left, which may end then', async () => {
    const world = new World();
    const { locks } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, ({ signal }) => {
      return new Promise((resolve) => signal.addEventListener('abort', () => resolve('aborted')));
    });
    const run = job();
    await world.advance(0);
    const stop = locks.stop({ grace: '3s' });
    await world.advance(3_000);
    await stop;
    expect(await run).toMatchObject({ status: 'ran', value: 'aborted' });
  });

  test('a function that hangs does not keep it; its lock is given back, and its outcome is lost', async () => {
    const world = new World();
    const { locks, runtime } = world.instance();
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, () => world.sleep(60_000));
    const run = job();
    await world.advance(0);
    const stop = locks.stop({ grace: '3s' });
    await world.advance(4_000);
    await stop;
    expect(await locks.provider.inspect({ key: 'j' })).toMatchObject([{ state: 'free' }]);
    expect(await world.until(run)).toMatchObject({ status: 'lost', detectedBy: 'release' });
    expect(runtime.pendingTimers()).toBe(0);
  });

  test('what a function failed to give back itself is not tried again after the stop', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const run = locks.job({ name: 'j', lockAtMostFor: '1h' }, async ({ lock }) => {
      await lock.release().catch(() => {});
      await world.sleep(60_000);
    })();
    provider.failWith('release', 1, fault.error());
    await world.advance(0);
    const stop = locks.stop({ grace: 0 });
    await world.advance(10_000);
    await stop;
    const calls = provider.calls('release');
    expect(await world.until(run)).toMatchObject({ status: 'lost', detectedBy: 'release' });
    expect(provider.calls('release')).toBe(calls);
  });

  test('a release that begins in the last moment is waited for: only then may the store be closed', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    const lock = await locks.acquire('k');
    provider.failNext('release', fault.slow(50));
    let stopped = false;
    const stop = locks.stop({ grace: 0 }).then(() => {
      stopped = true;
    });
    await world.advance(999);
    const release = lock.release();
    await world.advance(10);
    expect(stopped).toBe(false);
    await world.advance(50);
    await stop;
    expect(await release).toBe(true);
  });

  test('a second call may shorten the grace', async () => {
    const world = new World();
    const { locks } = world.instance();
    void locks.job({ name: 'j', lockAtMostFor: '1h' }, () => new Promise(() => {}))();
    await world.advance(0);
    const first = locks.stop({ grace: '1h' });
    const second = locks.stop({ grace: '1s' });
    await world.advance(2_000);
    await second;
    await world.until(first, 1_000);
  });

  test('a grant that arrives while stopping is given back, and the job skipped', async () => {
    const world = new World();
    const { locks, provider } = world.instance();
    let runs = 0;
    const job = locks.job({ name: 'j', lockAtMostFor: '1h' }, () => {
      runs += 1;
    });
    provider.failNext('acquire', fault.slow(500));
    const run = job();
    await world.advance(100);
    const stop = locks.stop();
    await world.advance(500);
    expect(await run).toEqual({ status: 'skipped', reason: 'stopping' });
    await world.until(stop);
    expect(runs).toBe(0);
    expect(await locks.provider.inspect({ key: 'j' })).toMatchObject([{ state: 'free' }]);
  });
});

describe('what is refused where the job is defined', () => {
  const fn = (): void => {};
  test.each([
    ['no lockAtMostFor', { name: 'j' }, /Job "j" has no lockAtMostFor/],
    [
      'one that is not positive',
      { name: 'j', lockAtMostFor: 0 },
      /lockAtMostFor of job "j" is 0\. Accepted:/,
    ],
    [
      'a negative lockAtLeastFor',
      { name: 'j', lockAtMostFor: 1, lockAtLeastFor: -1 },
      /lockAtLeastFor of job "j" is -1/,
    ],
    [
      'at least more than at most',
      { name: 'j', lockAtMostFor: '1m', lockAtLeastFor: '2m' },
      /120000 ms, more than/,
    ],
    ['an unparsable duration', { name: 'j', lockAtMostFor: '10 minutes' }, /"10 minutes"/],
    ['not a number', { name: 'j', lockAtMostFor: Number.NaN }, /is NaN/],
    ['an empty name', { name: '', lockAtMostFor: 1 }, /name of the job is empty/],
    ['an anonymous function', { lockAtMostFor: 1 }, /needs a name/],
    ['a period of 32 days', { name: 'j', lockAtMostFor: 1, oncePer: '32d' }, /from 1s to 31d/],
    ['an unknown perSlot', { name: 'j', lockAtMostFor: 1, perSlot: 'once' }, /perSlot of job "j" is "once"/],
    ['keepAlive as text', { name: 'j', lockAtMostFor: 1, keepAlive: 'yes' }, /keepAlive of job "j" is "yes"/],
    ['a misspelt option', { name: 'j', lockAtMostFor: 1, lockAtLeastfor: 1 }, /no option "lockAtLeastfor"/],
  ])('%s', (_what, options, message) => {
    const { locks } = new World().instance();
    expect(() => locks.job(options as never, () => fn())).toThrow(LockOptionsError);
    expect(() => locks.job(options as never, () => fn())).toThrow(message);
  });

  test('lockAtLeastFor 0 is fine; the defaults of the client count', async () => {
    const { locks } = new World().instance({ defaultLockAtMostFor: '1m', defaultLockAtLeastFor: '1s' });
    await locks.job({ name: 'a', lockAtLeastFor: 0 }, fn)();
    await locks.job({ name: 'b' }, fn)();
    const [a, b] = await locks.provider.inspect({});
    expect([a?.state, b?.state]).toEqual(['free', 'kept']);
    expect(() => locks.job({ name: 'c', lockAtMostFor: 500 }, fn)).toThrow(/1000 ms, more than/);
  });

  test('two jobs of one default name; two of one explicit name exclude each other', async () => {
    const world = new World();
    const { locks } = world.instance({ defaultLockAtMostFor: '1m' });
    function nightly(): Promise<void> {
      return world.sleep(10);
    }
    const job = locks.job({}, nightly);
    expect(job.jobName).toBe('nightly');
    expect(() => locks.job({}, nightly)).toThrow(/Two jobs have the default name "nightly"/);
    const [a, b] = [locks.job({ name: 'x' }, nightly), locks.job({ name: 'x' }, nightly)];
    const outcomes = await world.until(Promise.all([a(), b()]));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['ran', 'skipped']);
  });
});
