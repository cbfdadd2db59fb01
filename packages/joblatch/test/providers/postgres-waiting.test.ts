import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type LockProvider, LockStoreError } from 'joblatch';
import { migratePostgres, type PgQuery, postgresProvider } from 'joblatch/postgres';
import { describe, expect, test } from 'vitest';
import {
  CLIENT_NAMES,
  closeClient,
  noClients,
  openClient,
  openPglite,
  openPostgres,
  sourceOf,
} from '../support/postgres-clients.js';
import { describeWithPostgres, home, type Pool } from '../support/postgres-server.ts';
import { skipAll } from '../support/skip-all.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const MINUTE = 60_000;
/** How long somebody keeps a lock, unless the test was faster: much longer than an attempt may take. */
const HOLD_MS = 10_000;
const owner = 'host:1';
const take = (provider: LockProvider, key = 'k', taker = owner) =>
  provider.acquire({ key, owner: taker, leaseMs: MINUTE });

/** A transaction of somebody else; it ends when `work` has, or after {@link HOLD_MS}. Says what came first. */
async function during<T>(console: Pool, sql: string, work: () => Promise<T>): Promise<T> {
  const other = await console.connect();
  const order: string[] = [];
  const timer = setTimeout(() => order.push('the lock was let go'), HOLD_MS);
  try {
    await other.query('begin');
    await other.query(sql);
    const result = await work();
    order.push('answered');
    expect(order).toEqual(['answered']);
    return result;
  } finally {
    clearTimeout(timer);
    await other.query('rollback');
    other.release();
  }
}

const ROW_LOCKS: Readonly<Record<string, string>> = {
  'for update': "select from $t where name = 'k' for update",
  'for no key update': "select from $t where name = 'k' for no key update",
  'for share': "select from $t where name = 'k' for share",
  'for key share': "select from $t where name = 'k' for key share",
  'an uncommitted update': "update $t set locked_by = 'x' where name = 'k'",
  'an uncommitted new key': "update $t set name = 'renamed' where name = 'k'",
  'an uncommitted delete': "delete from $t where name = 'k'",
};
/** These are waited for before anything in a statement is executed, and so the caller's time-out is the limit. */
const TABLE_LOCKS: Readonly<Record<string, string>> = {
  'a lock on the table': 'lock table $t in access exclusive mode',
  'a new column': 'alter table $t add column more int',
};

