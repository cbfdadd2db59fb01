import assert from 'node:assert/strict';
import type { LockProvider } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import { endsAfter } from './records.js';
import { LONG_LEASE_MS, type Scene } from './scene.js';
import { storeSecond } from './store-time.js';

const HOUR_MS = 3_600_000;

/** Hosts whose clocks are wrong: a store with a clock of its own does not mind. */
export const skewed: readonly CaseDefinition[] = [
  define(
    'a host whose clock is an hour fast or slow is refused like anybody',
    ['serverClock', 'openSkewed'],
    async (s) => {
      for (const client of await wrongClocks(s)) {
        const key = s.key(`key-${client.offset}`);
        await s.take(key);
        await s.refused(key, { client: client.provider });
      }
    },
  ),

  define(
    'a lease taken by a host whose clock is wrong is as long as any',
    ['serverClock', 'openSkewed'],
    async (s) => {
      for (const { offset, provider } of await wrongClocks(s)) {
        const key = s.key(`key-${offset}`);
        const taken = await s.take(key, {}, provider);
        await endsAfter(s, key, LONG_LEASE_MS, taken);
        await s.refused(key);
        await s.renewed(taken, LONG_LEASE_MS * 2);
        await s.released(taken);
      }
    },
  ),

  define(
    "slots and periods are measured by the store's clock",
    ['serverClock', 'openSkewed', 'slots'],
    async (s) => {
      const second = await storeSecond(s);
      for (const { offset, provider } of await wrongClocks(s)) {
        const key = s.key(`key-${offset}`);
        await s.released(await s.take(key, { slot: second }, provider));
        await s.refused(key, { reason: 'slot', request: { slot: second + HOUR_MS }, client: provider });
        const { slot = 0 } = (await s.take(s.key(`per-${offset}`), { oncePerMs: 1_000 }, provider)).granted;
        const most = second + 60_000;
        assert.ok(slot >= second && slot < most, `Expected a slot from ${second} to ${most}, found ${slot}.`);
      }
    },
  ),
];

async function wrongClocks(s: Scene): Promise<{ offset: number; provider: LockProvider }[]> {
  const { openSkewed } = s.options;
  assert.ok(openSkewed !== undefined);
  return Promise.all(
    [HOUR_MS, -HOUR_MS].map(async (offset) => ({ offset, provider: await s.open(openSkewed(offset)) })),
  );
}
