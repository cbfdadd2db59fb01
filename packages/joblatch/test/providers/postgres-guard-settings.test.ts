import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type LockProvider, LockStoreError } from 'joblatch';
import { postgresProvider } from 'joblatch/postgres';
import { describe, expect, test } from 'vitest';
import {
  noClients,
  openClient,
  openPglite,
  openPostgres,
  type TestClients,
} from '../support/postgres-clients.js';
import { describeWithPostgres, home, java, shedlockTable } from '../support/postgres-server.ts';
import {
  beginInPglite,
  beginInPool,
  type Isolation,
  type TestTransaction,
} from '../support/postgres-transactions.ts';
import { skipAll } from '../support/skip-all.ts';

const MINUTE = 60_000;
/** Runs out within a test, and not before a slow machine has asked. */
const SHORT = 400;
const key = 'k';
const owner = 'host:1';
/** PostgreSQL finds a grant by its owner. */
const grant = { key, owner, token: 1, leftMs: 5_000 };
const renewal = { key, owner, token: 1, leaseMs: MINUTE };
const take = (provider: LockProvider, taker = owner, leaseMs = MINUTE) =>
  provider.acquire({ key, owner: taker, leaseMs });

const SETTINGS =
  "select current_setting('lock_timeout') as wait, current_setting('idle_in_transaction_session_timeout') as idle";

function guardOf(provider: LockProvider): Required<LockProvider>['guard'] {
  if (provider.guard === undefined) throw new Error('It can guard.');
  return provider.guard.bind(provider);
}

/** A provider, and a transaction of the application that is rolled back in any case. */
function playing(at: ReturnType<typeof home>) {
  return async (
    isolation: Isolation | undefined,
    play: (setup: {
      provider: LockProvider;
      guard: Required<LockProvider>['guard'];
      tx: TestTransaction;
      table: string;
    }) => Promise<void>,
    makeTable: () => Promise<string> = () => at.madeTable(),
  ): Promise<void> => {
    const table = await makeTable();
    const provider = await openPostgres('pg Pool', at.url, { table });
    const pool: TestClients['pg Pool'] = await openClient('pg Pool', at.url, { max: 1 });
    const tx = await beginInPool(pool, isolation);
    try {
      await play({ provider, guard: guardOf(provider), tx, table });
    } finally {
      await tx.rollback().catch(() => {});
      await pool.end();
      await provider.close?.();
    }
  };
}

