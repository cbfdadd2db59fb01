import type { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type LockProvider, LockStoreError } from 'joblatch';
import { type MysqlPoolConnection, type MysqlQuery, mysqlProvider } from 'joblatch/mysql';
import { describe, expect, test } from 'vitest';
import {
  type ClientName,
  closeClient,
  openClient,
  openMysql,
  sourceOf,
  type TestConnection,
  type TestPool,
} from '../support/mysql-clients.js';
import { describeWithMariadb, home } from '../support/mysql-server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const MINUTE = 60_000;
/** How long somebody keeps a lock, unless the test was faster: much longer than an attempt may take. */
const HOLD_MS = 10_000;
/** How long a connection may take to be given back by a caller that gave up, and a pool to make a new one. */
const BACK_MS = 10_000;
const CLIENTS: readonly ClientName[] = [
  'mysql2 pool',
  'mysql2 connection',
  'mariadb pool',
  'mariadb connection',
];
const POOLS: readonly ClientName[] = ['mysql2 pool', 'mariadb pool'];
const owner = 'host:1';
const take = (provider: LockProvider, key = 'k', taker = owner) =>
  provider.acquire({ key, owner: taker, leaseMs: MINUTE });
const HELD = { ok: false, reason: 'held' };

/** Somebody else's connection, on which something is done first; in the end all of that is undone. */
async function during<T>(console: TestPool, sql: readonly string[], work: () => Promise<T>): Promise<T> {
  const other = await console.getConnection();
  const order: string[] = [];
  const timer = setTimeout(() => order.push('the lock was let go'), HOLD_MS);
  try {
    for (const each of sql) await other.query(each);
    const result = await work();
    order.push('answered');
    expect(order).toEqual(['answered']);
    return result;
  } finally {
    clearTimeout(timer);
    await other.query('rollback');
    await other.query('unlock tables');
    other.release();
  }
}

const inTransaction = (sql: string): string[] => ['start transaction', sql];

/** How long something takes. */
async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

const ROW_LOCKS: Readonly<Record<string, string>> = {
  'for update': "select 1 from $t where name = 'k' for update",
  'lock in share mode': "select 1 from $t where name = 'k' lock in share mode",
  'an uncommitted update': "update $t set locked_by = 'x' where name = 'k'",
  'an uncommitted new key': "update $t set name = 'renamed' where name = 'k'",
  'an uncommitted delete': "delete from $t where name = 'k'",
};

