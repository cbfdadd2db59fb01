import assert from 'node:assert/strict';
import { isLockError } from '../../provider/errors.js';
import { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import { unchanged } from './records.js';
import { LONG_LEASE_MS, type Scene } from './scene.js';
import { show } from './show.js';
import { storeMillisecond, storeSecond } from './store-time.js';

/** Slots that a schedule names, claimed on acquiring. */
export const slots: readonly CaseDefinition[] = [
  define('a grant says which slot it has', ['slots'], async (s) => {
    const slot = (await storeSecond(s)) + 123;
    const { granted } = await s.take(s.key(), { slot });
    assert.equal(granted.slot, slot, `Expected slot ${slot} in the grant, found ${granted.slot}.`);
    const plain = await s.take(s.key('plain'));
    assert.equal(plain.granted.slot, undefined, `Expected no slot, found ${plain.granted.slot}.`);
  }),

  define('a slot is granted once: not again after a release', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot }));
    await refusedSlot(s, key, slot);
    await refusedSlot(s, key, slot);
  }),

  define('a slot is granted once: not again after its holder crashed', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.outlast(await s.take(key, { slot, leaseMs: s.leaseMs }));
    await refusedSlot(s, key, slot);
    await s.take(key);
  }),

  define('a slot is granted once: not again after force', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.take(key, { slot });
    await s.forceRelease(key);
    await refusedSlot(s, key, slot);
    await s.take(key, { slot: slot + 1 });
  }),

  define('only a later slot is granted, be it by a millisecond', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot }));
    await refusedSlot(s, key, slot - 1);
    await refusedSlot(s, key, slot - 3_600_000);
    await refusedSlot(s, key, slot);
    await s.released(await s.take(key, { slot: slot + 1 }));
    await refusedSlot(s, key, slot + 1);
    await refusedSlot(s, key, slot);
    await s.take(key, { slot: slot + 2 });
  }),

  define(
    'a taken slot is refused as such though the key is held, another one as held',
    ['slots'],
    async (s) => {
      const key = s.key();
      const slot = await storeSecond(s);
      const taken = await s.take(key, { slot });
      await refusedSlot(s, key, slot);
      await refusedSlot(s, key, slot - 1);
      await s.refused(key, { request: { slot: slot + 1 } });
      await s.refused(key);
      await s.released(taken, { keepMs: LONG_LEASE_MS });
      await refusedSlot(s, key, slot);
      await s.refused(key, { request: { slot: slot + 1 } });
      await s.refused(key);
    },
  ),

  define('an attempt that is refused as held claims no slot', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    const taken = await s.take(key);
    await unchanged(s, key, async () => {
      await s.refused(key, { request: { slot } });
    });
    await s.released(taken);
    await s.take(key, { slot });
  }),

  define('an attempt that is refused for its slot writes nothing', ['slots'], async (s) => {
    const [key, fresh] = [s.key(), s.key('fresh')];
    const slot = await storeSecond(s);
    await s.take(key, { slot });
    await unchanged(s, key, async () => {
      await refusedSlot(s, key, slot);
      await refusedSlot(s, key, slot - 1);
      await refusedSlot(s, key, slot + SLOT_AHEAD_MS * 2);
    });
    await refusedSlot(s, fresh, slot + SLOT_AHEAD_MS * 2);
    await refusedSlot(s, fresh, slot - SLOT_MEMORY_MS);
    assert.equal(await s.inspect(fresh), undefined, 'Expected no record after a refusal, found one.');
    await s.take(fresh, { slot });
  }),

  define(
    'a slot more than a minute in the future is refused, one within it is granted',
    ['slots'],
    async (s) => {
      const key = s.key();
      const second = await storeSecond(s);
      await refusedSlot(s, key, second + SLOT_AHEAD_MS * 2);
      await refusedSlot(s, key, second + 365 * 86_400_000);
      await refusedSlot(s, key, Number.MAX_SAFE_INTEGER);
      await s.released(await s.take(key, { slot: second }));
      await s.take(key, { slot: second + SLOT_AHEAD_MS });
    },
  ),

  define(
    'a slot older than the memory of slots is refused, a younger one is granted',
    ['slots'],
    async (s) => {
      const key = s.key();
      const second = await storeSecond(s);
      await refusedSlot(s, key, second - SLOT_MEMORY_MS);
      await refusedSlot(s, key, second - SLOT_MEMORY_MS * 2);
      await refusedSlot(s, key, 0);
      await s.take(key, { slot: second - SLOT_MEMORY_MS + SLOT_AHEAD_MS });
    },
  ),

  define('the limits of a slot hold to the millisecond', ['slots', 'fencing', 'clock'], async (s) => {
    const now = await storeMillisecond(s);
    await refusedSlot(s, s.key('ahead'), now + SLOT_AHEAD_MS + 1);
    await s.take(s.key('ahead'), { slot: now + SLOT_AHEAD_MS });
    await refusedSlot(s, s.key('old'), now - SLOT_MEMORY_MS);
    await s.take(s.key('old'), { slot: now - SLOT_MEMORY_MS + 1 });
  }),

  define('a slot too far ahead can be had when its time comes', ['slots', 'fencing', 'clock'], async (s) => {
    const key = s.key();
    const slot = (await storeMillisecond(s)) + SLOT_AHEAD_MS + 1_000;
    await refusedSlot(s, key, slot);
    await s.pass(1_000);
    await s.take(key, { slot });
  }),

  define('an acquisition without a slot leaves the recorded one', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot }));
    await s.released(await s.take(key));
    await refusedSlot(s, key, slot);
    await s.outlast(await s.take(key, { leaseMs: s.leaseMs }));
    await refusedSlot(s, key, slot);
  }),

  define('a renewal leaves the recorded slot', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    const taken = await s.take(key, { slot });
    await s.renewed(taken, LONG_LEASE_MS * 2);
    await s.released(taken);
    await refusedSlot(s, key, slot);
  }),

  define('inspect shows the recorded slot', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.take(key, { slot });
    const found = (await s.inspect(key))?.slot;
    assert.equal(found, slot, `Expected slot ${slot} of ${show(key)}, found ${found}.`);
  }),

  define(
    'without slots, a request that names one is refused as an error, and takes nothing',
    ['noSlots'],
    async (s) => {
      const key = s.key();
      for (const request of [{ slot: 1_000 }, { oncePerMs: 60_000 }]) {
        await assert.rejects(
          s.answer(
            'acquire with a slot',
            s.client.acquire({ key, owner: s.owner(), leaseMs: s.leaseMs, ...request }),
          ),
          (error) => isLockError(error, 'OPTIONS'),
          `Expected a LockOptionsError for ${show(request)}.`,
        );
      }
      await s.take(key);
    },
  ),
];

/** A slot that can not be had, however often it is asked for and however it would be claimed. */
async function refusedSlot(s: Scene, key: string, slot: number): Promise<void> {
  await s.refused(key, { reason: 'slot', request: { slot } });
  await s.refused(key, { reason: 'slot', request: { slot, claim: 'release' } });
}
