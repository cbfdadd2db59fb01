import type { LockProvider } from 'joblatch';
import { type Need, providerContract } from 'joblatch/testing';
import { afterAll, expect, test } from 'vitest';
import { CLIENTS, moduleUrl, openRedis } from '../support/redis-clients.js';
import { describeWithRedis } from '../support/redis-servers.ts';
import { redis } from '../support/resp.js';
import { TcpProxy } from '../support/tcp-proxy.ts';

/**
 * What is asked of other kinds of stores: one without slots; a clock that the test drives, or one of which a
 * client would know (redis-clock.test.ts moves that of the whole process); somebody's lock on a record.
 */
const NOT_FOR_REDIS: readonly Need[] = ['noSlots', 'clock', 'openSkewed', 'obstruct'];

for (const client of Object.keys(CLIENTS)) {
  describeWithRedis(`${client}: the Redis provider keeps the contract`, (url) => {
    const proxies: TcpProxy[] = [];
    afterAll(() => Promise.all(proxies.map((proxy) => proxy.cut())));
    // The last one opened leads through the last proxy: each case opens its clients anew.
    const open = async (): Promise<LockProvider> => {
      const proxy = proxies[0] ?? (await TcpProxy.to(url));
      if (proxies.length === 0) proxies.push(proxy);
      return openRedis(client, proxy.url);
    };
    const contract = providerContract({
      open,
      moduleUrl: moduleUrl(client, url),
      interrupt: async () => {
        await proxies[0]?.cut();
        return () => proxies[0]?.restore();
      },
      deleteRecord: async (key) => {
        await redis(url, 'DEL', `job-lock:default:${key}`);
        for (const record of (await redis(url, 'KEYS', 'job-lock-record:default:*')) as string[])
          if (record.startsWith(`job-lock-record:default:${key}`)) await redis(url, 'DEL', record);
      },
      // What ShedLock leaves of a lock is nothing; but a record that is not as we write it may be there.
      writeOldRecord: async (key) => {
        await redis(
          url,
          'SET',
          `job-lock:default:${key}`,
          'ADDED:2026-01-01T00:00:00.000Z@host:uuid',
          'PX',
          1,
        );
        await redis(url, 'SET', `job-lock-record:default:${key}`, '17', 'PX', 60_000);
        while ((await redis(url, 'EXISTS', `job-lock:default:${key}`)) === 1);
      },
    }).filter(({ needs }) => !NOT_FOR_REDIS.some((need) => needs.includes(need)));

    for (const { name, run } of contract) {
      test(name, async () => {
        expect((await run()).skip).toBeUndefined();
      });
    }
  });
}