describeWithPostgres('PostgreSQL: behind somebody else', (server) => {
  const at = home(server);

  describe.each(CLIENT_NAMES)('%s', (name) => {
    test.each(Object.entries(ROW_LOCKS))(
      '%s: refused before it is let go, and taken after',
      async (_what, sql) => {
        const table = await at.madeTable();
        const provider = await openPostgres(name, at.url, { table });
        await take(provider);
        await provider.release({ key: 'k', owner });
        const result = await during(at.console, sql.replace('$t', table), () =>
          take(provider, 'k', 'host:2'),
        );
        expect(result).toMatchObject({ ok: false, reason: 'held' });
        expect(await take(provider, 'k', 'host:2')).toMatchObject({ ok: true });
        await provider.close?.();
      },
    );

    test.each(Object.entries(TABLE_LOCKS))(
      '%s: an error in time, then refused at once, and taken after',
      async (_what, sql) => {
        const table = await at.madeTable();
        const provider = await openPostgres(name, at.url, { table, timeoutMs: 300 });
        await take(provider, 'other');
        const before = await during(at.console, sql.replace('$t', table), async () => {
          await expect(take(provider)).rejects.toMatchObject({
            code: 'STORE',
            message: expect.stringContaining('no answer yet'),
          });
          // One connection has to do, and that one still waits.
          if (name === 'pg Client') return;
          const start = performance.now();
          expect(await take(provider, 'l')).toEqual({ ok: false, reason: 'held' });
          expect(await provider.renewMany([{ key: 'other', owner, token: 1, leaseMs: 1 }])).toEqual([
            'unknown',
          ]);
          await expect(provider.release({ key: 'other', owner })).rejects.toMatchObject({ code: 'STORE' });
          return performance.now() - start;
        });
        if (before !== undefined) expect(before).toBeLessThan(700);
        expect(await take(provider, 'l')).toMatchObject({ ok: true });
        expect(await provider.release({ key: 'other', owner })).toBe(true);
        await provider.close?.();
      },
    );

    test('an uncommitted insert: refused before it is decided, and taken after', async () => {
      const table = await at.madeTable();
      const provider = await openPostgres(name, at.url, { table });
      const insert = `insert into ${table} values ('k', now() + interval '1 hour', now(), 'x', 1, null)`;
      // Twice: who was refused looks first the next time. Of a record that nobody sees yet no end is known.
      const twice = async () => [await take(provider), await take(provider)];
      const refused = { ok: false, reason: 'held' };
      expect(await during(at.console, insert, twice)).toEqual([refused, refused]);
      expect(await take(provider)).toMatchObject({ ok: true });
      await provider.close?.();
    });
  });

  test('a held key is refused with its time left, whatever lock is on its row', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    await take(provider);
    for (const what of ['for update', 'for key share', 'an uncommitted update']) {
      const sql = (ROW_LOCKS[what] as string).replace('$t', table);
      const result = await during(at.console, sql, () => take(provider, 'k', 'host:2'));
      expect(result).toMatchObject({ ok: false, reason: 'held', leftMs: expect.any(Number) });
    }
  });

  test('a renewal passes or is unknown, and never waits; the others are renewed', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    await take(provider);
    await take(provider, 'other');
    const requests = ['k', 'other'].map((key) => ({ key, owner, token: 1, leaseMs: 2 * MINUTE }));
    const expected: Readonly<Record<string, string>> = { 'for key share': 'ok' };
    for (const [what, sql] of Object.entries(ROW_LOCKS)) {
      const answers = await during(at.console, sql.replace('$t', table), () => provider.renewMany(requests));
      expect(answers, what).toEqual([expected[what] ?? 'unknown', 'ok']);
    }
    expect(await provider.renewMany(requests)).toEqual(['ok', 'ok']);
  });

  test('a release that can not have its row is an error in time, and works when it is tried again', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    await take(provider);
    const release = () => provider.release({ key: 'k', owner });
    await during(at.console, `select from ${table} for update`, async () => {
      await expect(release()).rejects.toMatchObject({
        code: 'STORE',
        operation: 'release',
        message: expect.stringContaining('somebody else keeps the record'),
      });
    });
    await during(at.console, `select from ${table} for key share`, async () =>
      expect(await release()).toBe(true),
    );
  });

  test('a guard in a transaction of the application: renewals pass, a take-over is refused until it ends', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    const taken = await provider.acquire({ key: 'k', owner, leaseMs: 1_000 });
    expect(taken.ok).toBe(true);
    const guarded = async (): Promise<void> => {
      const leaseMs = 300;
      expect(await provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: 1_000 }])).toEqual(['ok']);
      await sleep(1_000 + leaseMs);
      // The lease is over; the work that it protects is not.
      expect(await provider.renewMany([{ key: 'k', owner, token: 1, leaseMs }])).toEqual(['lost']);
      for (let i = 0; i < 3; i += 1)
        expect(await take(provider, 'k', 'host:2')).toMatchObject({ ok: false, reason: 'held' });
    };
    const guard = `select fencing_token from ${table} where name = 'k' and locked_by = '${owner}' and lock_until > clock_timestamp() for key share`;
    await during(at.console, guard, guarded);
    const next = await take(provider, 'k', 'host:2');
    expect(taken.ok && next.ok && next.token > taken.token).toBe(true);
  });

  test('purge leaves what somebody has locked, and does not wait for it', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    for (const key of ['k', 'l']) {
      await take(provider, key);
      await provider.release({ key, owner });
    }
    await sleep(20);
    const guard = `select from ${table} where name = 'k' for key share`;
    expect(await during(at.console, guard, () => provider.purge({ idleMs: 0 }))).toBe(1);
    expect(await provider.purge({ idleMs: 0 })).toBe(1);
  });
});

