import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { createLocks, type LockProvider } from 'joblatch';
import { type RedisClient, redisProvider } from 'joblatch/redis';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { CLIENTS, type OpenedClient, openRedis, type TestClient } from '../support/redis-clients.js';
import { describeWithOwnRedis, OwnRedis } from '../support/redis-servers.ts';
import { redis } from '../support/resp.js';
import { TcpProxy } from '../support/tcp-proxy.ts';

const MINUTE = 60_000;
const JAVA = 'ADDED:2026-01-01T00:00:00.000Z@host:0b9d';
const kinds = Object.entries(CLIENTS);
/** Those that say whether they are connected. */
const telling = kinds.filter(([name]) => !name.includes('GLIDE'));

const undo: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function client(kind: TestClient, url: string, options?: object): Promise<RedisClient & OpenedClient> {
  const opened = await kind.open(url, options);
  undo.push(() => kind.close(opened));
  return opened;
}

function provider(options: Parameters<typeof redisProvider>[0]): LockProvider {
  const made = redisProvider(options);
  undo.push(() => made.close?.());
  return made;
}

async function proxyTo(url: string): Promise<TcpProxy> {
  const proxy = await TcpProxy.to(url);
  undo.push(() => proxy.cut());
  return proxy;
}

let keys = 0;
function freshKey(): string {
  keys += 1;
  return `trouble-${process.pid}-${keys}`;
}

