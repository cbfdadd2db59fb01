import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { createPool } from 'mysql2/promise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noOwnMariadb, OwnMariadb } from '../../joblatch/test/support/mysql-own-server.ts';
import { skipAll } from '../../joblatch/test/support/skip-all.ts';
import type { Finding } from '../src/doctor/finding.ts';
import { judgeVersion } from '../src/doctor/mysql.ts';
import { judgeReplication } from '../src/doctor/mysql-replication.ts';
import { judgeSettings } from '../src/doctor/mysql-settings.ts';
import { judgeZone } from '../src/doctor/mysql-zone.ts';
import { type Sandbox, sandboxes, until } from './sandbox.ts';
import { describeOn } from './servers.ts';

interface ReportJson {
  readonly worst: string;
  readonly findings: readonly Finding[];
}

/** What was found, by its code. */
async function examine(box: Sandbox, query = ''): Promise<Map<string, Finding>> {
  const { findings } = await box.ask<ReportJson>('doctor', '-s', box.store + query);
  return new Map(findings.map((finding) => [finding.code, finding]));
}

const severities = (findings: readonly Finding[]): string[] =>
  findings.map(({ code, severity }) => `${code} ${severity}`);

/** As ShedLock's README has it. */
const shedlock = (table: string): string =>
  `create or replace table ${table} (name varchar(64) not null, lock_until timestamp(3) not null,
    locked_at timestamp(3) not null default current_timestamp(3), locked_by varchar(255) not null, primary key (name))
    default charset utf8mb4 collate utf8mb4_general_ci`;