describeWithPostgres('PostgreSQL guard: what it is given', (server) => {
  const at = home(server);

  test('what sends nothing within a transaction is an error that says what it is', async () => {
    const table = await at.madeTable();
    const provider = await openPostgres('pg Pool', at.url, { table });
    const guard = guardOf(provider);
    const sql = await openClient('postgres.js', at.url);
    const wrong: [given: unknown, found: string][] = [
      [at.console, 'a Pool of pg'],
      [sql, 'outside of sql.begin'],
      [{ exec() {}, query() {}, transaction() {} }, 'a PGlite outside of its transaction()'],
      [{}, 'an object of Object'],
      [Object.create(null), 'an object of no class'],
      [null, 'of type null'],
      [undefined, 'of type undefined'],
      ['tx', 'of type string'],
    ];
    for (const [given, found] of wrong) {
      const error: unknown = await guard(grant, given as object).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'OPTIONS', key, message: expect.stringContaining(found) });
      expect(error).toMatchObject({ message: expect.stringContaining('on which BEGIN was sent') });
    }
    await sql.end();
    await provider.close?.();
  });

  test('a connection without an open transaction is an error, also on a pg that does not tell', async () => {
    const table = await at.madeTable();
    const provider = await openPostgres('pg Pool', at.url, { table });
    const guard = guardOf(provider);
    await take(provider);
    const refusal = { code: 'OPTIONS', message: expect.stringContaining('no transaction is open there') };

    const client = await openClient('pg Client', at.url);
    const old = Object.assign(await openClient('pg Client', at.url), { getTransactionStatus: undefined });
    for (const each of [client, old as unknown as typeof client]) {
      await expect(guard(grant, each)).rejects.toMatchObject(refusal);
      await each.query('begin');
      expect(await guard(grant, each)).toBe(true);
      await each.query('commit');
      await expect(guard(grant, each)).rejects.toMatchObject(refusal);
      // A begin that still stands in line comes before the guard.
      void each.query('begin');
      expect(await guard(grant, each)).toBe(true);
      await each.query('rollback');
      await each.end();
    }

    const sql = await openClient('postgres.js', at.url);
    const reserved = await sql.reserve();
    await expect(guard(grant, reserved)).rejects.toMatchObject(refusal);
    await reserved.unsafe('begin').raw();
    expect(await guard(grant, reserved)).toBe(true);
    await reserved.unsafe('rollback').raw();
    reserved.release();
    const over = await sql.begin(async (tx) => ({ tx }));
    await expect(guard(grant, over.tx)).rejects.toMatchObject(refusal);
    await sql.end();
    await provider.close?.();
  });

  const play = playing(at);

  test('a transaction that has failed before is a store error that says so', () =>
    play(undefined, async ({ guard, tx }) => {
      await tx.query('select 1/0').catch(() => {});
      await expect(guard(grant, tx.transaction)).rejects.toMatchObject({
        code: 'STORE',
        operation: 'guard',
        message: expect.stringContaining('an earlier statement of the transaction has failed'),
      });
    }));

  test('a transaction that may only read is a store error', () =>
    play(undefined, async ({ guard, tx }) => {
      await tx.query('set transaction read only');
      await expect(guard(grant, tx.transaction)).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('that takes a transaction that may write'),
      });
    }));

  test('a search_path that does not lead to the table is a store error that says so', () =>
    play(undefined, async ({ provider, guard, tx }) => {
      await take(provider);
      await tx.query('set local search_path = pg_catalog');
      await expect(guard(grant, tx.transaction)).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('The search_path of the transaction may be another one'),
      });
    }));

  test('a lock that somebody else has by now is lost', () =>
    play(undefined, async ({ provider, tx }) => {
      const locks = createLocks({ provider });
      const lock = await locks.acquire(key);
      await lock.guard(tx.transaction);
      await tx.rollback();
      await provider.forceRelease(key);
      await take(provider, 'host:2');
      const next = await beginInPool(at.console);
      await expect(lock.guard(next.transaction)).rejects.toMatchObject({ code: 'LOST', detectedBy: 'guard' });
      expect(lock.held).toBe(false);
      await next.rollback();
      await locks.close();
    }));

  test('leaves no prepared statement on the connection', () =>
    play(undefined, async ({ provider, guard, tx }) => {
      await take(provider);
      expect(await guard(grant, tx.transaction)).toBe(true);
      expect(await tx.query('select name from pg_prepared_statements')).toEqual([]);
    }));

  test('a rollback to an older savepoint takes the guard back', () =>
    play(undefined, async ({ provider, guard, tx }) => {
      await take(provider, owner, SHORT);
      await tx.query('savepoint s');
      expect(await guard(grant, tx.transaction)).toBe(true);
      await sleep(SHORT);
      expect(await take(provider, 'host:2')).toMatchObject({ ok: false });
      await tx.query('rollback to s');
      expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
    }));
});

