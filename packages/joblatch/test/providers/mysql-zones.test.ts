import type { LockProvider } from 'joblatch';
import { migrateMysql } from 'joblatch/mysql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { closeClient, openClient, openMysql, type TestPool } from '../support/mysql-clients.js';
import { noOwnMariadb, OwnMariadb } from '../support/mysql-own-server.ts';
import { describeWithMariadb, home, java, shedlockTable } from '../support/mysql-server.ts';
import { lastSundayAtOne, loadPrague, PRAGUE } from '../support/mysql-zones.ts';
import { skipAll } from '../support/skip-all.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const owner = 'host:1';
const SECONDS = 1_000_000;

describeWithMariadb('MariaDB: Java sessions in a zone of their own', (server) => {
  const at = home(server);
  beforeAll(() => loadPrague(at.console));

  test.each(['-05:00', '+05:00', PRAGUE])(
    '%s: with sessionTimeZone each sees what the other means',
    async (zone) => {
      const table = at.freshTable();
      await at.console.query(shedlockTable(table));
      await migrateMysql({ pool: at.console, table });
      const javaSide = await openClient('mysql2 connection', at.url, { setUp: `set time_zone = '${zone}'` });
      const provider = await openMysql('mysql2 pool', at.url, { table, sessionTimeZone: zone });
      const take = () => provider.acquire({ key: 'k', owner, leaseMs: MINUTE });

      await javaSide.query(java.insert(table), ['k', 60 * SECONDS]);
      expect(await take()).toMatchObject({ ok: false, reason: 'held' });
      const [record] = await provider.inspect({ key: 'k' });
      expect(record?.leftMs).toBeGreaterThan(50_000);
      expect(record?.leftMs).toBeLessThanOrEqual(MINUTE);
      await javaSide.query(java.unlock(table), ['k']);
      expect(await take()).toMatchObject({ ok: true });
      const [{ affectedRows }] = await javaSide.query(java.update(table), [60 * SECONDS, 'k']);
      expect(affectedRows).toBe(0);
      await provider.close?.();
      await closeClient('mysql2 connection', javaSide);
    },
  );

  test('a zone that the server does not know is an error that says so', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    const provider = await openMysql('mysql2 pool', at.url, { table, sessionTimeZone: 'Mars/Olympus' });
    await expect(provider.acquire({ key: 'k', owner, leaseMs: MINUTE })).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringMatching(/does not know the time zone.*zone tables/),
    });
    await provider.close?.();
  });
});

/** The hour that clocks skip, and the one that they show twice, with TIMESTAMP columns in the server's own zone. */
describe('MariaDB: a server whose clocks are moved', () => {
  if (noOwnMariadb !== undefined) return skipAll('a server whose clocks are moved', noOwnMariadb);
  let server: OwnMariadb;
  let root: TestPool;
  beforeAll(async () => {
    server = await OwnMariadb.start();
    root = await openClient('mysql2 pool', server.url);
    await loadPrague(root);
    await root.query(`set global time_zone = '${PRAGUE}'`);
  }, 60_000);
  afterAll(async () => {
    await root?.end();
    await server?.remove();
  });

  /** A provider whose sessions have the time of this instant, and stay there. */
  const at = (instant: number, table: string, zone: string): Promise<LockProvider> =>
    openMysql('mysql2 pool', server.url, {
      table,
      clientOptions: { setUp: `set time_zone = '${zone}', timestamp = ${instant / 1_000}` },
    });
  /** In March two o'clock is followed by three: a wall time in UTC between them is none in Prague. */
  const gapStarts = lastSundayAtOne(2031, 2) + HOUR;
  /** In October two o'clock comes twice. */
  const foldStarts = lastSundayAtOne(2031, 9) + HOUR;
  let tables = 0;
  const madeTable = async (kind: 'ours' | 'timestamp(3)'): Promise<string> => {
    tables += 1;
    const table = `locks_${tables}`;
    if (kind !== 'ours') await root.query(shedlockTable(table, kind));
    await migrateMysql({ pool: root, table });
    return table;
  };
  const take = (provider: LockProvider, taker: string, leaseMs = MINUTE) =>
    provider.acquire({ key: 'k', owner: taker, leaseMs });

  test.each([
    ['the skipped hour', gapStarts + 10 * MINUTE],
    ['the hour before it, with an end in it', gapStarts - MINUTE / 2],
    ['the hour that comes twice', foldStarts + 10 * MINUTE],
    ['the hour before that', foldStarts - MINUTE / 2],
  ])(
    '%s: one holder at a time, and no error',
    async (_what, instant) => {
      for (const kind of ['timestamp(3)', 'ours'] as const) {
        const table = await madeTable(kind);
        const [here, there, after] = await Promise.all([
          at(instant, table, '+00:00'),
          at(instant + MINUTE / 3, table, '-05:00'),
          at(instant + 2 * HOUR, table, PRAGUE),
        ]);
        const first = await take(here, 'first');
        expect(first).toMatchObject({ ok: true });
        expect(await take(there, 'second')).toMatchObject({ ok: false, reason: 'held' });
        const token = first.ok ? first.token : 0;
        expect(await there.renewMany([{ key: 'k', owner: 'first', token, leaseMs: MINUTE }])).toEqual(['ok']);
        expect(await there.release({ key: 'k', owner: 'first' })).toBe(true);
        // Given back in the skipped hour it is free when that is over, at the latest.
        const third = await take(after, 'third');
        expect(third).toMatchObject({ ok: true });
        expect(third.ok && third.token > token).toBe(true);
        if (kind === 'ours') {
          expect(await after.release({ key: 'k', owner: 'third' })).toBe(true);
          expect(await take(after, 'fourth')).toMatchObject({ ok: true });
        }
        await Promise.all([here, there, after].map((provider) => provider.close?.()));
      }
    },
    60_000,
  );

  test('our own table frees a key at once in the skipped hour', async () => {
    const table = await madeTable('ours');
    const [here, there] = [
      await at(gapStarts + 10 * MINUTE, table, PRAGUE),
      await at(gapStarts + 11 * MINUTE, table, '+05:00'),
    ];
    expect(await take(here, 'first', HOUR)).toMatchObject({ ok: true });
    expect(await there.release({ key: 'k', owner: 'first' })).toBe(true);
    expect(await take(there, 'second')).toMatchObject({ ok: true });
    await Promise.all([here.close?.(), there.close?.()]);
  });
});