describeOn('mariadb', 'doctor', (server) => {
  const box = sandboxes(server.fresh);
  const pool = createPool({ uri: server.url.replace(/\?.*/, ''), connectionLimit: 1 });
  afterAll(() => pool.end());
  const place = (): { schema: string; table: string } => {
    const { searchParams } = new URL(box().store);
    return { schema: searchParams.get('schema') as string, table: searchParams.get('table') as string };
  };
  const table = (): string => `${place().schema}.${place().table}`;

  it.each(['mysql2', 'mariadb'])('what is right is ok, and the status is 0: %s', async (driver) => {
    const { code, stdout } = await box().run(['doctor', '-s', `${box().store}&driver=${driver}`]);
    expect(code).toBe(0);
    for (const what of [
      'connection',
      'version',
      'clock-difference',
      'table',
      'collation',
      'rights',
      'time-zone',
      'role',
      'autocommit',
      'proxy',
    ])
      expect(stdout).toMatch(new RegExp(`^ok +${what} `, 'm'));
    expect(stdout).not.toMatch(/table-|shedlock/);
    expect(stdout).toMatch(/\n\d+ ok, \d+ info, \d+ warning, 0 error\n$/);
  });

  it("ShedLock's own table lacks columns and an index, and joblatch migrate adds them", async () => {
    await pool.query(shedlock(table()));
    const before = await examine(box());
    for (const what of ['table-token', 'table-slot', 'table-guard'])
      expect(before.get(what)).toMatchObject({
        severity: 'warning',
        remedy: expect.stringContaining('migrate'),
      });
    expect(before.get('table-name-length')).toMatchObject({ found: 'names of up to 64 characters fit' });
    expect(before.get('table')?.found).toContain('lock_until timestamp(3)');
    expect(before.get('collation')).toMatchObject({
      severity: 'info',
      found: 'utf8mb4_general_ci does not tell upper and lower case, accents, blanks at the end apart',
    });
    expect(before.get('shedlock')?.remedy).toContain('usingDbTime()');
    expect(before.get('time-zone')?.found).toContain('TIMESTAMP, in the zone of the server');
    expect(before.get('table-range')).toMatchObject({ severity: 'info' });
    await box().ok(['migrate']);
    const after = await examine(box());
    expect(['table-token', 'table-slot', 'table-guard'].filter((what) => after.has(what))).toEqual([]);
  });

  it('the zone that the URL says of the sessions of Java', async () => {
    await pool.query(shedlock(table()));
    const found = await examine(box(), '&sessionTimeZone=+02:00');
    expect(found.get('time-zone')).toMatchObject({
      severity: 'warning',
      found: expect.stringContaining('+02:00 (sessionTimeZone; the server has '),
      remedy: expect.stringContaining('DATETIME(3)'),
    });
    expect((await examine(box(), '&sessionTimeZone=%2B00:00')).get('time-zone')).toMatchObject({
      severity: 'ok',
    });
    expect((await examine(box(), '&sessionTimeZone=Nowhere/Land')).get('time-zone')).toMatchObject({
      severity: 'error',
      found: expect.stringContaining('does not know'),
    });
    const bad = await box().run(['doctor', '-s', `${box().store}&sessionTimeZone=here'`]);
    expect(bad).toMatchObject({ code: 64, stderr: expect.stringContaining('sessionTimeZone is') });
  });

  it('DATETIME columns have no zone, and names in another character set are told', async () => {
    await pool.query(
      `${shedlock(table()).replaceAll('timestamp(3)', 'datetime(3)').replace('current_datetime(3)', 'current_timestamp(3)').replace('utf8mb4_general_ci', 'utf8mb4_nopad_bin').replace('utf8mb4 ', 'utf8mb4 ')}`,
    );
    const found = await examine(box());
    expect(found.get('time-zone')).toMatchObject({ severity: 'ok' });
    expect(found.get('collation')).toMatchObject({ severity: 'ok' });
    await pool.query(
      `alter table ${table()} modify name varchar(64) character set latin1 collate latin1_swedish_ci not null`,
    );
    const latin = await examine(box());
    expect(latin.get('encoding')).toMatchObject({ severity: 'info', found: 'names are in latin1' });
    expect(latin.get('collation')?.found).toContain('latin1_swedish_ci does not tell upper and lower case');
  });

  it.each([
    ['engine = MyISAM', 'InnoDB'],
    ['modify lock_until timestamp(0) not null', 'digits of a second'],
    ['modify lock_until date not null', 'of type date'],
    ['drop column locked_by', 'no column'],
  ])('a table that can not hold locks is an error: %s', async (change, said) => {
    await pool.query(shedlock(table()));
    await pool.query(`alter table ${table()} ${change}`);
    const found = await examine(box());
    expect(found.get('table')).toMatchObject({ severity: 'error', found: expect.stringContaining(said) });
  });

  it('rights that the user lacks', async () => {
    const user = `reader_${Math.random().toString(36).slice(2)}`;
    await pool.query(`create user ${user}@'%' identified by 'hunter2'`);
    try {
      await pool.query(`grant select, insert, update on ${table()} to ${user}@'%'`);
      const store = box()
        .store.replace(/root@/, `${user}:hunter2@`)
        .replace('/joblatch?', `/${place().schema}?`);
      const asked = await box().run(['doctor', '--json', '-s', store]);
      expect(asked.stdout).not.toContain('hunter2');
      const { findings } = JSON.parse(asked.stdout) as ReportJson;
      expect(findings.find(({ code }) => code === 'rights')).toMatchObject({
        severity: 'warning',
        found: 'no right to delete',
      });
      expect(findings.filter(({ found }) => found.startsWith('could not be looked at'))).toEqual([]);
      await pool.query(`revoke insert on ${table()} from ${user}@'%'`);
      const less = await box().run(['doctor', '-s', store]);
      expect(less).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/^error +rights +no right to insert, delete$/m),
      });
      await pool.query(`revoke select, update on ${table()} from ${user}@'%'`);
    } finally {
      await pool.query(`drop user ${user}@'%'`);
    }
  });

  it('a password may come from MYSQL_PWD, and is not shown', async () => {
    const user = `someone_${Math.random().toString(36).slice(2)}`;
    await pool.query(`create user ${user}@'%' identified by 'hunter2'`);
    try {
      await pool.query(`grant all on ${place().schema}.* to ${user}@'%'`);
      const store = box().store.replace(/root@/, `${user}@`).replace('/joblatch?', `/${place().schema}?`);
      const run = ['run', '-n', 'job', '--at-most-for', '1m', '-s', store, '--', 'echo', 'ran'];
      expect(await box().run(run, { env: { MYSQL_PWD: 'hunter2' } })).toMatchObject({ stdout: 'ran\n' });
      const wrong = await box().run(run, { env: { MYSQL_PWD: 'hunter3' } });
      expect(wrong).toMatchObject({ code: 69, stderr: expect.stringContaining('Access denied') });
      expect(wrong.stderr).not.toContain('hunter3');
    } finally {
      await pool.query(`drop user ${user}@'%'`);
    }
  });
});