describeWithMariadb('MariaDB: behind somebody else', (server) => {
  const at = home(server);

  describe.each(CLIENTS)('%s', (name) => {
    test.each(Object.entries(ROW_LOCKS))(
      '%s: refused before it is let go, and taken after',
      async (_what, sql) => {
        const table = await at.madeTable();
        const provider = await openMysql(name, at.url, { table });
        await take(provider);
        const locked = inTransaction(sql.replace('$t', table));
        const held = await during(at.console, locked, () => take(provider, 'k', 'host:2'));
        expect(held).toEqual({ ...HELD, leftMs: expect.any(Number) });
        await provider.release({ key: 'k', owner });
        const twice = async () => [await take(provider, 'k', 'host:2'), await take(provider, 'k', 'host:2')];
        expect(await during(at.console, locked, twice)).toEqual([HELD, HELD]);
        expect(await take(provider, 'k', 'host:2')).toMatchObject({ ok: true });
        await provider.close?.();
      },
    );

    test('an uncommitted insert: refused before it is decided, and taken after', async () => {
      const table = await at.madeTable();
      const provider = await openMysql(name, at.url, { table });
      const insert = `insert into ${table} (name, lock_until, locked_at, locked_by)
        values ('k', utc_timestamp() + interval 1 hour, utc_timestamp(), 'x')`;
      const twice = async () => [await take(provider), await take(provider)];
      expect(await during(at.console, inTransaction(insert), twice)).toEqual([HELD, HELD]);
      expect(await take(provider)).toMatchObject({ ok: true });
      await provider.close?.();
    });
  });

  /** A statement that changes the table waits for a transaction that has read it, and all others wait behind it. */
  const behindAlter = async (table: string, work: () => Promise<void>): Promise<void> => {
    let altered: Promise<unknown> = Promise.resolve();
    await during(at.console, inTransaction(`select 1 from ${table} limit 1`), async () => {
      altered = at.console.query(`alter table ${table} add column more int`);
      await expect
        .poll(async () => (await at.console.query('show processlist'))[0])
        .toContainEqual(expect.objectContaining({ State: 'Waiting for table metadata lock' }));
      await work();
    });
    await altered;
  };
  const behindLockTables = (table: string, work: () => Promise<void>): Promise<void> =>
    during(at.console, [`lock tables ${table} write`], work);

  for (const name of POOLS) {
    test.each([
      ['lock tables', behindLockTables],
      ['alter table', behindAlter],
    ])(
      `${name}: behind %s an attempt is refused, every other verb is an error in time, and the store works afterwards`,
      async (_what, behind) => {
        const table = await at.madeTable();
        const provider = await openMysql(name, at.url, { table, timeoutMs: 300 });
        await take(provider, 'other');
        const late = {
          code: 'STORE',
          message: expect.stringMatching(
            /no answer yet when the caller gave up.*alter table|keeps the record or the table locked/,
          ),
        };
        await behind(table, async () => {
          const verbs: Readonly<Record<string, () => Promise<unknown>>> = {
            renewMany: () => provider.renewMany([{ key: 'other', owner, token: 1, leaseMs: 1 }]),
            release: () => provider.release({ key: 'other', owner }),
            inspect: () => provider.inspect({}),
          };
          expect(await take(provider)).toEqual(HELD);
          for (const [what, verb] of Object.entries(verbs)) {
            await expect(verb(), what).rejects.toMatchObject(late);
          }
        });
        // A release that was given up may have been done by now.
        await expect
          .poll(() => take(provider, 'l').catch(() => undefined), { timeout: BACK_MS })
          .toMatchObject({ ok: true });
        await provider.forceRelease('other');
        expect(await take(provider, 'other')).toMatchObject({ ok: true });
        await provider.close?.();
      },
    );
  }

  test('a renewal of many of which one is locked: that one is unknown, the others are renewed, nobody waits', async () => {
    const table = await at.madeTable();
    // Of few rows the server would rather read all.
    for (const [name, others] of POOLS.flatMap((each) =>
      [1, 20, 300].map((count) => [each, count] as const),
    )) {
      const provider = await openMysql(name, at.url, { table });
      const keys = ['k', ...Array.from({ length: others }, (_, i) => `other-${i}`)];
      await Promise.all(keys.map((key) => take(provider, key)));
      const requests = keys.map((key) => ({ key, owner, token: 1, leaseMs: 2 * MINUTE }));
      const lost = { key: 'none', owner, token: 1, leaseMs: MINUTE };
      for (const [what, sql] of Object.entries(ROW_LOCKS)) {
        const locked = inTransaction(sql.replace('$t', table));
        await during(at.console, locked, async () => {
          const ms = await timed(async () => {
            const answers = await provider.renewMany([...requests, lost]);
            expect(answers[0], what).toBe('unknown');
            expect(new Set(answers.slice(1, -1)), what).toEqual(new Set(['ok']));
            expect(answers.at(-1), what).toBe('lost');
            expect(await provider.renewMany(requests.slice(0, 1))).toEqual(['unknown']);
            expect(await provider.renewMany(requests.slice(0, 2))).toEqual(['unknown', 'ok']);
            expect(await provider.renewMany(requests.slice(1, 2))).toEqual(['ok']);
          });
          expect(ms).toBeLessThan(900);
        });
      }
      expect(new Set(await provider.renewMany(requests))).toEqual(new Set(['ok']));
      await Promise.all(keys.map((key) => provider.release({ key, owner })));
      await provider.close?.();
    }
  });

  test.each(CLIENTS)(
    '%s: a release behind a lock waits for a second, and works when it is tried again',
    async (name) => {
      const table = await at.madeTable();
      const provider = await openMysql(name, at.url, { table, timeoutMs: 5_000 });
      await take(provider);
      const release = () => provider.release({ key: 'k', owner });
      const locked = inTransaction(`select 1 from ${table} where name = 'k' for update`);
      await during(at.console, locked, async () => {
        const ms = await timed(() =>
          expect(release()).rejects.toMatchObject({
            code: 'STORE',
            operation: 'release',
            message: expect.stringContaining('somebody else keeps the record'),
          }),
        );
        expect(ms).toBeGreaterThan(500);
        expect(ms).toBeLessThan(2_500);
      });
      // Whoever lets go within that second is waited for.
      let waiting: Promise<boolean> | undefined;
      await during(at.console, locked, async () => {
        waiting = release();
        await sleep(300);
      });
      expect(await waiting).toBe(true);
      await provider.close?.();
    },
  );

  test('a release that failed is done in the background once the lock on its row is let go', async () => {
    const table = await at.madeTable();
    const provider = mysqlProvider({ pool: at.console, table });
    const locks = createLocks({ provider, storeTimeout: 3_000 });
    const errors: unknown[] = [];
    locks.on('error', (event) => errors.push(event));
    const held = await locks.acquire('k', { lease: MINUTE });
    await during(at.console, inTransaction(`select 1 from ${table} for update`), () =>
      expect(held.release()).rejects.toBeInstanceOf(LockStoreError),
    );
    await expect
      .poll(() => provider.inspect({ key: 'k' }), { timeout: BACK_MS })
      .toMatchObject([{ state: 'free' }]);
    expect(errors).not.toEqual([]);
    await locks.close();
  });

  test('purge leaves what somebody has locked, and does not wait for it', async () => {
    const table = await at.madeTable();
    const provider = mysqlProvider({ pool: at.console, table });
    for (const key of ['k', 'l']) {
      await take(provider, key);
      await provider.release({ key, owner });
    }
    await sleep(20);
    const locked = inTransaction(`select 1 from ${table} where name = 'k' lock in share mode`);
    expect(await during(at.console, locked, () => provider.purge({ idleMs: 0 }))).toBe(1);
    expect(await provider.purge({ idleMs: 0 })).toBe(1);
  });

  test('a pool: a lock that is taken beside an open transaction is seen at once, and survives its rollback', async () => {
    const table = await at.madeTable();
    const pool = await openClient('mysql2 pool', at.url);
    const provider = mysqlProvider({ pool, table });
    const mine = await pool.getConnection();
    await mine.query('start transaction');
    await mine.query(`select * from ${table}`);
    expect(await take(provider)).toMatchObject({ ok: true });
    expect(await take(provider, 'k', 'host:2')).toMatchObject(HELD);
    await mine.query('rollback');
    mine.release();
    expect(await provider.inspect({ key: 'k' })).toMatchObject([{ owner }]);
    await pool.end();
  });
});

