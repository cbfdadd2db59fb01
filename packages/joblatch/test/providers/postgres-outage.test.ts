import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createLocks, type LockProvider, LockStoreError } from 'joblatch';
import { migratePostgres, postgresProvider } from 'joblatch/postgres';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { CLIENT_NAMES, closeClient, noClients, openClient, sourceOf } from '../support/postgres-clients.js';
import { noOwnServer, OwnServer } from '../support/postgres-own-server.ts';
import type { Pool } from '../support/postgres-server.ts';
import { skipAll } from '../support/skip-all.ts';

const MINUTE = 60_000;
const ATTEMPTS = 10_000;
/** How long a client may take to reach a server that is back. */
const BACK_MS = 20_000;
const owner = 'host:1';
const take = (provider: LockProvider, key = 'k', taker = owner) =>
  provider.acquire({ key, owner: taker, leaseMs: MINUTE });

describe('PostgreSQL: a server that goes away', () => {
  const reason = noClients ?? noOwnServer;
  if (reason !== undefined) return skipAll('a server that goes away', reason);
  let server: OwnServer;
  beforeAll(async () => {
    server = await OwnServer.start();
    const pool = await openClient('pg Pool', server.url);
    await migratePostgres({ pool });
    await closeClient('pg Pool', pool);
  }, 60_000);
  afterAll(() => server.remove());

  /** Looks behind the provider's back, through a connection that is not affected by what is tested. */
  const onTheSide = async <T>(work: (pool: Pool) => Promise<T>): Promise<T> => {
    const pool = await openClient('pg Pool', server.url, { max: 1 });
    try {
      return await work(pool);
    } finally {
      await closeClient('pg Pool', pool);
    }
  };
  const terminateOthers = () =>
    onTheSide((pool) =>
      pool.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
      ),
    );
  afterEach(() => onTheSide((pool) => pool.query('delete from shedlock')));

  test('ten thousand losing attempts write less than a byte of WAL each', async () => {
    const pool = await openClient('pg Pool', server.url);
    const provider = postgresProvider({ pool });
    // Each loses a key for the first time, by the statement that could have taken it.
    await pool.query(
      `insert into shedlock select 'key-' || i, now() + interval '1 hour', now(), 'x', i, null from generate_series(1, ${ATTEMPTS}) i`,
    );
    await pool.query('vacuum shedlock');
    await pool.query('checkpoint');
    const position = async (): Promise<number> =>
      Number((await pool.query("select (pg_current_wal_insert_lsn() - '0/0')::float8 as at")).rows[0]?.at);
    const before = await position();
    const lose = async (part: number): Promise<void> => {
      for (let i = part; i <= ATTEMPTS; i += 4) {
        const result = await take(provider, `key-${i}`);
        if (result.ok) throw new Error('Expected to lose.');
      }
    };
    await Promise.all([1, 2, 3, 4].map(lose));
    const written = (await position()) - before;
    console.info(`${ATTEMPTS} losing attempts wrote ${written} bytes of WAL`);
    expect(written).toBeLessThan(ATTEMPTS);
    await closeClient('pg Pool', pool);
  }, 120_000);

  for (const name of CLIENT_NAMES.filter((each) => each !== 'pg Client')) {
    test.each(['SIGINT', 'SIGQUIT'] as const)(
      `${name}: stopped by %s while a lock is held: errors in time, and the lock is there afterwards`,
      async (signal) => {
        const client = await openClient(name, server.url);
        const provider = postgresProvider(sourceOf(name, client));
        const locks = createLocks({ provider, storeTimeout: 1_000 });
        const held = await locks.acquire('held', { lease: MINUTE });
        await server.stop(signal);
        for (let i = 0; i < 3; i += 1)
          await expect(locks.tryAcquire('k')).rejects.toBeInstanceOf(LockStoreError);
        expect(held.held).toBe(true);
        await server.start();
        const takeAndGiveBack = async () => (await locks.tryAcquire('k'))?.release();
        await expect.poll(() => takeAndGiveBack().catch(() => undefined), { timeout: BACK_MS }).toBe(true);
        expect(await locks.tryAcquire('held')).toBeUndefined();
        expect(await held.release()).toBe(true);
        await locks.close();
        await closeClient(name, client);
      },
      60_000,
    );
  }

  for (const name of CLIENT_NAMES) {
    test(`${name}: its connection is killed in the middle of a call, and while it is idle`, async () => {
      const client = await openClient(name, server.url);
      const provider = postgresProvider(sourceOf(name, client));
      await take(provider);
      await terminateOthers();
      if (name === 'pg Client') {
        // It does not come back by itself, and says so; the process lives.
        await expect(take(provider)).rejects.toBeInstanceOf(LockStoreError);
        // What it learns of its end comes in two parts, and the second one as an `error` event.
        await new Promise((resolve) => setTimeout(resolve, 200));
      } else {
        await expect
          .poll(() => take(provider).catch(() => undefined), { timeout: BACK_MS })
          .toMatchObject({ ok: false, reason: 'held' });
        const blocker = await openClient('pg Client', server.url);
        blocker.on('error', () => {});
        await blocker.query('begin');
        await blocker.query('select from shedlock for update');
        const inFlight = expect(provider.release({ key: 'k', owner })).rejects.toBeInstanceOf(LockStoreError);
        await new Promise((resolve) => setTimeout(resolve, 200));
        await terminateOthers();
        await inFlight;
        await expect
          .poll(() => provider.release({ key: 'k', owner }).catch(() => undefined), { timeout: BACK_MS })
          .toBe(true);
        if (name === 'pg Pool') expect((client as Pool).totalCount).toBeLessThanOrEqual(1);
        await blocker.end().catch(() => {});
      }
      await provider.close?.();
      await closeClient(name, client).catch(() => {});
    }, 60_000);
  }

  test('an application that only uses joblatch outlives it all, and ends by itself', async () => {
    const script = fileURLToPath(new URL('../support/postgres-outlive.js', import.meta.url));
    const child = spawn(process.execPath, [script, server.url], { stdio: ['pipe', 'pipe', 'pipe'] });
    const ended = once(child, 'exit');
    const errors: string[] = [];
    child.stderr.on('data', (data: Buffer) => errors.push(data.toString()));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const next = async (): Promise<unknown> => (await lines.next()).value;
    const attempt = (): Promise<unknown> => {
      child.stdin.write('attempt\n');
      return next();
    };
    expect(await next()).toBe('held');
    await terminateOthers();
    await expect.poll(attempt, { timeout: BACK_MS }).toBe('refused');
    await server.stop();
    expect(await attempt()).toBe('STORE');
    await server.start();
    await expect.poll(attempt, { timeout: BACK_MS }).toBe('refused');
    await server.stop('SIGQUIT');
    expect(await attempt()).toBe('STORE');
    child.stdin.write('end\n');
    expect(await next()).toBe('STORE');
    expect(await next()).toBe('exit 0');
    expect(await ended).toEqual([0, null]);
    expect(errors).toEqual([]);
    await server.start();
  }, 90_000);

  // Last: it stays one.
  test('a standby can be read, and says what it is to who wants a lock', async () => {
    const pool = await openClient('pg Pool', server.url);
    const provider = postgresProvider({ pool });
    await take(provider);
    await closeClient('pg Pool', pool);
    await server.stop();
    server.becomeStandby();
    await server.start();
    const standby = await openClient('pg Pool', server.url);
    const reading = postgresProvider({ pool: standby });
    expect(await reading.inspect({ key: 'k' })).toMatchObject([{ state: 'held', owner }]);
    for (const attempt of [
      () => take(reading, 'l'),
      () => reading.release({ key: 'k', owner }),
      () => reading.renewMany([{ key: 'k', owner, token: 1, leaseMs: 1 }]),
    ]) {
      await expect(attempt()).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringMatching(/standby.*primary/),
      });
    }
    await closeClient('pg Pool', standby);
    await server.remove();
    server = await OwnServer.start();
    await onTheSide((fresh) => migratePostgres({ pool: fresh }));
  }, 60_000);
});