describe('doctor on a MariaDB with settings that matter', () => {
  if (noOwnMariadb !== undefined) return skipAll('doctor on a MariaDB of our own', noOwnMariadb);
  let server: OwnMariadb;
  const box = sandboxes(async () => server.url);

  beforeAll(async () => {
    server = await OwnMariadb.start(() => [
      '--default-time-zone=+02:00',
      '--log-bin=binlog',
      '--server-id=1',
      '--binlog-format=STATEMENT',
      '--sync-binlog=0',
      '--innodb-flush-log-at-trx-commit=1',
      '--innodb-snapshot-isolation=ON',
      '--max-statement-time=0.2',
      '--idle-transaction-timeout=60',
    ]);
    await server.query(shedlock('shedlock'));
  });
  afterAll(() => server?.remove());

  it('tells them', async () => {
    const found = await examine(box());
    const told = [
      'time-zone',
      'binlog',
      'durability',
      'isolation',
      'statement-timeout',
      'idle-in-transaction',
      'role',
      'replication',
    ].map((what) => `${what} ${found.get(what)?.severity}: ${found.get(what)?.found}`);
    expect(told).toEqual([
      'time-zone warning: the columns are TIMESTAMP, in the zone of the server, +02:00',
      'binlog warning: binlog_format is STATEMENT',
      'durability warning: sync_binlog is 0',
      'isolation info: REPEATABLE-READ, innodb_snapshot_isolation is on',
      'statement-timeout warning: max_statement_time is 200ms',
      'idle-in-transaction ok: idle_transaction_timeout is 1m',
      'role ok: primary',
      'replication info: no replica is seen at present',
    ]);
  });

  it('a zone with daylight saving time, as soon as the server knows it', async () => {
    const zone = '&sessionTimeZone=Europe/Prague'.replace('&', '?');
    expect((await examine(box(), zone)).get('time-zone')).toMatchObject({ severity: 'error' });
    // What mariadb-tzinfo-to-sql would load, for one zone: since 1970, an hour more from April to September of each year.
    const changes = Array.from({ length: 80 }, (_, i) => 1970 + i).flatMap((year) => [
      `(1, ${Date.UTC(year, 3, 1, 1) / 1000}, 1)`,
      `(1, ${Date.UTC(year, 9, 1, 1) / 1000}, 2)`,
    ]);
    await server.query(
      `use mysql; insert into time_zone values (1, 'N'); insert into time_zone_name values ('Europe/Prague', 1);
       insert into time_zone_transition_type values (1, 1, 7200, 1, 'CEST'), (1, 2, 3600, 0, 'CET');
       insert into time_zone_transition values ${changes.join(', ')}`,
    );
    expect((await examine(box(), zone)).get('time-zone')).toMatchObject({
      severity: 'warning',
      found: expect.stringMatching(/Europe\/Prague .*which has daylight saving time$/),
    });
    const run = ['run', '-n', 'job', '--at-most-for', '1m', '-s', box().store + zone, '--', 'echo', 'ran'];
    expect((await box().run(run)).stdout).toBe('ran\n');
  });

  it('autocommit off, and read-only', async () => {
    await server.query('set global autocommit = 0');
    const off = await box().run(['doctor']);
    expect(off).toMatchObject({ code: 1, stdout: expect.stringMatching(/^error +autocommit +off in new/m) });
    const run = ['run', '-n', 'job', '--at-most-for', '1m', '--', 'echo', 'ran'];
    expect(await box().run(run)).toMatchObject({
      code: 69,
      stdout: '',
      stderr: expect.stringContaining('autocommit'),
    });
    await server.query('set global autocommit = 1; set global read_only = 1');
    const closed = await box().run(['doctor']);
    expect(closed).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^error +role +read_only is on: a replica\?$/m),
    });
    await server.query('set global read_only = 0');
  });

  it('a replica, and the primary that has one', async () => {
    const { port } = new URL(server.url);
    const replica = await OwnMariadb.start(() => ['--server-id=2']);
    try {
      await server.query(
        "create user follower@'%' identified by 'x'; grant replication slave on *.* to follower@'%'",
      );
      await replica.query(
        `change master to master_host = '127.0.0.1', master_port = ${port}, master_user = 'follower', master_password = 'x';
         start slave`,
      );
      const at = async (url: string, code: string): Promise<string> => {
        const { findings } = await box().ask<ReportJson>('doctor', '-s', url);
        const finding = findings.find((one) => one.code === code);
        return `${finding?.severity}: ${finding?.found}`;
      };
      await until(async () => (await at(server.url, 'replication')).startsWith('warning'), 'it follows');
      expect(await at(server.url, 'replication')).toBe('warning: asynchronous, 1 replica');
      expect(await at(replica.url, 'role')).toBe(
        'warning: it follows another server, and can be written all the same',
      );
      await replica.query('set global read_only = 1');
      expect(await at(replica.url, 'role')).toBe('error: read_only is on: a replica?');
      await server.query('set global rpl_semi_sync_master_enabled = 1');
      expect(await at(server.url, 'replication')).toBe('info: semi-synchronous, 1 replica');
    } finally {
      await server.query('set global rpl_semi_sync_master_enabled = 0');
      await replica.remove();
    }
  });

  it('a proxy is noticed by the number that it gives a connection, and locks work through it', async () => {
    const proxy = createServer((client) => {
      const behind = connect(Number(new URL(server.url).port), '127.0.0.1');
      behind.once('data', (greeting) => {
        // Frame, version of the protocol, version of the server up to a zero; then the number.
        const at = greeting.indexOf(0, 5) + 1;
        greeting.writeUInt32LE(4_000_000_000, at);
        client.write(greeting);
        behind.pipe(client);
      });
      client.pipe(behind);
      for (const socket of [client, behind]) socket.on('error', () => behind.destroy());
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const url = new URL(server.url);
    url.port = String((proxy.address() as AddressInfo).port);
    for (const driver of ['mysql2', 'mariadb']) {
      const store = `${url.href}?driver=${driver}`;
      const { findings } = await box().ask<ReportJson>('doctor', '-s', store);
      expect(findings.find(({ code }) => code === 'proxy')).toMatchObject({ severity: 'info' });
      const run = ['run', '-n', driver, '--at-most-for', '1m', '-s', store, '--', 'echo', 'ran'];
      expect((await box().run(run)).stdout).toBe('ran\n');
    }
    proxy.close();
  });

  it('reached through its socket', async () => {
    const socket = `${server.folder}/server/socket`;
    const store = `mysql://root@/joblatch?socket=${encodeURIComponent(socket)}`;
    for (const driver of ['mysql2', 'mariadb']) {
      const { stdout } = await box().run(['doctor', '-s', `${store}&driver=${driver}`]);
      expect(stdout).toMatch(/^ok +encryption +none, and none needed/m);
      expect(stdout).toMatch(/^ok +connection +.*as root@localhost/m);
      const run = [
        'run',
        '-n',
        driver,
        '--at-most-for',
        '1m',
        '-s',
        `${store}&driver=${driver}`,
        '--',
        'echo',
        'ran',
      ];
      expect((await box().run(run)).stdout).toBe('ran\n');
    }
  });
});