describeWithMariadb('MariaDB: a pool of one connection', (server) => {
  const at = home(server);
  const openOne = async (name: ClientName, url = at.url, more: Readonly<Record<string, unknown>> = {}) =>
    (await openClient(name, url, { connectionLimit: 1, acquireTimeout: 5_000, ...more })) as TestPool;

  describe.each(POOLS)('%s', (name) => {
    test('which the application holds: an error in time that says so, and nothing leaks', async () => {
      const table = await at.madeTable();
      const pool = await openOne(name);
      const provider = mysqlProvider({ pool, table, timeoutMs: 300 });
      await provider.abilities();
      const mine = await pool.getConnection();
      const failed = { code: 'STORE', message: expect.stringContaining('is a connection free') };
      for (let i = 0; i < 5; i += 1) await expect(take(provider)).rejects.toMatchObject(failed);
      const controller = new AbortController();
      const waiting = provider.acquire({ key: 'k', owner, leaseMs: MINUTE }, { signal: controller.signal });
      controller.abort(new Error('given up'));
      await expect(waiting).rejects.toMatchObject(failed);
      await mine.release();
      expect(await provider.inspect({})).toEqual([]);
      expect(await take(provider)).toMatchObject({ ok: true });
      // It can be had: nobody else has it.
      const again = await pool.getConnection();
      await again.release();
      await pool.end();
    });

    test('that says by itself that it has none: the error says what may be the matter', async () => {
      const table = await at.madeTable();
      const soon = name === 'mariadb pool' ? { acquireTimeout: 100 } : { waitForConnections: false };
      const pool = await openOne(name, at.url, soon);
      const provider = mysqlProvider({ pool, table });
      await provider.abilities();
      const mine = await pool.getConnection();
      await expect(take(provider)).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringMatching(/^[^\n]+ caller holds all connections [^\n]+$/),
      });
      await mine.release();
      expect(await take(provider)).toMatchObject({ ok: true });
      await pool.end();
    });

    test('that can not connect: the error says why', async () => {
      const away = new URL(at.url);
      away.port = '1';
      const pool = await openOne(name, away.href, { acquireTimeout: 200 });
      await expect(take(mysqlProvider({ pool }))).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringMatching(/^[^\n]+ECONNREFUSED[^\n]+$/),
      });
      await pool.end();
    });

    test('whose caller gives up before, in and after the statement: the connection is given back', async () => {
      const table = await at.madeTable();
      const pool = await openOne(name);
      const provider = mysqlProvider({ pool, table });
      await provider.abilities();
      for (let i = 0; i < 60; i += 1) {
        const controller = new AbortController();
        const call = provider.acquire({ key: `k${i}`, owner, leaseMs: 1 }, { signal: controller.signal });
        setTimeout(() => controller.abort(new Error('given up')), i / 12);
        await call.catch((error: unknown) => expect(error).toBeInstanceOf(LockStoreError));
      }
      const mine = await pool.getConnection();
      expect((await (mine as TestConnection).query('select @@in_transaction as open')).flat()).toContainEqual(
        expect.objectContaining({ open: expect.anything() }),
      );
      await mine.release();
      await pool.end();
    });

    test('whose caller gives up behind a lock that stays: it is closed, and the pool makes another', async () => {
      const table = await at.madeTable();
      const pool = await openOne(name);
      const provider = mysqlProvider({ pool, table, timeoutMs: 300 });
      await provider.abilities();
      const other = await at.madeTable();
      const elsewhere = mysqlProvider({ pool, table: other });
      await during(at.console, [`lock tables ${table} write`], async () => {
        await expect(provider.release({ key: 'k', owner })).rejects.toBeInstanceOf(LockStoreError);
        expect(await take(elsewhere)).toMatchObject({ ok: true });
      });
      await pool.end();
    });

    test('of a server that no longer answers: left in time, and used again when it does', async () => {
      const table = await at.madeTable();
      const proxy = await TcpProxy.to(at.url);
      const url = new URL(at.url);
      url.port = new URL(proxy.url).port;
      const pool = await openOne(name, url.href, { connectTimeout: 1_000 });
      const provider = mysqlProvider({ pool, table, timeoutMs: 300 });
      await provider.abilities();
      proxy.onAnswer = () => false;
      for (let i = 0; i < 3; i += 1) {
        await expect(take(provider, `lost-${i}`)).rejects.toBeInstanceOf(LockStoreError);
      }
      proxy.onAnswer = () => true;
      await expect
        .poll(() => take(provider).catch(() => undefined), { timeout: BACK_MS })
        .toMatchObject({ ok: true });
      await pool.end();
      await proxy.cut();
    });

    test('of a server that is away, and comes back: errors in time, and no event ends the process', async () => {
      const table = await at.madeTable();
      const proxy = await TcpProxy.to(at.url);
      const url = new URL(at.url);
      url.port = new URL(proxy.url).port;
      const pool = await openOne(name, url.href);
      const provider = mysqlProvider({ pool, table, timeoutMs: 500 });
      await provider.abilities();
      await proxy.cut();
      for (let i = 0; i < 3; i += 1) await expect(take(provider)).rejects.toBeInstanceOf(LockStoreError);
      await sleep(500);
      await proxy.restore();
      await expect
        .poll(() => take(provider).catch(() => undefined), { timeout: 2 * BACK_MS })
        .toMatchObject({ ok: true });
      await pool.end();
      await proxy.cut();
    });
  });
});

