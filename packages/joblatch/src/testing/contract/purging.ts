import assert from 'node:assert/strict';
import { SLOT_MEMORY_MS } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import { unchanged } from './records.js';
import { LONG_LEASE_MS, type Scene } from './scene.js';
import { storeSecond } from './store-time.js';

const FOR_EVER_MS = 3_650 * 86_400_000;

/** Forgetting what has been idle for long. */
export const purging: readonly CaseDefinition[] = [
  define('records free for longer than asked are forgotten and counted', [], async (s) => {
    const keys = ['released', 'expired', 'forced'].map((label) => s.key(label));
    const [released, expired, forced] = keys as [string, string, string];
    await s.released(await s.take(released));
    await s.take(forced);
    await s.forceRelease(forced);
    await s.outlast(await s.take(expired, { leaseMs: s.leaseMs }));
    await s.pass(s.leaseMs * 2);
    const before = (await Promise.all(keys.map((key) => s.inspect(key)))).filter(
      (r) => r !== undefined,
    ).length;
    const count = await purge(s, s.leaseMs);
    assert.ok(count >= before, `Expected at least ${before} records to be forgotten, found ${count}.`);
    for (const key of keys) {
      assert.equal(await s.inspect(key), undefined, 'Expected no record after the purge, found one.');
      await s.take(key);
    }
  }),

  define('a record that was freed more recently stays', [], async (s) => {
    const key = s.key();
    await s.released(await s.take(key));
    const before = await s.inspect(key);
    await s.pass(s.leaseMs);
    await purge(s, FOR_EVER_MS);
    const after = await s.inspect(key);
    assert.equal(after?.state, before?.state, `Expected the record to stay, found ${after?.state}.`);
  }),

  define('held and kept records stay, whatever the time asked for', [], async (s) => {
    const [held, kept] = [s.key('held'), s.key('kept')];
    const taken = await s.take(held);
    await s.released(await s.take(kept), { keepMs: LONG_LEASE_MS });
    await s.pass(s.leaseMs);
    await unchanged(s, held, () => unchanged(s, kept, async () => void (await purge(s, 0))));
    await s.refused(held);
    await s.refused(kept);
    await s.released(taken);
  }),

  define('how long a record is idle counts from its end, not from the acquisition', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.pass(s.leaseMs * 4);
    const releasing = s.now();
    await s.released(taken);
    const before = await s.inspect(key);
    await purge(s, s.leaseMs * 3);
    // On a slow machine it may have been idle that long in truth.
    if (s.now() - releasing >= s.leaseMs * 3) return s.note('too slow to tell');
    const after = await s.inspect(key);
    assert.equal(after?.state, before?.state, `Expected the record to stay, found ${after?.state}.`);
  }),

  define('a record whose slot could still be asked for stays', ['slots'], async (s) => {
    const [now, old] = [s.key('now'), s.key('old')];
    const second = await storeSecond(s);
    const longAgo = second - SLOT_MEMORY_MS + 3_600_000;
    await s.released(await s.take(now, { slot: second }));
    await s.released(await s.take(old, { slot: longAgo }));
    await s.pass(s.leaseMs * 2);
    await purge(s, s.leaseMs);
    await purge(s, 0);
    await s.refused(now, { reason: 'slot', request: { slot: second } });
    await s.refused(old, { reason: 'slot', request: { slot: longAgo } });
    await s.take(old, { slot: longAgo + 1 });
  }),

  define('when its slot is as old as the memory of slots, a record can go', ['slots', 'clock'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    await s.released(await s.take(key, { slot }));
    await s.pass(SLOT_MEMORY_MS - 2_000);
    await purge(s, 0);
    await s.refused(key, { reason: 'slot', request: { slot } });
    await s.pass(3_000);
    await purge(s, 0);
    assert.equal(await s.inspect(key), undefined, 'Expected no record after the purge, found one.');
    // Forgotten, but too old to be claimed again.
    await s.refused(key, { reason: 'slot', request: { slot } });
    await s.take(key);
  }),

  define('purging what has nothing idle answers a count and harms nobody', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    const count = await purge(s, FOR_EVER_MS);
    assert.ok(Number.isSafeInteger(count) && count >= 0, `Expected a count from 0 up, found ${count}.`);
    await s.renewed(taken, LONG_LEASE_MS);
    await s.released(taken);
  }),
];

async function purge(s: Scene, idleMs: number): Promise<number> {
  return s.answer(`purge of what is idle for ${idleMs} ms`, s.client.purge({ idleMs }));
}