describe('what MariaDB and MySQL say of themselves', () => {
  const variables = (settings: Record<string, string>) => new Map(Object.entries(settings));

  it.each([
    ['10.11.19-MariaDB', 'ok'],
    ['11.0.2-MariaDB', 'ok'],
    ['10.5.29-MariaDB', 'error'],
    ['5.5.5-10.4.1-MariaDB', 'error'],
    ['8.0.17', 'info'],
    ['9.4.0', 'info'],
    ['8.0.16', 'error'],
    ['5.7.44-log', 'error'],
  ])('version %s: %s', (version, severity) => {
    expect(judgeVersion(version)).toMatchObject({ severity });
  });

  it.each<[Record<string, string>, { follows?: boolean; replicas?: number }, string[]]>([
    [{ read_only: 'ON' }, {}, ['role error']],
    [{ read_only: 'NO_LOCK' }, {}, ['role error']],
    [{ super_read_only: 'ON' }, {}, ['role error']],
    [{ transaction_read_only: 'ON' }, {}, ['role error']],
    [{ read_only: 'OFF' }, {}, ['role ok', 'replication info']],
    [{}, { follows: true }, ['role warning', 'replication info']],
    [{}, { replicas: 1 }, ['role ok', 'replication warning']],
    [
      { rpl_semi_sync_master_enabled: 'ON', rpl_semi_sync_master_timeout: '10000' },
      { replicas: 1 },
      ['role ok', 'replication info'],
    ],
    [{ wsrep_on: 'ON', wsrep_sync_wait: '0' }, {}, ['role ok', 'replication warning']],
    [{ group_replication_group_name: 'a-b' }, {}, ['role ok', 'replication warning']],
    [{ group_replication_group_name: '' }, {}, ['role ok', 'replication info']],
    [{ log_bin: 'ON', binlog_format: 'MIXED' }, {}, ['role ok', 'replication info', 'binlog ok']],
  ])('replication %j %j', (settings, { follows, replicas = 0 }, expected) => {
    expect(severities(judgeReplication({ variables: variables(settings), follows, replicas }))).toEqual(
      expected,
    );
  });

  const sound = {
    autocommit: 'ON',
    innodb_flush_log_at_trx_commit: '1',
    transaction_isolation: 'REPEATABLE-READ',
    Threads_connected: '1',
    max_connections: '100',
    wait_timeout: '28800',
  };
  it.each<[Record<string, string>, string, string]>([
    [{}, 'durability', 'ok'],
    [{ innodb_flush_log_at_trx_commit: '0' }, 'durability', 'warning'],
    [{ innodb_doublewrite: 'OFF' }, 'durability', 'warning'],
    [{ max_execution_time: '100' }, 'statement-timeout', 'warning'],
    [{ max_execution_time: '0' }, 'statement-timeout', 'ok'],
    [{}, 'idle-in-transaction', 'info'],
    [{ idle_transaction_timeout: '0' }, 'idle-in-transaction', 'info'],
    [{ idle_transaction_timeout: '0', idle_write_transaction_timeout: '60' }, 'idle-in-transaction', 'info'],
    [
      {
        idle_transaction_timeout: '0',
        idle_write_transaction_timeout: '60',
        idle_readonly_transaction_timeout: '60',
      },
      'idle-in-transaction',
      'ok',
    ],
    [{ Threads_connected: '95' }, 'connections', 'warning'],
    [{ Prepared_stmt_count: '95', max_prepared_stmt_count: '100' }, 'prepared-statements', 'info'],
  ])('settings %j: %s %s', (settings, code, severity) => {
    expect(severities(judgeSettings(variables({ ...sound, ...settings })))).toContain(`${code} ${severity}`);
  });

  it.each<[string | undefined, (number | null)[], string]>([
    [undefined, [0, 0], 'info'],
    ['+00:00', [0, 0], 'ok'],
    [undefined, [60, 60], 'warning'],
    [undefined, [60, 120], 'warning'],
    ['Europe/Prague', [null, null], 'error'],
  ])('zone %s %j: %s', (said, offsets, severity) => {
    const facts = { server: 'SYSTEM', machine: 'CET', said, offsets };
    const [first, ...rest] = judgeZone({ ...facts, endsIn2038: false });
    expect(first).toMatchObject({ severity, found: expect.stringContaining('SYSTEM (CET)') });
    expect(rest).toEqual([]);
  });
});
