import assert from 'node:assert/strict';
import { type CaseDefinition, define } from './case.js';
import { LONG_LEASE_MS } from './scene.js';
import { storeSecond } from './store-time.js';

/** Slots that are recorded only when a release names them: at least once. */
export const slotsOnRelease: readonly CaseDefinition[] = [
  define('claimed on release, a slot is free again after a crash', ['slots'], async (s) => {
    const key = s.key();
    const request = { slot: await storeSecond(s), claim: 'release' } as const;
    const taken = await s.take(key, { ...request, leaseMs: s.leaseMs });
    assert.equal(
      taken.granted.slot,
      request.slot,
      `Expected slot ${request.slot}, found ${taken.granted.slot}.`,
    );
    await s.outlast(taken);
    await s.take(key, request);
  }),

  define(
    'claimed on release, a slot is free again after a release that does not name it',
    ['slots'],
    async (s) => {
      const key = s.key();
      const request = { slot: await storeSecond(s), claim: 'release' } as const;
      await s.released(await s.take(key, request));
      await s.take(key, request);
    },
  ),

  define('claimed on release, a slot is free again after force', ['slots'], async (s) => {
    const key = s.key();
    const request = { slot: await storeSecond(s), claim: 'release' } as const;
    await s.take(key, request);
    await s.forceRelease(key);
    await s.take(key, request);
  }),

  define('a slot that a release named is never granted again', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot, claim: 'release' }), { slot });
    await s.refused(key, { reason: 'slot', request: { slot, claim: 'release' } });
    await s.refused(key, { reason: 'slot', request: { slot } });
    await s.refused(key, { reason: 'slot', request: { slot: slot - 1, claim: 'release' } });
    await s.take(key, { slot: slot + 1, claim: 'release' });
  }),

  define('a release that keeps the record records the slot as well', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot, claim: 'release' }), { slot, keepMs: LONG_LEASE_MS });
    await s.refused(key, { reason: 'slot', request: { slot } });
    await s.refused(key, { reason: 'held', request: { slot: slot + 1 } });
  }),

  define('while it is held, a slot to be claimed on release is refused as held', ['slots'], async (s) => {
    const key = s.key();
    const request = { slot: await storeSecond(s), claim: 'release' } as const;
    await s.take(key, request);
    await s.refused(key, { reason: 'held', request });
    await s.refused(key, { reason: 'held', request: { slot: request.slot } });
  }),

  define('a release that names an older slot leaves the later one', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot }), { slot: slot - 1_000 });
    await s.refused(key, { reason: 'slot', request: { slot } });
    await s.released(await s.take(key, { slot: slot + 1 }));
  }),

  define('a release that is refused records no slot', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    const gone = await s.take(key, { slot, claim: 'release', leaseMs: s.leaseMs });
    await s.outlast(gone);
    await s.notReleased(gone, { slot });
    const next = await s.take(key, { slot, claim: 'release' });
    await s.notReleased(gone, { slot });
    await s.released(next);
    await s.take(key, { slot });
  }),
];
