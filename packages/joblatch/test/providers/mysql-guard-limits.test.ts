import { nodeRuntime } from 'joblatch';
import { migrateMysql, mysqlProvider } from 'joblatch/mysql';
import { expect, test } from 'vitest';
import {
  closeClient,
  openClient,
  openMysql,
  type TestConnection,
  type TestPool,
} from '../support/mysql-clients.js';
import { describeWithMariadb, home, shedlockTable } from '../support/mysql-server.ts';

const MINUTE = 60_000;
const owner = 'host:1';
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describeWithMariadb('MariaDB: what a guard leaves alone', (server) => {
  const at = home(server);
  const begin = async (isolation = 'repeatable read'): Promise<TestConnection> => {
    const connection = await at.console.getConnection();
    await connection.query(`set transaction isolation level ${isolation}`);
    await connection.query('start transaction');
    return connection;
  };
  const end = async (connection: TestConnection): Promise<void> => {
    await connection.query('rollback');
    connection.release();
  };

  test.each(['repeatable read', 'serializable'])('%s: a lost one keeps nobody out', async (isolation) => {
    const table = await at.madeTable();
    const provider = mysqlProvider({ pool: at.console, table });
    const granted = await provider.acquire({ key: 'lost', owner, leaseMs: MINUTE });
    await provider.forceRelease('lost');
    // InnoDB removes what was there before.
    await sleep(2_000);
    const connection = await begin(isolation);
    const token = granted.ok ? granted.token : 0;
    expect(await provider.guard?.({ key: 'lost', owner, token, leftMs: MINUTE }, connection)).toBe(false);
    for (const key of ['a', 'lost', 'z']) {
      expect(await provider.acquire({ key, owner: `other:${key}`, leaseMs: MINUTE })).toMatchObject({
        ok: true,
      });
    }
    await end(connection);
  });

  test('other records are purged', async () => {
    const table = await at.madeTable();
    const provider = mysqlProvider({ pool: at.console, table });
    for (const key of ['a', 'b', 'z']) {
      await provider.acquire({ key, owner, leaseMs: MINUTE });
      await provider.release({ key, owner });
    }
    const granted = await provider.acquire({ key: 'guarded', owner, leaseMs: 300 });
    const token = granted.ok ? granted.token : 0;
    const connection = await begin();
    expect(await provider.guard?.({ key: 'guarded', owner, token, leftMs: 300 }, connection)).toBe(true);
    await sleep(400);
    expect(await provider.purge({ idleMs: 0 })).toBe(3);
    await end(connection);
    expect(await provider.purge({ idleMs: 0 })).toBe(1);
  });

  test('a session that sees what is not committed does not take it for a loss', async () => {
    const table = await at.madeTable();
    const setUp = "set tx_isolation = 'READ-UNCOMMITTED'";
    const provider = await openMysql('mysql2 pool', at.url, { table, clientOptions: { setUp } });
    const granted = await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    const token = granted.ok ? granted.token : 0;
    const connection = await begin();
    expect(await provider.guard?.({ key: 'k', owner, token, leftMs: MINUTE }, connection)).toBe(true);
    // It has changed the row, and waits for the entry that is guarded; for a second.
    const force = provider.forceRelease('k').catch((error: unknown) => error);
    await sleep(300);
    expect(await provider.renewMany([{ key: 'k', owner, token, leaseMs: MINUTE }])).not.toEqual(['lost']);
    expect(await force).toMatchObject({ code: 'STORE' });
    expect(await provider.renewMany([{ key: 'k', owner, token, leaseMs: MINUTE }])).toEqual(['ok']);
    await end(connection);
    await provider.close?.();
  });

  test('a transaction in another database of the server', async () => {
    const table = await at.madeTable();
    const provider = mysqlProvider({ pool: at.console, table });
    const granted = await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    const elsewhere = await openClient('mysql2 connection', server);
    await elsewhere.query(
      `create table if not exists ${table} like ${new URL(at.url).pathname.slice(1)}.${table}`,
    );
    await elsewhere.query('start transaction');
    const token = granted.ok ? granted.token : 0;
    expect(await provider.guard?.({ key: 'k', owner, token, leftMs: MINUTE }, elsewhere)).toBe(true);
    await elsewhere.query('rollback');
    await elsewhere.query(`drop table ${table}`);
    await closeClient('mysql2 connection', elsewhere);
  });

  /** What the session of the only connection of a pool has. */
  const limitOf = async (pool: TestPool): Promise<number> => {
    const connection = await pool.getConnection();
    const answer = await connection.query('select @@session.idle_transaction_timeout as n');
    await connection.release();
    const rows = Array.isArray(answer[0]) ? answer[0] : answer;
    return Number((rows as unknown as { n: number }[])[0]?.n);
  };

  test.each(['mysql2 pool', 'mariadb pool'] as const)(
    '%s: the limit of the session is what it was, when the guards are over',
    async (client) => {
      const table = await at.madeTable();
      const provider = mysqlProvider({ pool: at.console, table });
      const setUp = 'set session idle_transaction_timeout = 60';
      const pool = (await openClient(client, at.url, { connectionLimit: 1, setUp })) as TestPool;
      const guarded = async (key: string, leftMs: number, during = async (_: TestConnection) => {}) => {
        const granted = await provider.acquire({ key, owner, leaseMs: MINUTE });
        const token = granted.ok ? granted.token : 0;
        const connection = await pool.getConnection();
        await connection.query('start transaction');
        expect(await provider.guard?.({ key, owner, token, leftMs }, connection)).toBe(true);
        await during(connection);
        await connection.query('commit');
        await connection.release();
      };
      // One after another, on one connection, the later one longer; and the first is set back in between.
      await guarded('short', 1_500);
      expect(await limitOf(pool)).toBe(3);
      await guarded('long', 6_000);
      expect(await limitOf(pool)).toBe(7);
      await sleep(2_000);
      expect(await limitOf(pool)).toBe(7);
      await expect.poll(() => limitOf(pool), { timeout: 15_000 }).toBe(60);
      // What the application sets meanwhile is its own.
      await guarded('own', 300, async (connection) => {
        await connection.query('set session idle_transaction_timeout = 40');
      });
      await sleep(800);
      expect(await limitOf(pool)).toBe(40);
      await closeClient(client, pool);
    },
  );
});