describeWithOwnRedis('a server', () => {
  let server: OwnRedis;
  let url = '';
  const ask = (...words: (string | number)[]) => redis(url, ...words);
  const lockOf = (key: string) => `job-lock:default:${key}`;
  const recordOf = async (key: string): Promise<string> =>
    ((await ask('KEYS', `job-lock-record:default:${key}~*`)) as string[])[0] ?? '';
  beforeAll(async () => {
    server = await OwnRedis.start();
    ({ url } = server);
  });

  test.each(kinds)('%s: SCRIPT FLUSH before every call', async (_name, kind) => {
    const locks = provider({ client: await client(kind, url) });
    const grant = { key: freshKey(), owner: 'o', leaseMs: MINUTE };
    const flush = () => ask('SCRIPT', 'FLUSH');
    await flush();
    expect(await locks.acquire(grant)).toMatchObject({ ok: true });
    await flush();
    expect(await locks.renewMany([{ ...grant, token: 1 }])).toEqual(['ok']);
    await flush();
    expect(await locks.inspect({})).toContainEqual(expect.objectContaining({ key: grant.key }));
    await flush();
    expect(await locks.release(grant)).toBe(true);
    await flush();
    expect(await locks.purge({ idleMs: 0 })).toBeGreaterThanOrEqual(0);
  });

  test('a losing attempt is one command and writes nothing', async () => {
    const locks = provider({ client: await client(CLIENTS['ioredis 5'] as TestClient, url) });
    const key = freshKey();
    const slot = Math.floor(Date.now() / 1000) * 1000;
    await locks.acquire({ key, owner: 'holder', leaseMs: MINUTE, slot });
    // The same in each: what is asked behind the provider's back counts too.
    const seen = async () => {
      const dirty = /rdb_changes_since_last_save:(\d+)/.exec(String(await ask('INFO', 'persistence')))?.[1];
      const stats = String(await ask('INFO', 'commandstats'));
      const calls = (name: string) =>
        Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
      return {
        dirty,
        evalsha: calls('evalsha'),
        eval: calls('eval'),
        set: calls('set'),
        pexpire: calls('pexpire'),
        get: calls('get'),
      };
    };
    const before = await seen();
    for (let i = 0; i < 10; i += 1) {
      expect(await locks.acquire({ key, owner: `o${i}`, leaseMs: MINUTE })).toMatchObject({ reason: 'held' });
    }
    expect(await seen()).toEqual({ ...before, evalsha: before.evalsha + 10, get: before.get + 10 });
    for (let i = 0; i < 10; i += 1) {
      expect(await locks.acquire({ key, owner: `o${i}`, leaseMs: MINUTE, slot })).toMatchObject({
        reason: 'slot',
      });
    }
    expect(await seen()).toEqual({ ...before, evalsha: before.evalsha + 20, get: before.get + 30 });
  });

  test('records expire: a day after the end, or when the slot can not be asked for any more', async () => {
    const locks = provider({ client: await client(CLIENTS['ioredis 5'] as TestClient, url) });
    const [plain, slotted, raised] = [freshKey(), freshKey(), freshKey()];
    const ttl = async (key: string) => Number(await ask('PTTL', await recordOf(key)));
    const day = 24 * 60 * MINUTE;
    const grant = { owner: 'o', leaseMs: 10 * MINUTE };
    const near = (ms: number) => [ms - MINUTE / 2, ms + MINUTE / 2] as const;
    const expectNear = async (key: string, ms: number) => {
      const found = await ttl(key);
      expect(found).toBeGreaterThan(near(ms)[0]);
      expect(found).toBeLessThan(near(ms)[1]);
    };
    const result = await locks.acquire({ ...grant, key: plain });
    await expectNear(plain, day + 10 * MINUTE);
    await locks.renewMany([{ ...grant, key: plain, token: 1, leaseMs: 60 * MINUTE }]);
    await expectNear(plain, day + 60 * MINUTE);
    await locks.release({ ...grant, key: plain });
    await expectNear(plain, day);

    const slot = Math.floor(Date.now() / 1000) * 1000;
    await locks.acquire({ ...grant, key: slotted, slot });
    await locks.release({ ...grant, key: slotted });
    await expectNear(slotted, 31 * day + MINUTE);

    // Three days ahead of the clock: until then, and a day more.
    const minToken = (result.ok ? result.token : 0) + 3 * day * 1_000;
    await locks.acquire({ ...grant, key: raised, minToken });
    await locks.release({ ...grant, key: raised });
    await expectNear(raised, 4 * day);
  });

  test('FLUSHALL and a deleted key: the holder has lost, the key is free, tokens grow', async () => {
    const locks = provider({ client: await client(CLIENTS['ioredis 6'] as TestClient, url) });
    const key = freshKey();
    let last = 0;
    for (const wipe of [
      () => ask('FLUSHALL'),
      () => ask('DEL', lockOf(key)),
      async () => ask('DEL', lockOf(key), await recordOf(key)),
    ]) {
      const result = await locks.acquire({ key, owner: 'o', leaseMs: MINUTE });
      expect(result.ok && result.token).toBeGreaterThan(last);
      last = result.ok ? result.token : 0;
      await wipe();
      expect(await locks.renewMany([{ key, owner: 'o', token: last, leaseMs: MINUTE }])).toEqual(['lost']);
      expect(await locks.release({ key, owner: 'o' })).toBe(false);
    }
  });

  test('a record that is lost while the lock is held is written again by the renewal, with its token', async () => {
    const locks = provider({ client: await client(CLIENTS['ioredis 5'] as TestClient, url) });
    const key = freshKey();
    const result = await locks.acquire({ key, owner: 'o', leaseMs: MINUTE });
    const token = result.ok ? result.token : 0;
    await ask('DEL', await recordOf(key));
    expect(await locks.renewMany([{ key, owner: 'o', token, leaseMs: MINUTE }])).toEqual(['ok']);
    expect(await locks.inspect({ key })).toMatchObject([{ state: 'held', owner: 'o', token }]);
  });

  describe('a Java process in the same fleet', () => {
    test('its lock refuses us, is shown, and can not be renewed or released by us', async () => {
      const locks = provider({ client: await client(CLIENTS['node-redis 5'] as TestClient, url) });
      const key = freshKey();
      expect(await ask('SET', lockOf(key), JAVA, 'NX', 'PX', MINUTE)).toBe('OK');
      const refused = await locks.acquire({ key, owner: 'o', leaseMs: MINUTE });
      expect(refused).toEqual({ ok: false, reason: 'held', leftMs: expect.any(Number) });
      expect(await locks.inspect({ key })).toEqual([
        { key, state: 'held', owner: JAVA, leftMs: expect.any(Number) },
      ]);
      expect(await locks.renewMany([{ key, owner: 'o', token: 1, leaseMs: MINUTE }])).toEqual(['lost']);
      expect(await locks.release({ key, owner: 'o' })).toBe(false);
      expect(await ask('GET', lockOf(key))).toBe(JAVA);
      await ask('DEL', lockOf(key));
      expect(await locks.acquire({ key, owner: 'o', leaseMs: MINUTE })).toMatchObject({ ok: true });
    });

    test('our lock and our kept record refuse it; it takes over when they have ended', async () => {
      const locks = provider({ client: await client(CLIENTS['ioredis 5'] as TestClient, url) });
      const key = freshKey();
      const java = () => ask('SET', lockOf(key), JAVA, 'NX', 'PX', MINUTE);
      await locks.acquire({ key, owner: 'o', leaseMs: MINUTE });
      expect(await java()).toBeNull();
      await locks.release({ key, owner: 'o', keepMs: 300 });
      expect(await java()).toBeNull();
      await sleep(350);
      expect(await java()).toBe('OK');
      // Late for everything of ours.
      expect(await locks.release({ key, owner: 'o' })).toBe(false);
      expect(await ask('GET', lockOf(key))).toBe(JAVA);
      expect(await locks.forceRelease(key)).toBe(true);
    });

    test('a lock that somebody made to last for ever is held, and is freed by force', async () => {
      const locks = provider({ client: await client(CLIENTS['ioredis 5'] as TestClient, url) });
      const key = freshKey();
      await ask('SET', lockOf(key), 'x');
      expect(await locks.acquire({ key, owner: 'o', leaseMs: 1 })).toEqual({ ok: false, reason: 'held' });
      expect(await locks.inspect({ key })).toMatchObject([
        { state: 'held', leftMs: Number.MAX_SAFE_INTEGER },
      ]);
      expect(await locks.forceRelease(key)).toBe(true);
    });
  });

  test.each(kinds)('%s: a key of another kind is an error that names it', async (_name, kind) => {
    const locks = provider({ client: await client(kind, url) });
    const [wrong, fine] = [freshKey(), freshKey()];
    await ask('RPUSH', lockOf(wrong), 'x');
    const expected = {
      code: 'STORE',
      message: expect.stringMatching(
        new RegExp(`"job-lock:default:${wrong}" holds a list, not a lock\\. Remove it`),
      ),
    };
    await expect(locks.acquire({ key: wrong, owner: 'o', leaseMs: 1 })).rejects.toMatchObject(expected);
    await expect(locks.release({ key: wrong, owner: 'o' })).rejects.toMatchObject(expected);
    await expect(locks.forceRelease(wrong)).rejects.toMatchObject(expected);
    await locks.acquire({ key: fine, owner: 'o', leaseMs: MINUTE });
    const grants = [wrong, fine].map((key) => ({ key, owner: 'o', token: 1, leaseMs: MINUTE }));
    expect(await locks.renewMany(grants)).toEqual(['lost', 'ok']);
    await locks.inspect({});
    expect(await ask('LLEN', lockOf(wrong))).toBe(1);
    await ask('DEL', lockOf(wrong));
  });

  test('ten thousand grants are renewed by one call', async () => {
    for (const name of ['ioredis 5', 'node-redis 6', 'Valkey GLIDE']) {
      const locks = provider({ client: await client(CLIENTS[name] as TestClient, url) });
      const grants = Array.from({ length: 10_000 }, (_, i) => ({
        key: `${name}${i}`,
        owner: 'o',
        leaseMs: MINUTE,
        token: 1,
      }));
      for (let at = 0; at < grants.length; at += 500)
        await Promise.all(grants.slice(at, at + 500).map((grant) => locks.acquire(grant)));
      await locks.release({ key: `${name}77`, owner: 'o' });
      const answers = await locks.renewMany(grants);
      expect(answers.filter((answer) => answer === 'ok')).toHaveLength(9_999);
      expect(answers[77]).toBe('lost');
    }
    await ask('FLUSHALL');
  }, 120_000);

  test('what could not be asked is unknown, what could is answered; if nothing could, it is an error', async () => {
    const opened = await client(CLIENTS['ioredis 5'] as TestClient, url);
    const broken = { value: 0 };
    const sometimes = new Proxy(opened, {
      get(target, name) {
        const found = Reflect.get(target, name) as unknown;
        if (name !== 'evalsha' || broken.value === 0)
          return typeof found === 'function' ? found.bind(target) : found;
        broken.value -= 1;
        return () => Promise.reject(new Error('CLUSTERDOWN Hash slot not served'));
      },
    });
    const locks = provider({ client: sometimes });
    const grants = Array.from({ length: 600 }, (_, i) => ({
      key: `u${i}`,
      owner: 'o',
      leaseMs: MINUTE,
      token: 1,
    }));
    await Promise.all(grants.map((grant) => locks.acquire(grant)));
    broken.value = 1;
    const answers = await locks.renewMany(grants);
    expect(answers.slice(0, 500).every((answer) => answer === 'unknown')).toBe(true);
    expect(answers.slice(500).every((answer) => answer === 'ok')).toBe(true);
    broken.value = 2;
    await expect(locks.renewMany(grants)).rejects.toMatchObject({
      code: 'STORE',
      operation: 'renew',
      message: expect.stringContaining('some hash slots are not served'),
    });
  });

  test.each(telling)(
    '%s: the answer is lost with the connection: granted once, given back once',
    async (name, kind) => {
      const proxy = await proxyTo(url);
      const locks = provider({ client: await client(kind, proxy.url), timeoutMs: 3_000 });
      // The server has the scripts from now on: it is the answer to the call itself that gets lost.
      const warm = { key: freshKey(), owner: 'o', leaseMs: MINUTE };
      await locks.acquire(warm);
      await locks.release(warm);
      const key = freshKey();
      const slot = Math.floor(Date.now() / 1000) * 1000;
      let lost = 0;
      const loseAnswerTo = (call: string) => {
        proxy.onRequest = (data) => {
          if (data.includes(call)) {
            proxy.onAnswer = () => {
              lost += 1;
              proxy.onAnswer = () => true;
              proxy.breakConnections();
              return false;
            };
            proxy.onRequest = () => true;
          }
          return true;
        };
      };
      loseAnswerTo(key);
      const result = await locks
        .acquire({ key, owner: 'o', leaseMs: MINUTE, slot })
        .catch((error: unknown) => error);
      expect(lost).toBe(1);
      // ioredis sends it again, and it is the same call; node-redis says that it does not know.
      if (name.startsWith('ioredis')) expect(result).toMatchObject({ ok: true, slot });
      else expect(result).toMatchObject({ code: 'STORE', operation: 'acquire' });
      expect(await ask('GET', lockOf(key))).toBe('o');
      loseAnswerTo(key);
      const released = await locks.release({ key, owner: 'o' }).catch((error: unknown) => error);
      expect(lost).toBe(2);
      if (name.startsWith('ioredis')) expect(released).toBe(true);
      else expect(released).toMatchObject({ code: 'STORE' });
      expect(await ask('EXISTS', lockOf(key))).toBe(0);
      expect(await locks.release({ key, owner: 'o' })).toBe(false);
    },
  );

  test.each(telling)('%s: what is asked while it is away is not done later', async (_name, kind) => {
    const proxy = await proxyTo(url);
    const errors: Error[] = [];
    const opened = await client(kind, proxy.url);
    const locks = provider({ client: opened, timeoutMs: 1_500, onError: (error) => errors.push(error) });
    const [key, aborted] = [freshKey(), freshKey()];
    await locks.inspect({ key });
    await proxy.cut();
    await sleep(50);
    await expect(locks.acquire({ key, owner: 'o', leaseMs: MINUTE })).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringMatching(/no answer within \d+ ms|ECONNREFUSED|closed/i),
    });
    const signal = AbortSignal.timeout(100);
    await expect(
      locks.acquire({ key: aborted, owner: 'o', leaseMs: MINUTE }, { signal }),
    ).rejects.toMatchObject({ code: 'STORE' });
    await proxy.restore();
    const waited = await locks.acquire(
      { key: freshKey(), owner: 'o', leaseMs: MINUTE },
      { signal: AbortSignal.timeout(10_000) },
    );
    expect(waited.ok).toBe(true);
    expect(await ask('EXISTS', lockOf(key), lockOf(aborted))).toBe(0);
    expect(errors.length).toBeGreaterThan(0);
    expect(inspect(errors, { depth: 9 })).not.toContain('password');
  });

  test.each(kinds)('%s: a grant that comes after its caller has gone is given back', async (_name, kind) => {
    const locks = createLocks({
      provider: redisProvider({ client: await client(kind, url) }),
      storeTimeout: 1_500,
    });
    const key = freshKey();
    await (await locks.tryAcquire(freshKey()))?.release();
    await ask('CLIENT', 'PAUSE', 2_500, 'WRITE');
    await expect(locks.tryAcquire(key)).rejects.toMatchObject({ code: 'STORE' });
    const deadline = Date.now() + 15_000;
    await sleep(2_600);
    // It was granted, by a command that nothing could call back.
    while ((await ask('EXISTS', lockOf(key))) === 1 && Date.now() < deadline) await sleep(50);
    expect(await ask('EXISTS', lockOf(key))).toBe(0);
    expect(await recordOf(key)).not.toBe('');
    await locks.close();
  });

  test.each(telling)(
    '%s: its errors do not end the process; the listeners go with the provider',
    async (_name, kind) => {
      const proxy = await proxyTo(url);
      const opened = await client(kind, proxy.url);
      const events = ['error', 'ready', 'end'];
      const count = () => events.map((event) => opened.listenerCount(event));
      const before = count();
      const locks = redisProvider({
        client: opened,
        onError: () => {
          throw new Error('a listener that throws');
        },
      });
      expect(count()).toEqual(before);
      await locks.inspect({ key: 'x' });
      await locks.inspect({ key: 'x' });
      expect(count()).not.toEqual(before);
      opened.on('error', () => {});
      (opened as unknown as { emit(event: string, error: Error): void }).emit('error', new Error('as if'));
      await locks.close?.();
      before[0] = (before[0] ?? 0) + 1;
      expect(count()).toEqual(before);
      await expect(locks.inspect({ key: 'x' })).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('the provider was closed'),
      });
    },
  );

  describe('a client that can not be used', () => {
    const attempt = (locks: LockProvider) => locks.acquire({ key: freshKey(), owner: 'o', leaseMs: MINUTE });
    const refusal = (text: RegExp) => ({ code: 'STORE', message: expect.stringMatching(text) });

    test.each(telling)('%s: subscribed', async (name, kind) => {
      const opened = await client(
        kind,
        url,
        name.startsWith('node') && name !== 'node-redis 4'
          ? { RESP: 2 }
          : name === 'ioredis 6'
            ? { protocol: 2 }
            : {},
      );
      await (
        opened as unknown as { subscribe(channel: string, listener: () => void): Promise<void> }
      ).subscribe('c', () => {});
      await expect(attempt(provider({ client: opened, timeoutMs: 4_000 }))).rejects.toMatchObject(
        refusal(/client of its own/),
      );
    });

    test('ioredis: with a transaction open', async () => {
      const opened = await client(CLIENTS['ioredis 5'] as TestClient, url);
      await (opened as unknown as { multi(options: object): Promise<void> }).multi({ pipeline: false });
      await expect(attempt(provider({ client: opened }))).rejects.toMatchObject(
        refusal(/transaction open \(MULTI\).*of its own/),
      );
    });

    test.each(telling)('%s: closed', async (_name, kind) => {
      const opened = await client(kind, url);
      const locks = provider({ client: opened, timeoutMs: 2_000 });
      await attempt(locks);
      await kind.close(opened);
      await sleep(50);
      await expect(attempt(locks)).rejects.toMatchObject(refusal(/is closed|was closed/));
    });

    test('an ioredis client of a user without rights, or with a wrong password: told without the password', async () => {
      await ask('ACL', 'SETUSER', 'weak', 'on', '>pass-3c1', '~*', '+@read', '+@connection', '+info');
      const weak = await client(CLIENTS['ioredis 5'] as TestClient, url.replace('//', '//weak:pass-3c1@'));
      const error = await attempt(provider({ client: weak })).catch((e: unknown) => e);
      expect(error).toMatchObject(refusal(/Allow the user EVAL/));
      const wrong = await client(CLIENTS['ioredis 5'] as TestClient, url.replace('//', '//weak:wrong-9f2@'));
      const errors: unknown[] = [];
      const locks = provider({ client: wrong, timeoutMs: 300, onError: (e) => errors.push(e) });
      errors.push(error, await attempt(locks).catch((e: unknown) => e));
      expect(errors.at(-1)).toMatchObject({ code: 'STORE' });
      expect(inspect(errors, { depth: 9, showHidden: true })).not.toMatch(/pass-3c1|wrong-9f2/);
    });
  });

  describe('replicas', () => {
    test('a replica says what it is; replicas that confirm are counted', async () => {
      const replica = await OwnRedis.start('--replicaof', '127.0.0.1', new URL(url).port);
      while (!String(await redis(replica.url, 'INFO', 'replication')).includes('master_link_status:up'))
        await sleep(50);
      for (const [name, kind] of kinds) {
        // GLIDE finds out by itself, and does not connect.
        if (!name.includes('GLIDE')) {
          const locks = provider({ client: await client(kind, replica.url) });
          await expect(locks.acquire({ key: freshKey(), owner: 'o', leaseMs: 1 })).rejects.toMatchObject({
            code: 'STORE',
            message: expect.stringContaining('Give a client of the primary'),
          });
        }
        const primary = await client(kind, url);
        const sure = provider({ client: primary, replicas: { count: 1, timeoutMs: 2_000 } });
        const key = freshKey();
        expect(await sure.acquire({ key, owner: 'o', leaseMs: MINUTE })).toMatchObject({ ok: true });
        const never = provider({ client: primary, replicas: { count: 2, timeoutMs: 50 } });
        const other = freshKey();
        await expect(never.acquire({ key: other, owner: 'o', leaseMs: MINUTE })).rejects.toMatchObject({
          code: 'STORE',
          message: expect.stringContaining('1 of 2 replicas confirmed it within 50 ms, so it was given back'),
        });
        expect(await ask('EXISTS', lockOf(other))).toBe(0);
      }
    });
  });
});

