import { type ContractOptions, type Need, providerContract } from 'joblatch/testing';
import { afterAll, expect, test } from 'vitest';
import { moduleUrl, openRedis } from './redis-clients.js';
import { redis } from './resp.js';
import { TcpProxy } from './tcp-proxy.ts';

/**
 * What is asked of other kinds of stores: one without slots; a clock that the test drives, or one that a client
 * could be told (redis-clock.test.ts moves that of a whole process); somebody's lock on a record.
 */
const NOT_FOR_REDIS: readonly Need[] = ['noSlots', 'clock', 'openSkewed', 'obstruct', 'guard'];

/** Six verbs wait for it, one after the other, when the server is away. */
const AWAY_TIMEOUT_MS = 2_500;

interface Run {
  readonly client: string;
  /** A promise, if the server is started meanwhile; only without `everything`. */
  readonly url: string | Promise<string>;
  readonly cluster?: boolean;
  /** Several processes and a server that goes away: once for each version of a client. */
  readonly everything: boolean;
}

let runs = 0;

/** Every case of the contract as a test, in an environment of its own: purging reaches no further. */
export function keepsTheContract({ client, url, cluster = false, everything }: Run): void {
  const known = typeof url === 'string' ? url : '';
  runs += 1;
  const environment = `contract-${process.pid}-${runs}`;
  const options: ContractOptions = {
    open: async () => openRedis(client, await url, { environment, cluster }),
    ...(everything && {
      moduleUrl: moduleUrl(client, known, { environment, ...(cluster && { cluster: 'true' }) }),
    }),
  };
  const needless: readonly Need[] = [
    ...NOT_FOR_REDIS,
    'interrupt',
    ...(everything ? [] : (['moduleUrl', 'deleteRecord', 'writeOldRecord'] as const)),
  ];
  const cases = providerContract({ ...options, ...(everything && behindItsBack(known, environment)) }).filter(
    ({ needs }) => !needless.some((need) => needs.includes(need)),
  );
  if (everything && !cluster) cases.push(...whileItIsAway(client, known));
  for (const { name, run } of cases) {
    test(name, async () => {
      expect((await run()).skip).toBeUndefined();
    });
  }
}

/** For a client that puts no prefix in front of keys. */
function behindItsBack(url: string, environment: string): Partial<ContractOptions> {
  const lock = (key: string): string => `job-lock:${environment}:${key}`;
  const record = (key: string): string => `job-lock-record:${environment}:${key}`;
  return {
    deleteRecord: async (key) => {
      await redis(url, 'DEL', lock(key));
      // With or without what leads it to its hash slot.
      for (const found of (await redis(url, 'KEYS', `${record('*')}`)) as string[])
        if (found.startsWith(record(key))) await redis(url, 'DEL', found);
    },
    // What ShedLock leaves of a lock is nothing. That a record is not as we write it would be new, too.
    writeOldRecord: async (key) => {
      await redis(url, 'SET', lock(key), 'ADDED:2026-01-01T00:00:00.000Z@host:uuid', 'PX', 1);
      await redis(url, 'SET', record(key), '17', 'PX', 60_000);
      while ((await redis(url, 'EXISTS', lock(key))) === 1);
    },
  };
}

function whileItIsAway(client: string, url: string): ReturnType<typeof providerContract>[number][] {
  let proxy: TcpProxy | undefined;
  afterAll(() => proxy?.cut());
  return providerContract({
    open: async () => {
      proxy ??= await TcpProxy.to(url);
      return openRedis(client, proxy.url, { timeoutMs: AWAY_TIMEOUT_MS });
    },
    interrupt: async () => {
      await proxy?.cut();
      return () => proxy?.restore();
    },
  }).filter(({ needs }) => needs.includes('interrupt'));
}
