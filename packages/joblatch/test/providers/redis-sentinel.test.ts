import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type Lock, type Locks } from 'joblatch';
import { type RedisClient, redisProvider } from 'joblatch/redis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENTS, type TestClient } from '../support/redis-clients.js';
import { RedisSentinels } from '../support/redis-sentinels.ts';
import { describeWithOwnRedis, OwnRedis } from '../support/redis-servers.ts';
import { redis } from '../support/resp.js';

/** Longer than any fail-over here takes. */
const LEASE_MS = 20_000;
/** Shorter than the Sentinels wait for the old primary: an attempt then has nobody to go to. */
const STORE_TIMEOUT_MS = 400;
const SLACK_MS = 2_000;

const require = createRequire(new URL('../../../../drivers/', import.meta.url));

/** A client as an application would open it, told only where the Sentinels are. */
type Open = (fleet: RedisSentinels) => Promise<{ client: RedisClient; close(): unknown }>;

const ioredis =
  (library: string): Open =>
  async ({ sentinels, name }) => {
    const client = new (require(library).Redis)({
      sentinels: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
      name,
    });
    client.on('error', () => {});
    return { client, close: () => client.disconnect() };
  };

const nodeRedis =
  (library: string): Open =>
  async ({ sentinels, name }) => {
    const client = require(library).createSentinel({
      name,
      sentinelRootNodes: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
    });
    client.on('error', () => {});
    await client.connect();
    return { client, close: () => client.destroy() };
  };

/** node-redis 4 and Valkey GLIDE do not know Sentinel. */
const KINDS: readonly (readonly [string, Open])[] = [
  ['ioredis 5', ioredis('ioredis-5')],
  ['ioredis 6', ioredis('ioredis-6')],
  ['node-redis 5', nodeRedis('redis-5')],
  ['node-redis 6', nodeRedis('redis-6')],
];

/** What one client has seen of the fail-over that all of them go through. */
interface Member {
  readonly locks: Locks;
  readonly impatient: Locks;
  /** Held over the fail-over; the new primary knows it. */
  readonly kept: Lock;
  /** The new primary does not know it: the old one had answered before a replica had it. */
  readonly forgotten: Lock;
  /** What came of an attempt while there was no primary. */
  readonly attempt: { code: string; message: string; tookMs: number };
  /** When the holder of the forgotten lock was told, and how. */
  readonly loss: Promise<{ atMs: number; detectedBy: string }>;
}

