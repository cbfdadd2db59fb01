import { redisProvider } from 'joblatch/redis';
import { describe, expect, test } from 'vitest';
import { CLIENTS, openRedis, VARIANTS } from '../support/redis-clients.js';
import { keepsTheContract } from '../support/redis-contract.ts';
import { describeWithRedis } from '../support/redis-servers.ts';
import { playsTheStory } from '../support/redis-story.ts';
import { redis } from '../support/resp.js';

let environments = 0;
function environment(): string {
  environments += 1;
  return `options-${process.pid}-${environments}`;
}

describeWithRedis('options of clients that change keys, answers or the order of things', (url) => {
  test.each(Object.keys(VARIANTS))('%s: every verb answers the same', async (name) => {
    const provider = await openRedis(name, url, { environment: environment() });
    try {
      await playsTheStory(provider);
    } finally {
      await provider.close?.();
    }
  });

  test.each(Object.keys(VARIANTS))(
    '%s: fifty first takers, one winner; a thousand renewals',
    async (name) => {
      const provider = await openRedis(name, url, { environment: environment() });
      try {
        const takers = Array.from({ length: 50 }, (_, i) =>
          provider.acquire({ key: 'race', owner: `o${i}`, leaseMs: 60_000, oncePerMs: 3_600_000 }),
        );
        const results = await Promise.all(takers);
        expect(results.filter(({ ok }) => ok)).toHaveLength(1);
        const grants = await Promise.all(
          Array.from({ length: 1_000 }, async (_, i) => {
            const grant = { key: `many-${i}`, owner: `o${i}`, leaseMs: 60_000 };
            const result = await provider.acquire(grant);
            return { ...grant, token: result.ok ? result.token : 0 };
          }),
        );
        expect(new Set(await provider.renewMany(grants))).toEqual(new Set(['ok']));
      } finally {
        await provider.close?.();
      }
    },
  );

  test.each([
    ['ioredis 5, keyPrefix', 'app:'],
    ['ioredis 5, keyPrefix with a hash tag', '{app}:'],
    ['ioredis 6, keyPrefix of glob characters', 'a*[p]?\\p^-:'],
    ['node-redis 6, keyPrefix', 'app:'],
  ])('%s: the lock is at that prefix, and is not seen without it', async (name, prefix) => {
    const options = { keyPrefix: 'p[r]e*fix', environment: environment() };
    const provider = await openRedis(name, url, options);
    const plain = await openRedis('ioredis 5', url, options);
    try {
      await provider.acquire({ key: 'k', owner: 'o', leaseMs: 60_000 });
      const key = `${prefix}${options.keyPrefix}:${options.environment}:k`;
      expect(await redis(url, 'GET', key)).toBe('o');
      expect(await plain.inspect({})).toEqual([]);
      expect(await provider.inspect({})).toMatchObject([{ key: 'k', state: 'held' }]);
    } finally {
      await provider.close?.();
      await plain.close?.();
    }
  });
});

for (const client of ['ioredis 6, auto-pipelining', 'node-redis 6, type mapping']) {
  describeWithRedis(`${client}: keeps the contract`, (url) => {
    keepsTheContract({ client, url, everything: false });
  });
}

describe('options of the provider', () => {
  const client = { status: 'ready', evalsha: () => {}, eval: () => {}, on: () => {}, off: () => {} } as never;

  test.each([
    [undefined, /takes an object of options/],
    [{}, /client is undefined/],
    [{ client: null }, /client is null/],
    [{ client: {} }, /an object without evalsha, evalSha or customCommand/],
    [{ client: 'redis://user:secret@host' }, /client is string\. Accepted: a client of ioredis/],
    [{ client, keyprefix: 'x' }, /no option "keyprefix"/],
    [{ client, keyPrefix: '' }, /keyPrefix is ""/],
    [{ client, keyPrefix: 'a{b' }, /keyPrefix is "a\{b"\. Accepted: a hash tag that is closed/],
    [{ client, environment: '{x}' }, /environment is "\{x\}"/],
    [{ client, environment: 7 }, /environment is 7/],
    [{ client, timeoutMs: 0 }, /timeoutMs is 0/],
    [{ client, timeoutMs: Number.NaN }, /timeoutMs is NaN/],
    [{ client, replicas: { count: 0, timeoutMs: 1 } }, /replicas is \{"count":0,"timeoutMs":1\}/],
    [
      { client: { ...(client as object), isCluster: true }, replicas: { count: 1, timeoutMs: 1 } },
      /one connection/,
    ],
  ])('%o is refused where it is made', (options, message) => {
    const make = (): unknown => redisProvider(options as never);
    expect(make).toThrow(
      expect.objectContaining({ code: 'OPTIONS', message: expect.stringMatching(message) }),
    );
    expect(make).not.toThrow('secret');
  });

  test('nothing is asked of the client before first use', () => {
    const provider = redisProvider({ client });
    expect(provider.name).toBe('redis');
  });

  test('every client of the tests is one that is said to be supported', () => {
    expect(Object.keys(CLIENTS)).toHaveLength(6);
  });
});
