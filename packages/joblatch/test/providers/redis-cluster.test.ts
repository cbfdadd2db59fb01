import { beforeAll, describe, expect, test } from 'vitest';
// The rule for keys is internal; what the server makes of it is what counts.
import { KeySpace } from '../../dist/providers/redis/keys.js';
import { CLIENTS, openRedis, VARIANTS } from '../support/redis-clients.js';
import { keepsTheContract } from '../support/redis-contract.ts';
import { describeWithOwnRedis, OwnRedis } from '../support/redis-servers.ts';
import { playsTheStory } from '../support/redis-story.ts';
import { redis } from '../support/resp.js';

/** Each a different way to have a hash tag, or not. */
const NAMES = [
  'plain',
  'ü \u{1F512}',
  '{a}',
  '{a}b',
  'a{b}',
  'a{b}c',
  '{a}{b}',
  '{}',
  '{}a',
  '{}{a}',
  'a{}{b}',
  '{',
  '}',
  '}{',
  '}{a}',
  '}{a',
  '{{a}}',
  '{{}',
  '{{}}',
  '{a',
  'a}',
  'a}b',
  '}a{',
  '{}}',
  '{ }',
  '{\u{1F512}}',
  '{}\u{1F512}}',
  'x~abc',
  'x~',
  '~',
  '~abc',
  '{a}~abc',
  'a:b',
  'x'.repeat(512),
  `${'x'.repeat(510)}{}`,
  `{${'x'.repeat(510)}}`,
];
const PREFIXES = ['', 'app:', '{app}:', '{}app:', 'a}b:', '{a}{b}:', 'ü:'];
const KEY_PREFIXES = ['job-lock', '{jobs}', 'x{y}z', '{}', '}'];

test('lock and record of every name are two keys, and no two names share one', () => {
  for (const prefix of PREFIXES)
    for (const keyPrefix of KEY_PREFIXES) {
      const keys = new KeySpace(prefix, { keyPrefix, environment: 'default' });
      const all = NAMES.flatMap((name) => [keys.keysOf(name).lock, keys.keysOf(name).record]);
      expect(new Set(all).size).toBe(NAMES.length * 2);
      for (const name of NAMES) {
        expect(keys.nameOf(prefix + keys.keysOf(name).lock)).toBe(name);
        expect(keys.nameOf(prefix + keys.keysOf(name).record)).toBe(name);
      }
      expect(keys.nameOf(`${prefix}${keyPrefix}-record:default:plain`)).toBe(
        // Without what leads it to its hash slot it is not ours; with a tag in front nothing does.
        keys.keysOf('plain').record.includes('~') ? undefined : 'plain',
      );
      expect(keys.nameOf(`${prefix}${keyPrefix}-other:default:plain`)).toBeUndefined();
    }
});

test('ten thousand names are led to ten thousand records', () => {
  const keys = new KeySpace('', { keyPrefix: 'job-lock', environment: 'default' });
  const records = Array.from({ length: 10_000 }, (_, i) => keys.keysOf(`name-${i}`).record);
  expect(new Set(records).size).toBe(10_000);
  expect(records.every((record) => /^job-lock-record:default:name-\d+~[-\w]{3}$/.test(record))).toBe(true);
});

describeWithOwnRedis('a server in cluster mode', () => {
  let url = '';
  beforeAll(async () => {
    ({ url } = await OwnRedis.cluster());
  });

  describe.each(PREFIXES.map((prefix) => [prefix]))('client prefix %o', (prefix) => {
    test.each(KEY_PREFIXES)(
      'keyPrefix %o: the server has lock and record in one hash slot',
      async (keyPrefix) => {
        const keys = new KeySpace(prefix, { keyPrefix, environment: 'default' });
        for (const name of NAMES) {
          const { lock, record, hashSlot } = keys.keysOf(name);
          const slots = [lock, record].map((key) => redis(url, 'CLUSTER', 'KEYSLOT', prefix + key));
          expect([name, await Promise.all(slots)]).toEqual([name, [hashSlot, hashSlot]]);
        }
      },
    );
  });

  const variants = Object.keys(VARIANTS).filter((name) => !/no offline|legacy|lazy|retries/.test(name));
  test.each([...Object.keys(CLIENTS), ...variants])('%s, cluster client: every verb', async (name) => {
    const environment = name.replaceAll(/\W/g, '-');
    const provider = await openRedis(name, url, { cluster: true, environment });
    try {
      await playsTheStory(provider);
      const grants = Array.from({ length: 900 }, (_, i) => ({ key: `n${i}`, owner: 'o', leaseMs: 60_000 }));
      const taken = await Promise.all(grants.map((grant) => provider.acquire(grant)));
      expect(taken.every(({ ok }) => ok)).toBe(true);
      const answers = await provider.renewMany(grants.map((grant) => ({ ...grant, token: 1 })));
      expect(new Set(answers)).toEqual(new Set(['ok']));
    } finally {
      await provider.close?.();
    }
  });

  test.each(Object.keys(CLIENTS))('%s, client for one server: every verb', async (name) => {
    const provider = await openRedis(name, url, { environment: `one-${name.replaceAll(/\W/g, '-')}` });
    try {
      await playsTheStory(provider);
      const grants = Array.from({ length: 20 }, (_, i) => ({ key: `n${i}`, owner: 'o', leaseMs: 60_000 }));
      for (const grant of grants) await provider.acquire(grant);
      const answers = await provider.renewMany(grants.map((grant) => ({ ...grant, token: 1 })));
      expect(new Set(answers)).toEqual(new Set(['ok']));
      if ((await provider.abilities()).inspect)
        expect((await provider.inspect({})).length).toBeGreaterThan(20);
    } finally {
      await provider.close?.();
    }
  });

  test('GLIDE can not list the keys of a cluster, says so, and reads single keys', async () => {
    const provider = await openRedis('Valkey GLIDE', url, { cluster: true });
    try {
      expect(await provider.abilities()).toMatchObject({ inspect: false });
      await expect(provider.inspect({})).rejects.toMatchObject({
        code: 'OPTIONS',
        message: expect.stringContaining('Name the key'),
      });
      expect(await provider.purge({ idleMs: 0 })).toBe(0);
    } finally {
      await provider.close?.();
    }
  });
});

for (const client of ['ioredis 5', 'node-redis 6']) {
  describeWithOwnRedis(`${client}, in a cluster: keeps the contract`, () => {
    const url = new Promise<string>((resolve) => {
      beforeAll(async () => resolve((await OwnRedis.cluster()).url));
    });
    keepsTheContract({ client, url, cluster: true, everything: false });
  });
}