describeWithPostgres('PostgreSQL: a losing attempt', (server) => {
  const at = home(server);

  test('is one message, and neither locks nor writes anything', async () => {
    const table = await at.madeTable();
    const messages: PgQuery[] = [];
    const spy = {
      on: () => {},
      removeListener: () => {},
      query: () => {},
      totalCount: 0,
      connect: async () => {
        const client = await at.console.connect();
        return Object.create(client, {
          query: {
            value: (query: PgQuery) => {
              messages.push(query);
              return (client as unknown as { query(q: PgQuery): Promise<unknown> }).query(query);
            },
          },
        });
      },
    };
    await take(postgresProvider({ pool: at.console, table }));
    for (const more of [{}, { slot: Date.now() }, { oncePerMs: 60_000 }]) {
      const provider = postgresProvider({ pool: spy, table });
      await provider.abilities();
      // Who was refused before looks first, by a read; who was not could take the key in the same message.
      for (const could of [true, false, false]) {
        messages.length = 0;
        const lost = await provider.acquire({ key: 'k', owner: 'p', leaseMs: 1, ...more });
        expect(lost).toMatchObject({ ok: false, reason: 'held', leftMs: expect.any(Number) });
        expect(messages).toHaveLength(1);
        const { text, values } = messages[0] as PgQuery;
        const { rows } = await at.console.query(
          `explain (analyze, wal, buffers, format json) ${text}`,
          values,
        );
        const plan = JSON.stringify(rows);
        expect(plan.includes('LockRows')).toBe(could);
        expect(plan.includes('ModifyTable')).toBe(could);
        expect(plan.match(/"WAL Bytes":(\d+)/g)?.every((found) => found === '"WAL Bytes":0')).toBe(true);
        expect(plan).not.toMatch(/"Shared Dirtied Blocks":[1-9]/);
        const { rows: locks } = await at.console.query(`select xmax::text from ${table} where name = 'k'`);
        expect(locks).toEqual([{ xmax: '0' }]);
      }
    }
  });

  test('by who lost before finds the key free, and takes it', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    for (const round of ['a', 'b']) {
      await take(provider, 'k', round);
      expect(await take(provider, 'k', 'other')).toMatchObject({ ok: false });
      expect(await take(provider, 'k', 'other')).toMatchObject({ ok: false });
      await provider.release({ key: 'k', owner: round });
      expect(await take(provider, 'k', 'other')).toMatchObject({ ok: true });
      await at.console.query(round === 'a' ? `delete from ${table}` : 'select 1');
    }
  });
});

