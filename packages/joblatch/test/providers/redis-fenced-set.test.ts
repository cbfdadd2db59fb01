import { createLocks } from 'joblatch';
import { fencedSet, type RedisClient, redisProvider } from 'joblatch/redis';
import { beforeAll, describe, expect, test } from 'vitest';
import { CLIENTS, type OpenedClient, VARIANTS } from '../support/redis-clients.js';
import { describeWithOwnRedis, describeWithRedis, OwnRedis } from '../support/redis-servers.ts';
import { redis } from '../support/resp.js';

const TOKEN = 1_796_000_000_000_000;
const MONTH_MS = 31 * 86_400_000;
const everyKind = { ...CLIENTS, ...VARIANTS };

let keys = 0;
function freshKey(): string {
  keys += 1;
  return `fenced-${process.pid}-${keys}`;
}

async function withClient(
  name: string,
  url: string,
  use: (client: RedisClient & OpenedClient) => Promise<void>,
  cluster = false,
): Promise<void> {
  const kind = everyKind[name];
  if (kind === undefined) throw new Error(`no client ${name}`);
  const client = await (cluster ? kind.openCluster(url) : kind.open(url));
  try {
    await use(client);
  } finally {
    await kind.close(client);
  }
}

const prefixOf = (name: string): string => {
  if (name.includes('hash tag')) return '{app}:';
  if (name.includes('glob')) return 'a*[p]?\\p^-:';
  if (name.includes('auto-pipelining') && name.startsWith('ioredis 5')) return 'auto:';
  return name.includes('keyPrefix') ? 'app:' : '';
};

describeWithRedis('fencedSet', (url) => {
  test.each(Object.keys(everyKind))('%s: a smaller token does not write any more', async (name) => {
    await withClient(name, url, async (client) => {
      const key = freshKey();
      const stored = (): Promise<unknown> => redis(url, 'GET', prefixOf(name) + key);
      expect(await fencedSet(client, { key, value: 'a', token: TOKEN })).toBe(true);
      // The same holder writes again.
      expect(await fencedSet(client, { key, value: 'b', token: TOKEN })).toBe(true);
      expect(await fencedSet(client, { key, value: 'c', token: TOKEN + 1 })).toBe(true);
      expect(await fencedSet(client, { key, value: 'late', token: TOKEN })).toBe(false);
      expect(await stored()).toBe('c');
      expect(await fencedSet(client, { key, value: 'ü\0\n', token: TOKEN + 2 })).toBe(true);
      expect(await stored()).toBe('ü\0\n');
    });
  });

  test.each([
    [1, 2],
    [9, 10],
    [TOKEN, TOKEN + 1],
    [999_999_999_999_999, 1_000_000_000_000_000],
    [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER],
  ])('tokens are compared as numbers: %d < %d', async (less, more) => {
    await withClient('ioredis 6', url, async (client) => {
      const key = freshKey();
      expect(await fencedSet(client, { key, value: 'more', token: more })).toBe(true);
      expect(await fencedSet(client, { key, value: 'less', token: less })).toBe(false);
      expect(await fencedSet(client, { key, value: 'again', token: more })).toBe(true);
    });
  });

  test('the value lives as long as is said, the token for a month after the last write', async () => {
    await withClient('node-redis 6', url, async (client) => {
      const key = freshKey();
      const lives = async (): Promise<number[]> => {
        const [tokenKey] = (await redis(url, 'KEYS', `${key}:fence*`)) as string[];
        return [Number(await redis(url, 'PTTL', key)), Number(await redis(url, 'PTTL', tokenKey as string))];
      };
      const around = (found: number | undefined, wanted: number): void => {
        expect(found).toBeLessThanOrEqual(wanted);
        expect(found).toBeGreaterThan(wanted - 10_000);
      };
      await fencedSet(client, { key, value: 'a', token: 7 });
      const [forEver, month] = await lives();
      expect(forEver).toBe(-1);
      around(month, MONTH_MS);
      await fencedSet(client, { key, value: 'a', token: 7, ttl: '1m', tokenTtl: '1h' });
      const [minute, hour] = await lives();
      around(minute, 60_000);
      around(hour, 3_600_000);
      // The value is gone, and the token still keeps the late one out.
      await redis(url, 'DEL', key);
      expect(await fencedSet(client, { key, value: 'late', token: 6, ttl: '1m' })).toBe(false);
      expect(await redis(url, 'EXISTS', key)).toBe(0);
      // A value of another kind is replaced, as SET does.
      await redis(url, 'LPUSH', key, 'x');
      expect(await fencedSet(client, { key, value: 'text', token: 7 })).toBe(true);
      expect(await redis(url, 'GET', key)).toBe('text');
    });
  });

  test('a thousand writers at once: the greatest token has the last word, and no listener is left', async () => {
    await withClient('node-redis 6', url, async (one) => {
      await withClient('ioredis 6', url, async (other) => {
        const key = freshKey();
        const before = [one.listenerCount('error'), other.listenerCount('ready')];
        const tokens = Array.from({ length: 1_000 }, (_, i) => TOKEN + ((i * 617) % 1_000));
        const written = await Promise.all(
          tokens.map((token, i) =>
            fencedSet(i % 2 === 0 ? one : other, { key, value: String(token), token }),
          ),
        );
        expect(await redis(url, 'GET', key)).toBe(String(TOKEN + 999));
        expect(written.filter((yes) => !yes).length).toBeGreaterThan(0);
        expect([one.listenerCount('error'), other.listenerCount('ready')]).toEqual(before);
      });
    });
  });

  test('a holder that was paused until somebody else had the lock', async () => {
    await withClient('ioredis 6', url, async (client) => {
      const key = freshKey();
      const provider = redisProvider({ client, environment: key });
      const locks = createLocks({ provider });
      const paused = await locks.acquire('balance');
      await provider.forceRelease('balance');
      const next = await locks.acquire('balance');
      expect(await fencedSet(client, { key, value: 'next', token: next.token })).toBe(true);
      expect(await fencedSet(client, { key, value: 'paused', token: paused.token })).toBe(false);
      expect(await redis(url, 'GET', key)).toBe('next');
      await locks.close({ grace: 0 });
    });
  });

  test('something else where the token should be is told', async () => {
    await withClient('ioredis 6', url, async (client) => {
      const key = freshKey();
      await fencedSet(client, { key, value: 'a', token: 1 });
      const [tokenKey] = (await redis(url, 'KEYS', `${key}:fence*`)) as [string];
      for (const command of [
        ['SET', tokenKey, 'text'],
        ['LPUSH', tokenKey, '5'],
      ] as const) {
        await redis(url, 'DEL', tokenKey);
        await redis(url, ...command);
        await expect(fencedSet(client, { key, value: 'b', token: 2 })).rejects.toMatchObject({
          code: 'STORE',
          operation: 'fencedSet',
          key,
          message: expect.stringMatching(/:fence.*something else than a token/),
        });
      }
      expect(await redis(url, 'GET', key)).toBe('a');
    });
  });

  test('a client that is closed, a call that was given up', async () => {
    await withClient('ioredis 6', url, async (client) => {
      const key = freshKey();
      const gone = AbortSignal.abort();
      await expect(fencedSet(client, { key, value: 'a', token: 1, signal: gone })).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('gave up'),
      });
      CLIENTS['ioredis 6']?.close(client);
      await expect(fencedSet(client, { key, value: 'a', token: 1 })).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('closed'),
      });
      expect(await redis(url, 'EXISTS', key)).toBe(0);
    });
  });
});

