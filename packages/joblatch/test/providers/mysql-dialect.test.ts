import { expect, test } from 'vitest';
import { readReply } from '../../dist/providers/mysql/client.js';
import { DIALECTS, dialectOf, isTooOld } from '../../dist/providers/mysql/dialect.js';
import { checkMigrationSqlOptions } from '../../dist/providers/mysql/options.js';
import { describeExisting, type Query } from '../../dist/providers/mysql/schema.js';
import { type Seen, statementsFor } from '../../dist/providers/mysql/statements.js';
import { openClient } from '../support/mysql-clients.js';
import { describeWithMariadb, home } from '../support/mysql-server.ts';

const MINUTE = 60_000;
const owner = 'host:1';

test.each([
  ['10.11.19-MariaDB-0+deb12u1', 'mariadb', false],
  ['10.5.29-MariaDB', 'mariadb', true],
  ['11.8.2-MariaDB-ubu2404', 'mariadb', false],
  ['8.0.17', 'mysql', false],
  ['8.0.16', 'mysql', true],
  ['5.7.44-log', 'mysql', true],
  ['9.4.0', 'mysql', false],
])('%s is %s, too old: %s', (version, server, tooOld) => {
  const dialect = dialectOf(version);
  expect(dialect.server).toBe(server);
  expect(isTooOld(dialect, version)).toBe(tooOld);
});

/**
 * What is sent to MySQL, on a MariaDB: its hints are comments here, and all else both document. So this shows that
 * the statements do what they should, not that MySQL does it.
 */
describeWithMariadb('the statements for MySQL, on MariaDB', (server) => {
  const at = home(server);

  test('take, refuse, renew, give back, and nobody waits for a guard', async () => {
    const table = await at.madeTable();
    // Who waits for a lock waits for very long.
    const own = await openClient('mysql2 connection', at.url, {
      setUp: "set time_zone = '+00:00', innodb_lock_wait_timeout = 1000",
    });
    const query: Query = async ({ text, values }) =>
      readReply(await own.execute({ sql: text, rowsAsArray: true } as never, [...values]));
    const { names } = checkMigrationSqlOptions({ table });
    const found = await describeExisting(query, names);
    const mysql = statementsFor({ ...found, dialect: DIALECTS.mysql }, undefined);
    const request = { key: 'k', owner, leaseMs: MINUTE };
    const look = async (wanted: object = request): Promise<Seen> =>
      JSON.parse((await query(mysql.look({ ...request, ...wanted }))).rows[0] as string);

    expect(mysql.look(request).text).toMatch(/^select \/\*\+ set_var\(time_zone = '\+00:00'\)/);
    const made = await query(mysql.make(request, await look()));
    expect(made).toMatchObject({ changed: 1 });
    expect(made.insertId).toBeGreaterThan(1e15);
    expect((await look())[1]).toBeGreaterThan(MINUTE - 10_000);
    // Still running: not taken.
    expect(await query(mysql.take({ ...request, owner: 'other' }, await look()))).toMatchObject({
      changed: 0,
    });

    const grant = { key: 'k', owner, token: made.insertId };
    const renewed = await query(
      mysql.renewMany([
        { ...grant, leaseMs: 1 },
        { ...grant, owner: 'other', leaseMs: 1 },
      ]),
    );
    // It runs longer already, so nothing was changed; some clients are told of it as found.
    expect(renewed.changed).toBeLessThan(2);
    const checked = await query(mysql.checkRenewed([{ ...grant, leaseMs: 1 }], renewed.insertId));
    expect(JSON.parse(checked.rows[0] as string).map(Number)).toEqual([0, 1, 1]);

    await at.console.query(`update ${table} set lock_until = utc_timestamp(6) - interval 1 second`);
    const guarding = await at.console.getConnection();
    await guarding.query('begin');
    const guard = mysql.guard({ ...grant, leftMs: 1 });
    const [[[seen]]] = await guarding.query({ sql: guard.text, rowsAsArray: true }, [...guard.values]);
    expect(JSON.parse(seen).map(Number)).toEqual([0, 1]);
    // Refused, and at once.
    expect(await query(mysql.take({ ...request, owner: 'other' }, await look()))).toMatchObject({
      changed: 0,
    });
    await guarding.query('commit');
    guarding.release();
    const taken = await query(
      mysql.take({ ...request, owner: 'other', oncePerMs: 1_000 }, await look({ oncePerMs: 1_000 })),
    );
    expect(taken).toMatchObject({ changed: 1 });
    expect(taken.insertId).toBeGreaterThan(made.insertId);
    expect((await look({ oncePerMs: 86_400_000 }))[2]).toBeTruthy();

    expect(await query(mysql.release({ key: 'k', owner }))).toMatchObject({ changed: 0 });
    expect(await query(mysql.release({ key: 'k', owner: 'other' }))).toMatchObject({ changed: 1 });
    expect(await query(mysql.forceRelease('k'))).toMatchObject({ changed: 0 });
    expect((await query(mysql.inspect(undefined, ''))).rows).toHaveLength(1);
    await at.console.query(`update ${table} set slot = null, fencing_token = 1`);
    const { rows } = await query(mysql.idle(0));
    expect(await query(mysql.purge(rows, 0))).toMatchObject({ changed: 1 });
    expect(mysql.limitIdle('00', 1)).toEqual([]);
    await own.end();
  });
});