describeWithPostgres('PostgreSQL guard: how long it waits and keeps', (server) => {
  const at = home(server);
  const play = playing(at);

  test('the wait is bounded for its own statement only, and idling from then on', () =>
    play(undefined, async ({ provider, guard, tx }) => {
      await take(provider);
      const asked = async (): Promise<unknown> => (await tx.query(SETTINGS))[0];
      expect(await asked()).toEqual({ wait: '0', idle: '0' });
      await tx.query("set lock_timeout = '90s'; set local idle_in_transaction_session_timeout = '3s'");
      // What is not ours is not locked, and the transaction is left as it was.
      expect(await guard({ ...grant, owner: 'host:2' }, tx.transaction)).toBe(false);
      expect(await asked()).toEqual({ wait: '90s', idle: '3s' });
      // The application's own is shorter than what is left.
      expect(await guard(grant, tx.transaction)).toBe(true);
      expect(await asked()).toEqual({ wait: '90s', idle: '3s' });
      expect(await guard({ ...grant, leftMs: 1_233.4 }, tx.transaction)).toBe(true);
      // Less what the statement took.
      expect(await asked()).toEqual({ wait: '90s', idle: expect.stringMatching(/^1(234|[12]\d\d)ms$/) });
      // Ten years are more than the server can count.
      await tx.query('set local idle_in_transaction_session_timeout = 0');
      expect(await guard({ ...grant, leftMs: 3.2e11 }, tx.transaction)).toBe(true);
      expect(await asked()).toEqual({ wait: '90s', idle: '2147483647ms' });
      await tx.query('commit');
      expect(await asked()).toEqual({ wait: '90s', idle: '0' });
    }));

  test('after an error a savepoint has the settings as they were', () =>
    play(undefined, async ({ provider, guard, tx, table }) => {
      await take(provider);
      await tx.query("set local lock_timeout = '2s'");
      await tx.query('savepoint s');
      const other = await beginInPool(at.console);
      await other.query(`select from ${table} for update`);
      const before = performance.now();
      await expect(guard({ ...grant, leftMs: 100 }, tx.transaction)).rejects.toMatchObject({
        code: 'STORE',
        operation: 'guard',
        message: expect.stringContaining('somebody else keeps the record'),
      });
      expect(performance.now() - before).toBeLessThan(1_500);
      await other.rollback();
      await tx.query('rollback to s');
      expect(await tx.query(SETTINGS)).toEqual([{ wait: '2s', idle: '0' }]);
      expect(await guard(grant, tx.transaction)).toBe(true);
    }));

  test('a shorter lock_timeout of the application counts', () =>
    play(undefined, async ({ provider, guard, tx, table }) => {
      await take(provider);
      await tx.query("set local lock_timeout = '50ms'");
      const other = await beginInPool(at.console);
      await other.query(`select from ${table} for update`);
      const before = performance.now();
      await expect(guard(grant, tx.transaction)).rejects.toThrow(LockStoreError);
      expect(performance.now() - before).toBeLessThan(1_500);
      await other.rollback();
    }));

  test('a lease that ends while the guard waits is not live', () =>
    play(undefined, async ({ provider, guard, tx, table }) => {
      const other = await beginInPool(at.console);
      await take(provider, owner, SHORT);
      await other.query(`select from ${table} for update`);
      const answer = guard(grant, tx.transaction);
      await sleep(2 * SHORT);
      await other.rollback();
      expect(await answer).toBe(false);
    }));

  test('a caller who gives up is let go at once', () =>
    play(undefined, async ({ provider, guard, tx, table }) => {
      await take(provider);
      const other = await beginInPool(at.console);
      await other.query(`select from ${table} for update`);
      const before = performance.now();
      await expect(guard(grant, tx.transaction, { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('no answer yet'),
      });
      expect(performance.now() - before).toBeLessThan(1_500);
      await other.rollback();
    }));

  test('a transaction that sits idle past the lease is ended, and the process goes on', () =>
    play(undefined, async ({ provider, guard, tx }) => {
      await take(provider, owner, SHORT);
      expect(await guard({ ...grant, leftMs: SHORT }, tx.transaction)).toBe(true);
      await sleep(3 * SHORT);
      expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
      await expect(tx.commit()).rejects.toThrow();
    }));

  test('so is one of postgres.js', () =>
    play(undefined, async ({ provider, guard }) => {
      const sql = await openClient('postgres.js', at.url);
      await take(provider, owner, SHORT);
      const idle = sql.begin(async (tx) => {
        expect(await guard({ ...grant, leftMs: SHORT }, tx)).toBe(true);
        await sleep(3 * SHORT);
      });
      await expect(idle).rejects.toThrow();
      expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
      await sql.end();
    }));

  test('a transaction that is busy past the lease keeps the key', () =>
    play(undefined, async ({ provider, guard, tx }) => {
      await take(provider, owner, SHORT);
      expect(await guard({ ...grant, leftMs: SHORT }, tx.transaction)).toBe(true);
      await tx.query(`select pg_sleep(${(2 * SHORT) / 1_000})`);
      expect(await take(provider, 'host:2')).toMatchObject({ ok: false });
      await tx.commit();
      expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
    }));
});

for (const isolation of ['repeatable read', 'serializable'] as const) {
  describeWithPostgres(
    `PostgreSQL guard under ${isolation}, with a snapshot that is older than`,
    (server) => {
      const at = home(server);
      const play = playing(at);
      const tooOld = {
        code: 'STORE',
        operation: 'guard',
        message: expect.stringContaining('call guard first under REPEATABLE READ'),
      };

      test('a renewal: true after the end that it sees, and kept', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await take(provider, owner, SHORT);
          await tx.query('select 1');
          expect(await provider.renewMany([renewal])).toEqual(['ok']);
          await sleep(SHORT);
          expect(await guard(grant, tx.transaction)).toBe(true);
          expect(await guard(grant, tx.transaction)).toBe(true);
          await provider.forceRelease(key);
          expect(await take(provider, 'host:2')).toMatchObject({ ok: false });
        }));

      test('a renewal that has run out too: false, and the transaction goes on', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await take(provider, owner, SHORT / 2);
          await tx.query('select 1');
          expect(await provider.renewMany([{ ...renewal, leaseMs: SHORT }])).toEqual(['ok']);
          await sleep(2 * SHORT);
          expect(await guard(grant, tx.transaction)).toBe(false);
          await tx.query('select 1');
          await tx.rollback();
          expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
        }));

      test('the take-over by somebody else: an error', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await take(provider, owner, SHORT);
          await tx.query('select 1');
          await sleep(SHORT);
          expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
          await expect(guard(grant, tx.transaction)).rejects.toMatchObject(tooOld);
        }));

      test('a take-over after a release by force: an error, though the end that it sees is to come', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await take(provider);
          await tx.query('select 1');
          await provider.forceRelease(key);
          expect(await take(provider, 'host:2')).toMatchObject({ ok: true });
          await expect(guard(grant, tx.transaction)).rejects.toMatchObject(tooOld);
        }));

      test('the release: false', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await take(provider);
          await tx.query('select 1');
          await provider.release({ key, owner });
          expect(await guard(grant, tx.transaction)).toBe(false);
        }));

      test('the record: an error', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await tx.query('select 1');
          await take(provider);
          await expect(guard(grant, tx.transaction)).rejects.toMatchObject(tooOld);
        }));

      test('the acquisition: an error', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await take(provider, 'host:0');
          await provider.release({ key, owner: 'host:0' });
          await tx.query('select 1');
          await take(provider);
          await expect(guard(grant, tx.transaction)).rejects.toMatchObject(tooOld);
        }));

      test('somebody else without the key: false', () =>
        play(isolation, async ({ provider, guard, tx }) => {
          await tx.query('select 1');
          await take(provider, 'host:2');
          expect(await guard(grant, tx.transaction)).toBe(false);
        }));

      test("Java's take-over after a release by force: false", () =>
        play(
          isolation,
          async ({ provider, guard, tx, table }) => {
            await take(provider);
            await tx.query('select 1');
            await provider.forceRelease(key);
            await at.console.query(java.lock.replaceAll('$table', table), [key, 60]);
            expect(await guard(grant, tx.transaction)).toBe(false);
          },
          async () => {
            const table = at.freshTable();
            await at.console.query(shedlockTable(table));
            return table;
          },
        ));
    },
  );
}

describe('PGlite guard', () => {
  if (noClients !== undefined) return skipAll('PGlite', noClients);
  test('within its transaction, and nowhere else', { timeout: 60_000 }, async () => {
    const pglite = await openPglite();
    const provider = postgresProvider({ pglite, autoMigrate: true });
    const guard = guardOf(provider);
    await take(provider);
    for (const live of [true, false]) {
      const tx = await beginInPglite(pglite);
      expect(await guard(grant, tx.transaction)).toBe(live);
      await tx.commit();
      await expect(guard(grant, tx.transaction)).rejects.toMatchObject({ code: 'OPTIONS' });
      await provider.release({ key, owner });
    }
    await expect(guard(grant, pglite)).rejects.toMatchObject({ code: 'OPTIONS' });
    await pglite.close();
  });
});