describeWithPostgres('PostgreSQL: transactions of the application', (server) => {
  const at = home(server);

  test('a pool: a lock that is taken meanwhile is seen at once, and survives the rollback', async () => {
    const table = await at.madeTable();
    const pool = await openClient('pg Pool', at.url);
    const provider = postgresProvider({ pool, table });
    const mine = await pool.connect();
    await mine.query('begin');
    await mine.query('select 1');
    await sleep(500);
    const taken = await provider.acquire({ key: 'k', owner, leaseMs: 400 });
    expect(taken.ok).toBe(true);
    expect(await take(provider, 'k', 'host:2')).toMatchObject({ ok: false });
    await mine.query('rollback');
    mine.release();
    expect(await provider.inspect({ key: 'k' })).toMatchObject([{ owner }]);
    await pool.end();
  });

  test('a client with an open one is refused, at its start, in it and after an error, and nothing is written', async () => {
    const table = await at.madeTable();
    const client = await openClient('pg Client', at.url);
    const provider = postgresProvider({ client, table });
    await provider.abilities();
    const verbs = [
      () => take(provider),
      () => provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: 1 }]),
      () => provider.release({ key: 'k', owner }),
      () => provider.forceRelease('k'),
      () => provider.purge({ idleMs: 0 }),
      () => provider.inspect({}),
    ];
    const refused = async (): Promise<void> => {
      for (const verb of verbs) {
        await expect(verb()).rejects.toMatchObject({
          code: 'STORE',
          message: expect.stringContaining('open transaction'),
        });
      }
    };
    await client.query('begin');
    await refused();
    await client.query('begin isolation level serializable').catch(() => {});
    await refused();
    await client.query('select 1/0').catch(() => {});
    await refused();
    await client.query('commit');
    await client.query('begin');
    await refused();
    // Nothing of ours was set for the rest of it.
    expect((await client.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '0' }]);
    await client.query('commit');
    await client.query('begin read only');
    await refused();
    await client.query('rollback');
    expect((await at.console.query(`select * from ${table}`)).rows).toEqual([]);
    expect(await take(provider)).toMatchObject({ ok: true });
    await client.end();
  });

  test('a client that is told to begin without waiting for it is refused', async () => {
    const table = await at.madeTable();
    const client = await openClient('pg Client', at.url);
    const provider = postgresProvider({ client, table });
    await provider.abilities();
    const begun = client.query('begin');
    await expect(take(provider)).rejects.toMatchObject({
      message: expect.stringContaining('open transaction'),
    });
    await begun;
    await client.query('rollback');
    expect(await take(provider)).toMatchObject({ ok: true });
    await client.end();
  });

  test('a client of a pg that does not tell: the same, and nothing of the server is set', async () => {
    const table = await at.madeTable();
    const client = await openClient('pg Client', at.url);
    Object.defineProperty(client, 'getTransactionStatus', { value: undefined });
    const provider = postgresProvider({ client, table });
    await provider.abilities();
    for (const begin of ['begin', 'begin isolation level serializable']) {
      await client.query(begin);
      for (const verb of [
        () => take(provider),
        () => provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: 1 }]),
        () => provider.release({ key: 'k', owner }),
        () => provider.forceRelease('k'),
        () => provider.purge({ idleMs: 0 }),
      ])
        await expect(verb()).rejects.toMatchObject({ message: expect.stringContaining('open transaction') });
      expect((await client.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '0' }]);
      await client.query('commit');
    }
    expect((await at.console.query(`select * from ${table}`)).rows).toEqual([]);
    for (let i = 0; i < 20; i += 1) expect(await take(provider, `k${i}`)).toMatchObject({ ok: true });
    await client.end();
  });

  test('a connection that went back to its pool like that is refused', async () => {
    const table = await at.madeTable();
    for (const tells of [true, false]) {
      const pool = await openClient('pg Pool', at.url, { max: 1 });
      const provider = postgresProvider({ pool, table });
      const mine = await pool.connect();
      if (!tells) Object.defineProperty(mine, 'getTransactionStatus', { value: undefined });
      await mine.query('begin');
      await mine.query(`insert into ${table} values ('x', now(), now(), 'x')`);
      mine.release();
      await expect(take(provider)).rejects.toMatchObject({
        message: expect.stringContaining('open transaction'),
      });
      await pool.query('rollback');
      expect(await take(provider, `k${tells}`)).toMatchObject({ ok: true });
      await pool.end();
    }
  });

  test('postgres.js: the sql of a transaction is refused, and a connection that has one by hand', async () => {
    const table = await at.madeTable();
    const sql = await openClient('postgres.js', at.url);
    const refusal = { code: 'STORE', message: expect.stringContaining('open transaction') };
    await sql.begin(async (tx) => {
      await expect(take(postgresProvider({ sql: tx, table }))).rejects.toMatchObject(refusal);
    });
    const one = await openClient('postgres.js', at.url, { max: 1 });
    const reserved = await sql.reserve();
    for (const each of [one, reserved]) {
      const provider = postgresProvider({ sql: each, table });
      for (let i = 0; i < 5; i += 1) {
        await each.unsafe('begin').raw();
        await expect(take(provider)).rejects.toMatchObject(refusal);
        await each.unsafe('rollback').raw();
        expect(await take(provider, `k${i}`)).toMatchObject({ ok: true });
        expect(await provider.release({ key: `k${i}`, owner })).toBe(true);
      }
    }
    reserved.release();
    await one.end();
    await sql.end();
  });
});

describe('PGlite', () => {
  if (noClients !== undefined) return skipAll('PGlite', noClients);
  test('a transaction of the application is waited for, and one that was begun by hand is refused', async () => {
    const pglite = await openPglite();
    const provider = postgresProvider({ pglite });
    expect(await migratePostgres({ pglite })).toHaveLength(1);
    await pglite.transaction(async (tx) => {
      await expect(take(postgresProvider({ pglite: tx }))).rejects.toMatchObject({
        message: expect.stringContaining('open transaction'),
      });
    });
    await pglite.exec('begin');
    await expect(take(provider)).rejects.toMatchObject({
      message: expect.stringContaining('open transaction'),
    });
    await pglite.exec('rollback');
    expect(await take(provider)).toMatchObject({ ok: true });
    await pglite.close();
    await expect(take(provider)).rejects.toBeInstanceOf(LockStoreError);
  }, 60_000);
});