describeWithMariadb('MariaDB: tables and times that change', (server) => {
  const at = home(server);

  test('a column that compares in another way from now on', async () => {
    const table = at.freshTable();
    await at.console.query(`${shedlockTable(table)} default charset latin1`);
    await migrateMysql({ pool: at.console, table });
    const provider = mysqlProvider({ pool: at.console, table });
    const granted = await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    const token = granted.ok ? granted.token : 0;
    await at.console.query(
      `alter table ${table} modify name varchar(64) character set utf8mb4 collate utf8mb4_nopad_bin not null`,
    );
    expect(await provider.renewMany([{ key: 'k', owner, token, leaseMs: MINUTE }])).toEqual(['ok']);
    expect(await provider.acquire({ key: 'K', owner, leaseMs: MINUTE })).toMatchObject({ ok: true });
    expect(await provider.acquire({ key: 'ž', owner, leaseMs: MINUTE })).toMatchObject({ ok: true });
    expect(await provider.release({ key: 'k', owner })).toBe(true);
  });

  test('an end that a TIMESTAMP can not hold is refused', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    const runtime = { ...nodeRuntime, wall: () => Date.UTC(2029, 0, 1) };
    const provider = mysqlProvider({ pool: at.console, table, runtime });
    const years = (n: number): number => n * 365 * 86_400_000;
    await expect(provider.acquire({ key: 'k', owner, leaseMs: years(10) })).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringContaining('2038'),
    });
    expect(await provider.acquire({ key: 'k', owner, leaseMs: years(1) })).toMatchObject({ ok: true });
    // Nor is one that follows from the beginning: it would be none, and the key free at once.
    const setUp = `set timestamp = ${Date.UTC(2029, 0, 1) / 1_000}`;
    const then = await openMysql('mysql2 pool', at.url, { table, runtime, clientOptions: { setUp } });
    const kept = { key: 'kept', owner, token: 1, leaseMs: MINUTE };
    expect(await then.acquire(kept)).toMatchObject({ ok: true });
    expect(await then.renewMany([{ ...kept, atLeastMs: years(10) }])).toEqual(['ok']);
    expect(await then.release({ ...kept, keepMs: years(10) })).toBe(true);
    expect(await then.acquire({ ...kept, owner: 'host:2' })).toMatchObject({ ok: false, reason: 'held' });
    await then.close?.();
  });

  test('of many renewals the answers that are known are told, when the connection is lost between them', async () => {
    const table = await at.madeTable();
    const take = mysqlProvider({ pool: at.console, table });
    const grants = await Promise.all(
      Array.from({ length: 1_001 }, async (_, i) => {
        const key = `key-${i}`;
        const granted = await take.acquire({ key, owner, leaseMs: 10 * MINUTE });
        return { key, owner, token: granted.ok ? granted.token : 0, leaseMs: 20 * MINUTE };
      }),
    );
    let left = Number.POSITIVE_INFINITY;
    const failing = {
      getConnection: async () => {
        left -= 1;
        if (left < 0) throw new Error('gone');
        return at.console.getConnection();
      },
    };
    const provider = mysqlProvider({ pool: failing, table });
    await provider.abilities();
    left = 1;
    const answers = await provider.renewMany(grants);
    expect(answers.filter((answer) => answer === 'ok')).toHaveLength(1_000);
    expect(answers.at(-1)).toBe('unknown');
    await expect(provider.renewMany(grants)).rejects.toMatchObject({ code: 'STORE' });
  });
});
