import { setTimeout as sleep } from 'node:timers/promises';
import type { AcquireResult, LockProvider } from 'joblatch';
import { beforeAll, describe, expect, test } from 'vitest';
// The rule for keys is internal; where a key lives decides what is tested here.
import { KeySpace } from '../../dist/providers/redis/keys.js';
import { CLIENTS, openRedis } from '../support/redis-clients.js';
import { noRedisNodes, RedisNodes } from '../support/redis-nodes.ts';
import { describeWithOwnRedis } from '../support/redis-servers.ts';
import { playsTheStory } from '../support/redis-story.ts';
import { redis } from '../support/resp.js';

const MINUTE = 60_000;
/** A call that the cluster can not answer at present may take this long. */
const TIMEOUT_MS = 1_500;
const names = Object.keys(CLIENTS);

/** In which of three even shares of the 16,384 hash slots. */
const shareOf = (slot: number): number => Math.floor((slot * 3) / 16_384);

async function withProvider(
  name: string,
  url: string,
  environment: string,
  use: (provider: LockProvider) => Promise<void>,
): Promise<void> {
  const provider = await openRedis(name, url, { cluster: true, environment, timeoutMs: TIMEOUT_MS });
  try {
    await use(provider);
  } finally {
    await provider.close?.();
  }
}

/** What came of an attempt: a grant, a refusal, or a failure of the store. Anything else is a fault. */
async function attempt(
  provider: LockProvider,
  key: string,
  owner: string,
): Promise<AcquireResult | 'failed'> {
  try {
    return await provider.acquire({ key, owner, leaseMs: MINUTE });
  } catch (error) {
    expect(error).toMatchObject({ code: 'STORE', message: expect.stringContaining('failed on Redis: ') });
    return 'failed';
  }
}