describeWithOwnRedis('a server that is killed and comes back', () => {
  test.each(kinds)('%s: without its data, holds are lost and tokens grow', async (_name, kind) => {
    const server = await OwnRedis.start();
    const locks = provider({ client: await client(kind, server.url), timeoutMs: 2_000 });
    const key = freshKey();
    const first = await locks.acquire({ key, owner: 'o', leaseMs: MINUTE });
    await server.kill();
    await expect(locks.renewMany([{ key, owner: 'o', token: 1, leaseMs: MINUTE }])).rejects.toMatchObject({
      code: 'STORE',
    });
    await server.start();
    const signal = AbortSignal.timeout(15_000);
    const renew = async (): Promise<unknown> => {
      try {
        return await locks.renewMany([{ key, owner: 'o', token: 1, leaseMs: MINUTE }]);
      } catch {
        if (signal.aborted) throw signal.reason;
        await sleep(50);
        return renew();
      }
    };
    expect(await renew()).toEqual(['lost']);
    const next = await locks.acquire({ key, owner: 'p', leaseMs: MINUTE });
    expect(next.ok && first.ok && next.token > first.token).toBe(true);
  });

  test('with an append-only file that is synced always, holds and slots are kept', async () => {
    const server = await OwnRedis.start('--appendonly', 'yes', '--appendfsync', 'always');
    const locks = await openRedis('ioredis 6', server.url);
    undo.push(() => locks.close?.());
    const [key, slot] = [freshKey(), Math.floor(Date.now() / 1000) * 1000];
    const first = await locks.acquire({ key, owner: 'o', leaseMs: MINUTE, slot });
    await server.kill();
    await server.start();
    expect(await locks.acquire({ key, owner: 'p', leaseMs: 1, slot: slot + 1 })).toMatchObject({
      reason: 'held',
    });
    expect(await locks.acquire({ key, owner: 'p', leaseMs: 1, slot })).toMatchObject({ reason: 'slot' });
    expect(await locks.renewMany([{ key, owner: 'o', token: 1, leaseMs: MINUTE }])).toEqual(['ok']);
    expect(await locks.inspect({ key })).toMatchObject([{ token: first.ok ? first.token : 0 }]);
  });
});