describeWithMariadb('MariaDB: a connection that is killed', (server) => {
  const at = home(server);

  test.each(CLIENTS)('%s: while it is idle, and in the middle of a call', async (name) => {
    const table = await at.madeTable();
    // Connections to another database, so that they can be told from those of the test.
    const url = new URL(at.url);
    const schema = url.pathname.slice(1);
    url.pathname = '/information_schema';
    const client = await openClient(name, url.href);
    const provider = mysqlProvider({ ...sourceOf(name, client), table, schema });
    await take(provider);
    const kill = async (): Promise<void> => {
      const [rows] = await at.console.query(
        "select id from information_schema.processlist where db = 'information_schema'",
      );
      expect(rows).not.toEqual([]);
      for (const { id } of rows as { id: number }[]) await at.console.query(`kill ${id}`).catch(() => {});
      await sleep(100);
    };
    await kill();
    if (!POOLS.includes(name)) {
      // It does not come back by itself, and says so; the process lives.
      for (let i = 0; i < 3; i += 1) await expect(take(provider)).rejects.toBeInstanceOf(LockStoreError);
      await sleep(200);
    } else {
      await expect
        .poll(() => take(provider).catch(() => undefined), { timeout: BACK_MS })
        .toMatchObject(HELD);
      await during(at.console, inTransaction(`select 1 from ${table} for update`), async () => {
        const inFlight = expect(provider.release({ key: 'k', owner })).rejects.toBeInstanceOf(LockStoreError);
        await sleep(200);
        await kill();
        await inFlight;
      });
      await expect
        .poll(() => provider.release({ key: 'k', owner }).catch(() => undefined), { timeout: BACK_MS })
        .toBe(true);
    }
    await provider.close?.();
    await closeClient(name, client).catch(() => {});
  });

  test.each(CLIENTS)('%s: by a network that breaks in the middle of a call', async (name) => {
    const table = await at.madeTable();
    const proxy = await TcpProxy.to(at.url);
    const url = new URL(at.url);
    url.port = new URL(proxy.url).port;
    const client = await openClient(name, url.href);
    const provider = mysqlProvider({ ...sourceOf(name, client), table });
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
    if (POOLS.includes(name)) {
      await expect
        .poll(() => take(provider).catch(() => undefined), { timeout: BACK_MS })
        .toMatchObject({ ok: true });
    }
    await provider.close?.();
    await closeClient(name, client).catch(() => {});
    await proxy.cut();
  });

  test('a single connection is listened to for errors as long as it is used, and no longer', async () => {
    const table = await at.madeTable();
    const connection = await openClient('mysql2 connection', at.url);
    const events = connection as unknown as EventEmitter;
    const provider = mysqlProvider({ connection, table });
    const before = events.listenerCount('error');
    await take(provider);
    await take(provider);
    expect(events.listenerCount('error')).toBe(before + 1);
    await provider.close?.();
    expect(events.listenerCount('error')).toBe(before);
    await expect(take(provider)).rejects.toMatchObject({ message: expect.stringContaining('closed') });
    await connection.end();
  });
});