describeWithPostgres('PostgreSQL: a pool', (server) => {
  const at = home(server);

  test('of one connection, which the caller holds: an error within the time-out, and nothing leaks', async () => {
    const table = await at.madeTable();
    const pool = await openClient('pg Pool', at.url, { max: 1 });
    const provider = postgresProvider({ pool, table });
    await provider.abilities();
    const locks = createLocks({ provider, storeTimeout: 300 });
    const mine = await pool.connect();
    await mine.query('begin');
    await expect(locks.acquire('k', { wait: 0 })).rejects.toMatchObject({ code: 'STORE' });
    const controller = new AbortController();
    const waiting = provider.acquire({ key: 'k', owner, leaseMs: MINUTE }, { signal: controller.signal });
    controller.abort(new Error('given up'));
    await expect(waiting).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('no answer yet'),
    });
    await mine.query('commit');
    mine.release();
    await expect.poll(() => [pool.waitingCount, pool.idleCount, pool.totalCount]).toEqual([0, 1, 1]);
    expect(await take(provider)).toMatchObject({ ok: true });
    await locks.close();
    await pool.end();
  });

  test('a call without a signal has a limit of its own', async () => {
    const table = await at.madeTable();
    const pool = await openClient('pg Pool', at.url, { max: 1 });
    const provider = postgresProvider({ pool, table, timeoutMs: 100 });
    const mine = await pool.connect();
    await expect(take(provider)).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('is a connection free'),
    });
    mine.release();
    await expect.poll(() => [pool.waitingCount, pool.idleCount]).toEqual([0, 1]);
    await pool.end();
  });

  for (const name of CLIENT_NAMES) {
    test(`${name}: a server that no longer answers is left in time, and used again when it does`, async () => {
      const table = await at.madeTable();
      const proxy = await TcpProxy.to(at.url);
      const url = new URL(at.url);
      url.port = new URL(proxy.url).port;
      const client = await openClient(name, url.href, name === 'pg Client' ? {} : { max: 1 });
      const provider = postgresProvider({ ...sourceOf(name, client), table, timeoutMs: 300 });
      await provider.abilities();
      proxy.onAnswer = () => false;
      for (let i = 0; i < 3; i += 1)
        await expect(take(provider, `lost-${i}`)).rejects.toBeInstanceOf(LockStoreError);
      if (name === 'pg Pool') {
        // Its only connection is closed, and not kept for an answer that may never come.
        const pool = client as Pool;
        await expect.poll(() => pool.idleCount, { timeout: 5_000 }).toBe(0);
        proxy.onAnswer = () => true;
        await expect
          .poll(() => take(provider).catch(() => undefined), { timeout: 10_000 })
          .toMatchObject({ ok: true });
      }
      proxy.onAnswer = () => true;
      await proxy.cut();
      await closeClient(name, client).catch(() => {});
    });
  }

  for (const name of CLIENT_NAMES) {
    test(`${name}: a connection that breaks in the middle of a call is an error of that call, and of nothing else`, async () => {
      const table = await at.madeTable();
      const proxy = await TcpProxy.to(at.url);
      const url = new URL(at.url);
      url.port = new URL(proxy.url).port;
      const client = await openClient(name, url.href, name === 'pg Client' ? {} : { max: 1 });
      const provider = postgresProvider({ ...sourceOf(name, client), table });
      await provider.abilities();
      const asked = new Promise<void>((resolve) => {
        proxy.onRequest = () => {
          resolve();
          return false;
        };
      });
      const attempt = expect(take(provider)).rejects.toMatchObject({ code: 'STORE', operation: 'acquire' });
      await asked;
      proxy.breakConnections();
      await attempt;
      await sleep(200);
      proxy.onRequest = () => true;
      if (name !== 'pg Client') {
        await expect
          .poll(() => take(provider).catch(() => undefined), { timeout: 10_000 })
          .toMatchObject({ ok: true });
      }
      await provider.close?.();
      await closeClient(name, client).catch(() => {});
      await proxy.cut();
    });
  }

  test('listens for errors once however many providers use it, and no longer than they do', async () => {
    const pool = await openClient('pg Pool', at.url);
    const table = await at.madeTable();
    const providers = Array.from({ length: 15 }, () => postgresProvider({ pool, table }));
    expect(pool.listenerCount('error')).toBe(0);
    await Promise.all(providers.map((provider) => provider.abilities()));
    expect(pool.listenerCount('error')).toBe(1);
    await Promise.all(providers.map((provider) => provider.close?.()));
    expect(pool.listenerCount('error')).toBe(0);
    await expect((providers[0] as LockProvider).abilities()).rejects.toMatchObject({
      message: expect.stringContaining('closed'),
    });
    await pool.end();
  });
});