describeWithOwnRedis('Sentinel replaces a primary that was killed', () => {
  let fleet: RedisSentinels;
  const members = new Map<string, Member>();
  const closing: (() => unknown)[] = [];
  let killedAt = 0;
  const member = (name: string): Member => members.get(name) as Member;

  beforeAll(async () => {
    fleet = await RedisSentinels.start();
    const opened = await Promise.all(
      KINDS.map(async ([name, open]) => {
        const { client, close } = await open(fleet);
        const provider = redisProvider({ client, environment: name.replace(' ', '-') });
        const locks = createLocks({ provider, watchdogLease: LEASE_MS });
        const impatient = createLocks({ provider, storeTimeout: STORE_TIMEOUT_MS });
        closing.push(async () => {
          await locks.close({ grace: 0 });
          await close();
        });
        const loss = new Promise<{ atMs: number; detectedBy: string }>((resolve) =>
          locks.on('lost', ({ key, detectedBy }) => {
            if (key === 'forgotten') resolve({ atMs: performance.now(), detectedBy });
          }),
        );
        const [kept, forgotten] = await Promise.all([locks.acquire('kept'), locks.acquire('forgotten')]);
        return { name, locks, impatient, kept, forgotten, loss };
      }),
    );
    expect(await redis(fleet.primary.url, 'WAIT', 2, 5_000)).toBe(2);
    await forgetOnReplicas(fleet);
    killedAt = performance.now();
    await fleet.primary.kill();
    await Promise.all(
      opened.map(async ({ name, ...rest }) => {
        const startedAt = performance.now();
        const error = await rest.impatient.tryAcquire('other').catch((e: unknown) => e);
        const { code, message } = error as { code: string; message: string };
        const attempt = { code, message, tookMs: performance.now() - startedAt };
        members.set(name, { ...rest, attempt });
      }),
    );
    await fleet.successor();
  }, 60_000);
  afterAll(() => Promise.all(closing.map((close) => close())));

  test.each(KINDS)('%s: an attempt meanwhile fails within the time of the store', (name) => {
    const { attempt } = member(name);
    expect(attempt).toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('Is it up and reachable'),
    });
    expect(attempt.tookMs).toBeLessThan(STORE_TIMEOUT_MS + SLACK_MS);
  });

  test.each(KINDS)(
    '%s: afterwards locks work, and what the new primary knows is still held',
    async (name) => {
      const { locks, kept } = member(name);
      const fresh = await eventually(() => locks.tryAcquire('fresh'));
      expect(await fresh?.release()).toBe(true);
      expect(await locks.tryAcquire('kept')).toBeUndefined();
      const token = kept.token;
      await kept.extend(LEASE_MS + 1);
      expect(kept.held).toBe(true);
      expect(await kept.release()).toBe(true);
      const next = await locks.tryAcquire('kept');
      expect(next?.token).toBeGreaterThan(token);
    },
  );

  test.each(KINDS)(
    '%s: a lock that it does not know can be had, with a greater token; its holder is told',
    async (name) => {
      const { locks, forgotten, loss } = member(name);
      const next = await eventually(() => locks.tryAcquire('forgotten'));
      expect(next?.token).toBeGreaterThan(forgotten.token);
      const { atMs, detectedBy } = await loss;
      expect(detectedBy).toBe('renewal');
      expect(forgotten.held).toBe(false);
      // At the first renewal that the new primary answered: long before its deadline.
      expect(atMs - killedAt).toBeLessThan(LEASE_MS);
      expect(next?.held).toBe(true);
    },
  );
});

/** As if the primary had died before it could pass them on. */
async function forgetOnReplicas({ replicas }: RedisSentinels): Promise<void> {
  for (const { url } of replicas) {
    await redis(url, 'CONFIG', 'SET', 'replica-read-only', 'no');
    const keys = (await redis(url, 'KEYS', 'job-lock*:forgotten*')) as string[];
    expect(keys).toHaveLength(KINDS.length * 2);
    for (const key of keys) await redis(url, 'DEL', key);
    await redis(url, 'CONFIG', 'SET', 'replica-read-only', 'yes');
  }
}

/** Clients find the new primary by themselves, each in its own time. */
async function eventually<T>(attempt: () => Promise<T>): Promise<T> {
  for (const deadline = performance.now() + LEASE_MS; ; await sleep(100)) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
  }
}

describeWithOwnRedis('a primary that becomes a replica under its clients', () => {
  test.each(Object.entries(CLIENTS))(
    '%s: says so, and the lock is not renewed for ever',
    async (_name, kind) => {
      const [server, other] = await Promise.all([OwnRedis.start(), OwnRedis.start()]);
      const client = await (kind as TestClient).open(server.url);
      const locks = createLocks({
        provider: redisProvider({ client }),
        watchdogLease: 1_500,
        storeTimeout: 1_000,
      });
      try {
        const lock = await locks.acquire('held');
        const lost = new Promise((resolve) => locks.on('lost', ({ detectedBy }) => resolve(detectedBy)));
        const errors: string[] = [];
        locks.on('error', ({ error }) => errors.push((error as Error).message));
        await redis(server.url, 'REPLICAOF', '127.0.0.1', other.port);
        const refused = await locks.tryAcquire('other').catch((error: unknown) => error);
        expect(refused).toMatchObject({
          code: 'STORE',
          message: expect.stringMatching(/READONLY|read only/i),
        });
        expect((refused as Error).message).toContain('The server is a replica. Give a client of the primary');
        // It may have forgotten the lock by now, as the other one has none.
        expect(await lost).toMatch(/^(renewal|deadline)$/);
        expect(lock.held).toBe(false);
      } finally {
        await locks.close({ grace: 0 }).catch(() => {});
        await (kind as TestClient).close(client);
      }
    },
  );
});
