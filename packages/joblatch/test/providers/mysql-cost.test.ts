import { migrateMysql, mysqlProvider } from 'joblatch/mysql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openClient, openMysql, type TestPool } from '../support/mysql-clients.js';
import { noOwnMariadb, OwnMariadb } from '../support/mysql-own-server.ts';
import { skipAll } from '../support/skip-all.ts';

const ATTEMPTS = 10_000;
const TOGETHER = 50;
const MINUTE = 60_000;

/** What losers cost a server that keeps a binary log. */
describe.each(['MIXED', 'STATEMENT', 'ROW'])(
  'MariaDB: losing attempts, binary log in %s format',
  (format) => {
    if (noOwnMariadb !== undefined) return skipAll('what losers cost', noOwnMariadb);
    let server: OwnMariadb;
    let console_: TestPool;
    beforeAll(async () => {
      server = await OwnMariadb.start(() => ['--log-bin=bin', `--binlog-format=${format}`, '--server-id=1']);
      console_ = await openClient('mysql2 pool', server.url);
      await migrateMysql({ pool: console_ });
    }, 60_000);
    afterAll(async () => {
      await console_?.end();
      await server?.remove();
    });

    const logged = async (): Promise<string> => {
      const [[{ File, Position }]] = await console_.query('show master status');
      return `${File}:${Position}`;
    };
    const lockedRows = async (): Promise<number> => {
      const [[{ n }]] = await console_.query(
        'select coalesce(sum(trx_rows_locked), 0) as n from information_schema.innodb_trx',
      );
      return Number(n);
    };
    const lose = async (attempts: number): Promise<void> => {
      const provider = mysqlProvider({ pool: console_ });
      for (let i = 0; i < attempts; i += TOGETHER) {
        const results = await Promise.all(
          Array.from({ length: TOGETHER }, (_, j) =>
            provider.acquire({ key: 'held', owner: `loser-${i + j}`, leaseMs: MINUTE }),
          ),
        );
        for (const result of results) expect(result).toMatchObject({ ok: false, reason: 'held' });
      }
    };

    test(`${ATTEMPTS} of them write nothing, and leave no lock`, async () => {
      const holder = mysqlProvider({ pool: console_ });
      expect(await holder.acquire({ key: 'held', owner: 'holder', leaseMs: 10 * MINUTE })).toMatchObject({
        ok: true,
      });
      const before = await logged();
      await lose(format === 'MIXED' ? ATTEMPTS : TOGETHER);
      expect(await logged()).toBe(before);
      expect(await lockedRows()).toBe(0);
      // The log is looked at in the right place.
      expect(await holder.release({ key: 'held', owner: 'holder' })).toBe(true);
      expect(await logged()).not.toBe(before);
    }, 60_000);

    test('none waits behind the lock of somebody else', async () => {
      const holder = await openMysql('mysql2 pool', server.url);
      await holder.acquire({ key: 'held', owner: 'holder', leaseMs: 10 * MINUTE });
      const other = await console_.getConnection();
      await other.query('begin');
      await other.query("select * from shedlock where name = 'held' for update");
      const asked = performance.now();
      await lose(500);
      // Any wait would be of 50 s.
      expect(performance.now() - asked).toBeLessThan(30_000);
      await other.query('rollback');
      other.release();
      await holder.release({ key: 'held', owner: 'holder' });
      await holder.close?.();
    }, 60_000);
  },
);