describeWithOwnRedis('fencedSet in a cluster', () => {
  let url = '';
  beforeAll(async () => {
    ({ url } = await OwnRedis.cluster());
  });

  const names = [
    'plain',
    'ü',
    '{a}',
    'a{b}c',
    '{}',
    '{}{a}',
    '{',
    '}',
    '}{',
    '}{a',
    '{{a}}',
    '{a',
    'a}b',
    '~',
  ];

  test.each(Object.keys(CLIENTS))('%s: the token is in the hash slot of its key', async (name) => {
    await withClient(
      name,
      url,
      async (client) => {
        for (const key of names.map((odd) => `${odd}${freshKey()}`)) {
          expect(await fencedSet(client, { key, value: 'a', token: 2 })).toBe(true);
          expect(await fencedSet(client, { key, value: 'b', token: 1 })).toBe(false);
          expect(await redis(url, 'GET', key)).toBe('a');
        }
      },
      true,
    );
  });

  test('the tokens of different keys are apart', async () => {
    await withClient(
      'ioredis 6',
      url,
      async (client) => {
        await redis(url, 'FLUSHALL');
        for (const key of names) await fencedSet(client, { key, value: 'a', token: 2 });
        expect(await redis(url, 'DBSIZE')).toBe(names.length * 2);
      },
      true,
    );
  });
});

describe('options of fencedSet', () => {
  const client = { status: 'ready', evalsha: () => {}, eval: () => {}, on: () => {}, off: () => {} } as never;
  const right = { key: 'k', value: 'v', token: 1 };

  test.each([
    [client, undefined, /fencedSet takes an object of options/],
    [client, { ...right, fence: 1 }, /no option "fence"/],
    [client, { ...right, key: '' }, /key is ""/],
    [client, { ...right, key: 7 }, /key is 7/],
    [client, { ...right, value: 7 }, /value is 7/],
    [client, { ...right, token: 1.5 }, /token is 1\.5/],
    [client, { ...right, token: 0 }, /token is 0/],
    [client, { ...right, token: '1' }, /token is "1"/],
    [client, { ...right, ttl: 0 }, /fencedSet: ttl is 0/],
    [client, { ...right, tokenTtl: 'soon' }, /fencedSet: tokenTtl is "soon"/],
    [undefined, right, /fencedSet: client is undefined/],
    [{}, right, /fencedSet: client is an object without/],
  ])('%o, %o', async (given, options, message) => {
    await expect(fencedSet(given as never, options as never)).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringMatching(message),
    });
  });
});
