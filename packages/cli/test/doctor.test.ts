import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import type { Client } from 'pg';
import { Pool } from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { noPgbouncer, startPgbouncer } from '../../joblatch/test/support/postgres-own-server.ts';
import { judgeClock } from '../src/doctor/clock.ts';
import { judge as judgeFileSystem } from '../src/doctor/file-system.ts';
import type { Finding } from '../src/doctor/finding.ts';
import { examineReplication } from '../src/doctor/postgres-replication.ts';
import { judgeMemory } from '../src/doctor/redis-memory.ts';
import { judgePersistence } from '../src/doctor/redis-persistence.ts';
import { judgeRole } from '../src/doctor/redis-replication.ts';
import { together } from '../src/doctor/together.ts';
import { judgeWay } from '../src/doctor/way.ts';
import { readRedisUrl } from '../src/stores/redis-url.ts';
import { type Sandbox, sandboxes } from './sandbox.ts';
import { describeOn } from './servers.ts';

interface ReportJson {
  readonly store: string;
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

describe('doctor on SQLite', () => {
  const box = sandboxes();

  it('a file that is not there is not made', async () => {
    const { code, stdout } = await box().run(['doctor']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^info +file +not there yet$/m);
    expect(existsSync(box().store)).toBe(false);
  });

  it('a sound file is ok; what others may write is a warning; what is no database is 69', async () => {
    await box().ok(['run', '-n', 'job', '--at-most-for', '1m', '--', 'true']);
    chmodSync(box().store, 0o666);
    const found = await examine(box());
    expect(found.get('journal')).toMatchObject({ severity: 'ok', found: 'wal' });
    expect(found.get('table')).toMatchObject({
      severity: 'ok',
      found: expect.stringContaining('fencing_token'),
    });
    expect(found.get('permissions')).toMatchObject({ severity: 'warning', found: '666' });
    writeFileSync(box().path('text.db'), 'x'.repeat(5_000));
    const broken = await box().run(['doctor', '-s', 'text.db']);
    expect(broken).toMatchObject({
      code: 69,
      stdout: expect.stringMatching(/^error +connection +SQLite can not/m),
    });
  });
});

describeOn('postgres', 'doctor', (server) => {
  const box = sandboxes(server.fresh);
  const pool = new Pool({ connectionString: server.url.replace(/\?.*/, ''), max: 1 });
  afterAll(() => pool.end());
  const table = (): string => {
    const { searchParams } = new URL(box().store);
    return `${searchParams.get('schema')}.${searchParams.get('table')}`;
  };

  it('what is right is ok, and the status is 0', async () => {
    const { code, stdout } = await box().run(['doctor']);
    expect(code).toBe(0);
    for (const what of ['connection', 'version', 'table', 'rights', 'role', 'pooler', 'clock-difference'])
      expect(stdout).toMatch(new RegExp(`^ok +${what} `, 'm'));
    expect(stdout).toMatch(/\n\d+ ok, \d+ info, \d+ warning, 0 error\n$/);
  });

  it("ShedLock's own table lacks two columns, and joblatch migrate adds them", async () => {
    await pool.query(`drop table ${table()}`);
    await pool.query(
      `create table ${table()} (name varchar(64) not null primary key, lock_until timestamp not null, locked_at timestamp not null, locked_by varchar(255) not null)`,
    );
    const before = await examine(box());
    expect(before.get('table-token')).toMatchObject({ severity: 'warning' });
    expect(before.get('table-slot')).toMatchObject({ severity: 'warning' });
    expect(before.get('table-name-length')).toMatchObject({ found: 'names of up to 64 characters fit' });
    expect(before.get('table')?.found).toContain('lock_until timestamp without time zone');
    await box().ok(['migrate']);
    const after = await examine(box());
    expect([after.has('table-token'), after.has('table-slot')]).toEqual([false, false]);
  });

  it('a table that can not hold locks is an error', async () => {
    await pool.query(`alter table ${table()} alter column lock_until type date`);
    expect((await examine(box())).get('table')).toMatchObject({ severity: 'error' });
  });

  it('settings that matter', async () => {
    const settings = [
      '-c synchronous_commit=off',
      '-c statement_timeout=100',
      '-c TimeZone=America/New_York',
      '-c default_transaction_isolation=serializable',
    ];
    const found = await examine(box(), `&options=${encodeURIComponent(settings.join(' '))}`);
    expect(found.get('statement-timeout')).toMatchObject({ severity: 'warning' });
    expect(found.get('time-zone')).toMatchObject({ severity: 'info' });
    expect(found.get('isolation')).toMatchObject({ severity: 'info', found: 'serializable' });
    expect(found.get('durability')).toMatchObject({ severity: 'warning' });
  });

  it('read-only is an error, and the status is 1', async () => {
    const options = encodeURIComponent('-c default_transaction_read_only=on');
    const { code, stdout } = await box().run(['doctor', '-s', `${box().store}&options=${options}`]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^error +role +primary, but default_transaction_read_only is on$/m);
  });

  it('rights that the user lacks', async () => {
    const role = `reader_${Math.random().toString(36).slice(2)}`;
    await pool.query(`create role ${role} login; grant usage on schema ${table().split('.')[0]} to ${role}`);
    await pool.query(`grant select, insert, update on ${table()} to ${role}`);
    const store = box().store.replace(/\/\/\w+@/, `//${role}:hunter2@`);
    const asked = await box().run(['doctor', '--json', '-s', store]);
    expect(asked.stdout).not.toContain('hunter2');
    const { findings } = JSON.parse(asked.stdout) as ReportJson;
    expect(findings.find(({ code }) => code === 'rights')).toMatchObject({ severity: 'warning' });
    await pool.query(`revoke insert on ${table()} from ${role}`);
    expect((await box().run(['doctor', '-s', store])).code).toBe(1);
    await pool.query(`drop owned by ${role}; drop role ${role}`);
  });

  it('a pooler is noticed, and locks work through it', async (context) => {
    if (noPgbouncer !== undefined) return context.skip(noPgbouncer);
    const pooler = await startPgbouncer(server.url);
    try {
      const { search } = new URL(box().store);
      const store = `${pooler.url}${search}`;
      const { findings } = await box().ask<ReportJson>('doctor', '-s', store);
      expect(findings.find(({ code }) => code === 'pooler')).toMatchObject({
        severity: 'info',
        found: expect.stringContaining('transaction'),
      });
      const run = ['run', '-n', 'job', '--at-most-for', '1m', '-s', store, '--', 'echo', 'ran'];
      expect((await box().run(run)).stdout).toBe('ran\n');
    } finally {
      await pooler.stop();
    }
  });
});

describe('replication of PostgreSQL', () => {
  const facts = { standby: false, readonly: 'off', wanted: '', commit: 'on', replicas: [] };
  const asyncReplica = { name: 'r', sync: 'async' };
  it.each<[object, string[]]>([
    [{ standby: true }, ['role error']],
    [{}, ['role ok', 'replication info']],
    [{ replicas: [asyncReplica] }, ['role ok', 'replication warning']],
    [{ replicas: [asyncReplica], wanted: '*', commit: 'local' }, ['role ok', 'replication warning']],
    [{ replicas: [asyncReplica], wanted: '*' }, ['role ok', 'replication ok']],
  ])('%j', async (change, expected) => {
    const client = { query: async () => ({ rows: [{ facts: { ...facts, ...change } }] }) };
    expect(severities(await examineReplication(client as unknown as Client))).toEqual(expected);
  });
});

describeOn('redis', 'doctor', (server) => {
  const box = sandboxes(server.fresh);

  it('tells of a server that keeps nothing on disk, and leaves nothing behind', async () => {
    const found = await examine(box());
    expect(found.get('persistence')).toMatchObject({ severity: 'warning', found: 'nothing is on disk' });
    for (const what of ['connection', 'version', 'role', 'eviction', 'rights', 'clock-difference'])
      expect(found.get(what)).toMatchObject({ severity: 'ok' });
    expect(await box().ask('list')).toEqual([]);
  });
});

describe('what Redis says of itself', () => {
  const facts = (info: Record<string, string>, config: Record<string, string> = {}) => ({
    info: new Map(Object.entries(info)),
    config: new Map(Object.entries(config)),
  });
  const single = readRedisUrl('redis://h');

  it('a replica, and a member of a cluster that is not named as such', () => {
    expect(severities(judgeRole(facts({ role: 'slave' }), single))).toEqual(['role error']);
    const member = facts({ role: 'master', cluster_enabled: '1', connected_slaves: '1' });
    expect(severities(judgeRole(member, single))).toEqual(['role error']);
    expect(severities(judgeRole(member, readRedisUrl('redis+cluster://h')))).toEqual([
      'role ok',
      'replication warning',
    ]);
  });

  it.each<[Record<string, string>, string[]]>([
    [{ maxmemory: '0', maxmemory_policy: 'noeviction', used_memory: '5' }, ['eviction ok', 'memory ok']],
    [
      { maxmemory: '0', maxmemory_policy: 'allkeys-lru', used_memory: '5' },
      ['eviction warning', 'memory ok'],
    ],
    [
      { maxmemory: '9', maxmemory_policy: 'volatile-ttl', used_memory: '9' },
      ['eviction error', 'memory warning'],
    ],
    [{}, ['eviction info', 'memory ok']],
  ])('memory %j', (info, expected) => {
    expect(severities(judgeMemory(facts(info)))).toEqual(expected);
  });

  it.each<[Record<string, string>, Record<string, string>, string]>([
    [{ aof_enabled: '1' }, { appendfsync: 'always' }, 'ok'],
    [{ aof_enabled: '1' }, { appendfsync: 'everysec' }, 'warning'],
    [{ aof_enabled: '1' }, {}, 'warning'],
    [{ aof_enabled: '0' }, { save: '3600 1' }, 'warning'],
    [{ aof_enabled: '1', aof_last_write_status: 'err' }, { appendfsync: 'always' }, 'error'],
  ])('persistence %j %j: %s', (info, config, severity) => {
    expect(severities(judgePersistence(facts(info, config)))).toEqual([`persistence ${severity}`]);
  });
});

describe('several servers', () => {
  const at = (address: string, ...findings: Finding[]) => ({ address, findings });
  const version = (found: string): Finding => ({ severity: 'ok', code: 'version', found });
  const replica: Finding = {
    severity: 'warning',
    code: 'replication',
    found: '1 replica',
    means: 'm',
    remedy: 'r',
  };
  const none: Finding = { severity: 'info', code: 'replication', found: 'none', means: 'n' };

  it('each thing is told once; where they differ, which has what', () => {
    expect(
      together([
        at('a', version('7'), replica, { severity: 'ok', code: 'role', found: 'primary' }),
        at('b', version('7'), none, { severity: 'ok', code: 'role', found: 'primary' }),
        at('c', version('6'), replica, { severity: 'ok', code: 'role', found: 'primary' }),
      ]),
    ).toEqual([
      version('a, b: 7; c: 6'),
      { ...replica, found: 'a, c: 1 replica' },
      { ...none, found: 'b: none' },
      { severity: 'ok', code: 'role', found: 'all 3: primary' },
    ]);
  });
});

describe('what is judged alike for all', () => {
  it.each([
    [900, 'ok'],
    [-2_000, 'warning'],
    [61_000, 'error'],
  ])('a clock that is %i ms ahead: %s', (aheadMs, severity) => {
    expect(judgeClock({ aheadMs, uncertainMs: 1 })).toMatchObject({ severity });
  });

  it('file systems', () => {
    expect([0xef53, 0x6969, 0x01021994, 0xfe534d42].map((type) => judgeFileSystem(type).severity)).toEqual([
      'ok',
      'error',
      'warning',
      'error',
    ]);
  });

  it('the way to it', () => {
    const ways = [
      judgeWay('localhost', undefined, ''),
      judgeWay('10.1.2.3', undefined, ''),
      judgeWay('db.example.com', undefined, ''),
      judgeWay('db.example.com', { checked: false }, ''),
      judgeWay('db.example.com', { checked: true }, ''),
    ];
    expect(ways.map(({ severity }) => severity)).toEqual(['ok', 'info', 'warning', 'warning', 'ok']);
  });
});