describeWithOwnRedis(
  'a cluster of three nodes',
  () => {
    let cluster: RedisNodes;
    beforeAll(async () => {
      cluster = await RedisNodes.start();
    });

    test.each(names)('%s: every verb, over all nodes', async (name) => {
      const environment = `nodes-${name.replaceAll(/\W/g, '-')}`;
      await withProvider(name, cluster.url, environment, async (provider) => {
        await playsTheStory(provider);
        const keys = new KeySpace('', { keyPrefix: 'job-lock', environment });
        const grants = Array.from({ length: 300 }, (_, i) => ({
          key: `n${i}{}`,
          owner: 'o',
          leaseMs: MINUTE,
        }));
        const shares = new Set(grants.map(({ key }) => shareOf(keys.keysOf(key).hashSlot)));
        expect([...shares].sort()).toEqual([0, 1, 2]);
        const oncePerMs = 31 * 24 * 60 * MINUTE;
        const taken = await Promise.all(grants.map((grant) => provider.acquire({ ...grant, oncePerMs })));
        expect(taken.every(({ ok }) => ok)).toBe(true);
        const renewals = grants.map((grant) => ({ ...grant, token: 1 }));
        const foreign = { ...(renewals[0] as (typeof renewals)[0]), owner: 'other' };
        const answers = await provider.renewMany([...renewals, foreign]);
        expect(new Set(answers.slice(0, -1))).toEqual(new Set(['ok']));
        expect(answers.at(-1)).toBe('lost');
        if ((await provider.abilities()).inspect) {
          const listed = (await provider.inspect({})).map(({ key }) => key);
          expect(listed).toEqual(expect.arrayContaining(grants.map(({ key }) => key)));
        }
        const released = await Promise.all(grants.map((grant) => provider.release(grant)));
        expect(released.every(Boolean)).toBe(true);
        // Their slots are taken for all of the month.
        const late = await Promise.all(grants.map((grant) => provider.acquire({ ...grant, oncePerMs })));
        expect(late.every((one) => !one.ok && one.reason === 'slot')).toBe(true);
      });
    });

    describe.each(names)('%s: a hash slot on its way to another node', (name) => {
      test('nobody is let in beside the holder at any step, and tokens grow', async () => {
        const environment = `move-${name.replaceAll(/\W/g, '-')}`;
        const keys = new KeySpace('', { keyPrefix: 'job-lock', environment });
        const { lock, record, hashSlot } = keys.keysOf('moved');
        await withProvider(name, cluster.url, environment, async (provider) => {
          const holder = { key: 'moved', owner: 'holder', leaseMs: MINUTE };
          const first = await provider.acquire(holder);
          if (!first.ok) throw new Error('it was free');
          const renew = async () =>
            (await provider.renewMany([{ ...holder, token: first.token }]).catch(() => ['failed']))[0];
          const other = () => attempt(provider, 'moved', 'other');

          const move = await cluster.move(hashSlot);
          await move.begin();
          // Both keys are still there.
          expect(await renew()).toBe('ok');
          expect(await other()).toMatchObject({ ok: false, reason: 'held' });

          // TRYAGAIN: no node has both.
          await move.moveKey(lock);
          expect(await redis(move.from.url, 'EVAL', 'return 1', 2, lock, record)).toMatchObject({
            message: expect.stringMatching(/^TRYAGAIN/),
          });
          expect(await other()).not.toMatchObject({ ok: true });
          expect(['failed', 'unknown']).toContain(await renew());

          // ASK: the other node has both, but not yet the slot.
          await move.moveKey(record);
          expect(await other()).not.toMatchObject({ ok: true });
          expect(await renew()).not.toBe('lost');

          // MOVED: what the client knows of the cluster is no longer so.
          await move.end();
          expect(await eventually(other, (result) => result !== 'failed')).toMatchObject({ reason: 'held' });
          expect(await eventually(renew, (result) => result !== 'failed')).toBe('ok');
          expect(await provider.release(holder)).toBe(true);
          const next = await other();
          expect(next).toMatchObject({ ok: true });
          if (next !== 'failed' && next.ok) expect(next.token).toBeGreaterThan(first.token);
        });
      });

      test('six contend while the slot goes round: never two at a time', async () => {
        // A hash tag in the prefix: all keys are in one slot.
        const environment = `round-${name.replaceAll(/\W/g, '-')}`;
        const open = () =>
          openRedis(name, cluster.url, {
            cluster: true,
            environment,
            keyPrefix: '{round}',
            timeoutMs: TIMEOUT_MS,
          });
        const providers = await Promise.all([open(), open()]);
        const { hashSlot } = new KeySpace('', { keyPrefix: '{round}', environment }).keysOf('a');
        const tally = new Map<string, { holder: string | undefined; token: number; runs: number }>();
        for (const key of ['a', 'b']) tally.set(key, { holder: undefined, token: 0, runs: 0 });
        let over = false;
        let failures = 0;

        const contend = async (provider: LockProvider, key: string, id: string): Promise<void> => {
          const seen = tally.get(key) as { holder: string | undefined; token: number; runs: number };
          for (let i = 0; !over; i += 1) {
            const owner = `${id}:${i}`;
            const result = await attempt(provider, key, owner);
            if (result === 'failed') failures += 1;
            if (result === 'failed' || !result.ok) {
              // A grant whose answer was lost is given back, as the client of locks does it.
              if (result === 'failed') await giveBack(provider, key, owner);
              await sleep(Math.random() * 20);
              continue;
            }
            expect(seen.holder).toBeUndefined();
            seen.holder = owner;
            expect(result.token).toBeGreaterThan(seen.token);
            seen.token = result.token;
            await sleep(5);
            seen.runs += 1;
            seen.holder = undefined;
            await giveBack(provider, key, owner);
          }
        };
        try {
          const contenders = providers.flatMap((provider, p) =>
            ['a', 'b', 'a'].map((key, n) => contend(provider, key, `${p}.${n}`)),
          );
          const all = Promise.all(contenders);
          all.catch(() => {});
          for (let turn = 0; turn < 4; turn += 1) {
            const move = await cluster.move(hashSlot);
            await move.begin();
            for (const key of await move.keys()) {
              await move.moveKey(key);
              await sleep(30);
            }
            // What was made meanwhile.
            for (let rest = await move.keys(); rest.length > 0; rest = await move.keys())
              for (const key of rest) await move.moveKey(key);
            await move.end();
            const before = [...tally.values()].map(({ runs }) => runs);
            await eventually(
              async () => [...tally.values()].every(({ runs }, i) => runs > (before[i] as number) + 2),
              Boolean,
            );
          }
          over = true;
          await all;
          for (const { runs } of tally.values()) expect(runs).toBeGreaterThan(10);
          expect(failures).toBeLessThan(1_000);
        } finally {
          over = true;
          await Promise.all(providers.map((provider) => provider.close?.()));
        }
      });
    });
  },
  noRedisNodes,
);

/** Until the store has said whether there was something. */
async function giveBack(provider: LockProvider, key: string, owner: string): Promise<void> {
  await eventually(
    () =>
      provider
        .release({ key, owner })
        .then(Boolean)
        .catch(() => 'failed'),
    (result) => result !== 'failed',
  );
}

async function eventually<T>(attempt: () => Promise<T>, good: (result: T) => boolean): Promise<T> {
  for (const deadline = performance.now() + 15_000; ; await sleep(50)) {
    const result = await attempt();
    if (good(result) || performance.now() > deadline) return result;
  }
}