describeWithMariadb('MariaDB: a server without room for prepared statements', (server) => {
  const at = home(server);

  const refusing = (errno: number, refuses: () => boolean, sent: string[]) => ({
    getConnection: async (): Promise<MysqlPoolConnection> => {
      const connection = await at.console.getConnection();
      return {
        execute: async (query: MysqlQuery, values?: (string | null)[]) => {
          sent.push('execute');
          if (refuses()) throw Object.assign(new Error('not prepared'), { errno });
          return connection.execute(query, values);
        },
        query: (query: MysqlQuery, values?: (string | null)[]) => {
          sent.push('query');
          return connection.query(query, values);
        },
        on: () => {},
        removeListener: () => {},
        destroy: () => connection.destroy(),
        release: () => connection.release(),
      };
    },
  });

  test.each([1461, 1243, 1295])(
    'error %i: the same statement is sent unprepared, and so is every one after it',
    async (errno) => {
      const table = await at.madeTable();
      const sent: string[] = [];
      let full = false;
      const provider = mysqlProvider({ pool: refusing(errno, () => full, sent), table });
      await provider.abilities();
      expect(new Set(sent)).toEqual(new Set(['execute']));
      full = true;
      sent.length = 0;
      expect(await take(provider)).toMatchObject({ ok: true });
      expect(sent).toEqual(['execute', 'query', 'query']);
      full = false;
      expect(await take(provider)).toMatchObject(HELD);
      expect(await provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: MINUTE }])).toEqual(['ok']);
      expect(await provider.release({ key: 'k', owner })).toBe(true);
      expect(sent.filter((how) => how === 'execute')).toHaveLength(1);
    },
  );
});
