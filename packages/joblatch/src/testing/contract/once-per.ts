import assert from 'node:assert/strict';
import { SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import type { Scene } from './scene.js';
import { storeMillisecond, storeSecond } from './store-time.js';

const HOUR_MS = 3_600_000;

/** Slots that the store computes: once in every period, by its own clock. */
export const oncePer: readonly CaseDefinition[] = [
  define("the slot of a period is the store's now, cut down to a multiple of it", ['slots'], async (s) => {
    for (const period of [
      1_000,
      1_001,
      7_000,
      60_000,
      HOUR_MS,
      24 * HOUR_MS,
      7 * 24 * HOUR_MS,
      SLOT_MEMORY_MS,
    ]) {
      const from = await storeSecond(s);
      const began = s.now();
      const { slot } = (await s.take(s.key(`per-${period}`), { oncePerMs: period })).granted;
      const to = from + 1_000 + Math.ceil(s.now() - began) + s.unitMs;
      const [least, most] = [from - (from % period), to - (to % period)];
      assert.ok(
        slot !== undefined && slot % period === 0 && slot >= least && slot <= most,
        `Expected a multiple of ${period} from ${least} to ${most} as the slot, found ${slot}.`,
      );
    }
  }),

  define('a period is granted once, also after a release, a crash and force', ['slots'], async (s) => {
    const key = s.key();
    await withinPeriod(s, 24 * HOUR_MS, async (oncePerMs) => {
      await s.released(await s.take(key, { oncePerMs }));
      await s.refused(key, { reason: 'slot', request: { oncePerMs } });
      await s.outlast(await s.take(key, { leaseMs: s.leaseMs }));
      await s.refused(key, { reason: 'slot', request: { oncePerMs } });
      await s.take(key);
      await s.refused(key, { reason: 'slot', request: { oncePerMs } });
      await s.forceRelease(key);
      await s.refused(key, { reason: 'slot', request: { oncePerMs } });
    });
  }),

  define('the next period is granted again', ['slots'], async (s) => {
    const key = s.key();
    const first = await s.take(key, { oncePerMs: 1_000 });
    await s.released(first);
    await s.pass(1_000 + s.unitMs);
    const next = await s.take(key, { oncePerMs: 1_000 });
    assert.ok(
      (next.granted.slot ?? 0) > (first.granted.slot ?? 0),
      `Expected a slot later than ${first.granted.slot}, found ${next.granted.slot}.`,
    );
  }),

  define('a period ends to the millisecond', ['slots', 'fencing', 'clock'], async (s) => {
    const key = s.key();
    await s.released(await s.take(key, { oncePerMs: 60_000 }));
    await s.pass(60_000 - ((await storeMillisecond(s)) % 60_000) - 1);
    const crossed = await s.attempt(key, { oncePerMs: 60_000 });
    assert.ok(
      'reason' in crossed && crossed.reason === 'slot',
      'Expected the last ms of a period to be refused.',
    );
    await s.pass(1);
    await s.take(key, { oncePerMs: 60_000 });
  }),

  define(
    'claimed on release, a period is free again after a crash and taken after a success',
    ['slots'],
    async (s) => {
      const key = s.key();
      await withinPeriod(s, 24 * HOUR_MS, async (oncePerMs) => {
        const request = { oncePerMs, claim: 'release' } as const;
        await s.outlast(await s.take(key, { ...request, leaseMs: s.leaseMs }));
        await s.released(await s.take(key, request));
        const done = await s.take(key, request);
        const { slot } = done.granted;
        assert.ok(slot !== undefined, 'Expected the grant to name its slot, found none.');
        await s.released(done, { slot });
        await s.refused(key, { reason: 'slot', request });
      });
    },
  ),

  define('named and computed slots are of one kind', ['slots'], async (s) => {
    const key = s.key();
    await withinPeriod(s, 24 * HOUR_MS, async (oncePerMs) => {
      const computed = await s.take(key, { oncePerMs });
      const slot = computed.granted.slot ?? 0;
      await s.released(computed);
      await s.refused(key, { reason: 'slot', request: { slot } });
      await s.released(await s.take(key, { slot: slot + 1 }));
      await s.refused(key, { reason: 'slot', request: { oncePerMs } });
    });
  }),
];

/** Plays with a period whose end is not near, so that it does not end in the middle of the case. */
async function withinPeriod(
  s: Scene,
  period: number,
  play: (periodMs: number) => Promise<void>,
): Promise<void> {
  const second = await storeSecond(s);
  // A prime number of seconds more moves the ends of the periods to other instants.
  const isNearEnd = (ms: number): boolean => ms - (second % ms) < 600_000;
  await play(isNearEnd(period) ? period + 7_919_000 : period);
}
