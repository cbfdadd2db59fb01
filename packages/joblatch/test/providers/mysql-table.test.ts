import { type LockProvider, LockStoreError } from 'joblatch';
import { type MysqlProviderOptions, migrateMysql, mysqlMigrationSql, mysqlProvider } from 'joblatch/mysql';
import { expect, test } from 'vitest';
import { openClient, openMysql } from '../support/mysql-clients.js';
import { describeWithMariadb, home, java, shedlockTable } from '../support/mysql-server.ts';

const MINUTE = 60_000;
const owner = 'host:1';
const take = (provider: LockProvider, key = 'k', taker = owner) =>
  provider.acquire({ key, owner: taker, leaseMs: MINUTE });

const HOSTILE = [
  'MixedCase',
  'Übergröße',
  'order',
  'a`b',
  '``',
  "a'b",
  'x; drop table victim; --',
  'a.b',
  '%s :key',
  '\\',
  '123',
  'x'.repeat(64),
];

describeWithMariadb('MariaDB: in one table with Java', (server) => {
  const at = home(server);
  const asJava = async (sql: string, ...values: unknown[]): Promise<number> => {
    const [{ affectedRows }] = await at.console.query(sql, values);
    return affectedRows;
  };
  const SECONDS = 1_000_000;

  for (const instant of ['timestamp(3)', 'datetime(3)'] as const) {
    for (const extended of [false, true]) {
      test(`${instant}, ${extended ? 'with' : 'without'} our columns: each refuses the other, and takes over from it`, async () => {
        const table = at.freshTable();
        await at.console.query(shedlockTable(table, instant));
        if (extended) await migrateMysql({ pool: at.console, table });
        const provider = mysqlProvider({ pool: at.console, table });
        expect(await provider.abilities()).toMatchObject({
          fencing: extended,
          slots: extended,
          serverClock: true,
        });

        expect(await asJava(java.insert(table), 'k', 60 * SECONDS)).toBe(1);
        const refused = await take(provider);
        expect(refused).toMatchObject({ ok: false, reason: 'held' });
        expect(!refused.ok && (refused.leftMs ?? 0)).toBeGreaterThan(MINUTE - 10_000);
        expect(await provider.inspect({})).toMatchObject([{ key: 'k', owner: 'java', state: 'held' }]);
        expect(await provider.release({ key: 'k', owner })).toBe(false);

        expect(await asJava(java.unlock(table), 'k')).toBe(1);
        const first = await take(provider);
        expect(first.ok).toBe(true);
        expect(await asJava(java.update(table), 60 * SECONDS, 'k')).toBe(0);
        // Its late unlock leaves us alone.
        expect(await asJava(java.unlock(table), 'k')).toBe(0);
        expect(await provider.release({ key: 'k', owner })).toBe(true);

        expect(await asJava(java.update(table), 0.05 * SECONDS, 'k')).toBe(1);
        await new Promise((resolve) => setTimeout(resolve, 100));
        const second = await take(provider, 'k', 'host:2');
        expect(first.ok && second.ok && second.token > first.token).toBe(true);
      });
    }
  }

  test('a token that a take-over by Java left grows from where it was', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    await migrateMysql({ pool: at.console, table });
    const provider = mysqlProvider({ pool: at.console, table });
    const ahead = Date.now() * 1_000 + 1e12;
    const first = await provider.acquire({ key: 'k', owner, leaseMs: MINUTE, minToken: ahead });
    expect(first).toMatchObject({ ok: true, token: ahead });
    await provider.release({ key: 'k', owner });
    expect(await asJava(java.update(table), 60 * SECONDS, 'k')).toBe(1);
    await asJava(java.unlock(table), 'k');
    expect(await take(provider)).toMatchObject({ ok: true, token: ahead + 1 });
  });

  test('a guard is not told of a grant that Java has taken over, and keeps Java waiting otherwise', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    await migrateMysql({ pool: at.console, table });
    const provider = mysqlProvider({ pool: at.console, table });
    const guard = async (token: number) => {
      const connection = await at.console.getConnection();
      await connection.query('start transaction');
      const guarded = await provider.guard?.({ key: 'k', owner, token, leftMs: MINUTE }, connection);
      return { connection, guarded };
    };
    const ended = await provider.acquire({ key: 'k', owner, leaseMs: 50 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    const open = await guard(ended.ok ? ended.token : 0);
    // Nobody has it, and nobody gets it while the transaction is open.
    expect(open.guarded).toBe(true);
    await expect(
      asJava(`set statement innodb_lock_wait_timeout = 0 for ${java.update(table)}`, 60 * SECONDS, 'k'),
    ).rejects.toMatchObject({ errno: 1205 });
    await open.connection.query('commit');
    expect(await asJava(java.update(table), 60 * SECONDS, 'k')).toBe(1);
    const late = await guard(ended.ok ? ended.token : 0);
    expect(late.guarded).toBe(false);
    await late.connection.query('rollback');
    for (const { connection } of [open, late]) connection.release();
  });

  test('what does not fit is refused, and never cut', async () => {
    const table = at.freshTable();
    await at.console.query(`${shedlockTable(table)} default charset utf8mb4`);
    const provider = mysqlProvider({ pool: at.console, table });
    expect(await take(provider, 'ž'.repeat(64))).toMatchObject({ ok: true });
    await expect(take(provider, `${'ž'.repeat(64)}x`)).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringMatching(/has 65 characters, and the column "name" of table .* holds 64/),
    });
    await expect(
      provider.acquire({ key: 'k', owner, leaseMs: MINUTE, slot: Date.now() }),
    ).rejects.toMatchObject({ code: 'OPTIONS', message: expect.stringContaining('has no column "slot"') });
    const [rows] = await at.console.query(`select name from ${table}`);
    expect(rows).toHaveLength(1);
  });

  test.each([
    ['job', 'JOB'],
    ['jób', 'job'],
    ['job', 'job '],
  ])('keys that the collation takes for one are kept apart: %j, %j', async (first, second) => {
    const table = at.freshTable();
    await at.console.query(`${shedlockTable(table)} default charset utf8mb4`);
    const provider = mysqlProvider({ pool: at.console, table });
    expect(await take(provider, first)).toMatchObject({ ok: true });
    const refusal = {
      code: 'OPTIONS',
      message: expect.stringContaining(`falls together with ${JSON.stringify(first)}`),
    };
    await expect(take(provider, second)).rejects.toMatchObject(refusal);
    // Neither by another verb.
    expect(await provider.forceRelease(second)).toBe(false);
    expect(await provider.release({ key: second, owner: 'other' })).toBe(false);
    expect(await provider.inspect({ key: second })).toEqual([]);
    expect(await provider.inspect({ key: first })).toMatchObject([{ key: first, state: 'held' }]);
    await provider.release({ key: first, owner });
    // Also when the record is free: it is that of another key.
    await expect(take(provider, second)).rejects.toMatchObject(refusal);
  });

  test('in a small character set only what it surely has', async () => {
    const table = at.freshTable();
    await at.console.query(`${shedlockTable(table)} default charset latin1`);
    const provider = mysqlProvider({ pool: at.console, table });
    expect(await take(provider, 'plain')).toMatchObject({ ok: true });
    await expect(take(provider, '🔒')).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringContaining('which is in latin1'),
    });
    const three = at.freshTable();
    await at.console.query(`${shedlockTable(three)} default charset utf8mb3`);
    const wider = mysqlProvider({ pool: at.console, table: three });
    expect(await take(wider, 'žluťoučký')).toMatchObject({ ok: true });
    expect(await wider.inspect({})).toMatchObject([{ key: 'žluťoučký' }]);
    await expect(take(wider, '🔒')).rejects.toMatchObject({ code: 'OPTIONS' });
  });

  test('a column that the table would change by itself stays as it is', async () => {
    const table = at.freshTable();
    await at.console.query(
      `create table ${table} (name varchar(64) primary key, lock_until timestamp(3) not null on update current_timestamp(3),
       locked_at timestamp(3) not null default current_timestamp(3) on update current_timestamp(3), locked_by varchar(255) not null)`,
    );
    const provider = mysqlProvider({ pool: at.console, table });
    await take(provider);
    const read = async () =>
      (await at.console.query(`select locked_at + 0 as at, lock_until + 0 as until from ${table}`))[0][0];
    const before = await read();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: 2 * MINUTE }]);
    const after = await read();
    expect(after.at).toEqual(before.at);
    expect(after.until).not.toEqual(before.until);
    await provider.release({ key: 'k', owner, keepMs: MINUTE });
    expect((await read()).at).toEqual(before.at);
  });
});

describeWithMariadb('MariaDB: the table', (server) => {
  const at = home(server);

  test('a missing one is an error that says what to do', async () => {
    const provider = mysqlProvider({ pool: at.console, table: 'nowhere' });
    const error: unknown = await take(provider).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toMatch(/nowhere.*does not exist.*joblatch migrate/);
    // Made meanwhile, it is found.
    await migrateMysql({ pool: at.console, table: 'nowhere' });
    expect(await take(provider)).toMatchObject({ ok: true });
    // Gone, it is missed again.
    await at.console.query('drop table nowhere');
    await expect(take(provider)).rejects.toThrow(/does not exist/);
  });

  test('autoMigrate by many at once makes one', async () => {
    const table = at.freshTable();
    const providers = await Promise.all(
      Array.from({ length: 6 }, () => openMysql('mysql2 pool', at.url, { table, autoMigrate: true })),
    );
    const results = await Promise.all(providers.map((provider, i) => take(provider, 'k', `host:${i}`)));
    expect(results.filter(({ ok }) => ok)).toHaveLength(1);
    await Promise.all(providers.map((provider) => provider.close?.()));
  });

  test('a migration completes what ShedLock made, says how, and does nothing the second time', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    await at.console.query(`insert into ${table} values ('old', now(3), now(3), 'java')`);
    const statements = await migrateMysql({ pool: at.console, table });
    expect(statements).toEqual([
      `alter table \`${new URL(at.url).pathname.slice(1)}\`.\`${table}\` add column \`fencing_token\` bigint default 0, add column \`slot\` bigint, ` +
        'add column `guard_key` bigint not null default 9223372036854775807, ' +
        'add unique key `joblatch_guard` (`guard_key`, `locked_by`, `name`)',
    ]);
    expect(await migrateMysql({ pool: at.console, table })).toEqual([]);
    await at.console.query(java.insert(table), ['new', 1_000_000]);
  });

  test('the SQL of a migration may be run any number of times, over what there is', async () => {
    const [fresh, shared] = [at.freshTable(), at.freshTable()];
    await at.console.query(shedlockTable(shared));
    const connection = await openClient('mysql2 connection', at.url, { multipleStatements: true });
    for (const table of [fresh, shared]) {
      for (let i = 0; i < 2; i += 1) await connection.query(mysqlMigrationSql({ table }));
      const provider = mysqlProvider({ pool: at.console, table });
      expect(await provider.abilities()).toMatchObject({ fencing: true, slots: true });
      expect(await migrateMysql({ pool: at.console, table })).toEqual([]);
    }
    await connection.end();
    expect(mysqlMigrationSql({ server: 'mysql' })).toMatch(
      /^create table if not exists[^;]*utf8mb4_0900_bin[^;]*;\n$/,
    );
  });

  test('one that was made wider, so that the index of the guard has no room, works without it', async () => {
    const table = at.freshTable();
    await at.console.query(`${shedlockTable(table)} default charset utf8mb4`);
    await at.console.query(`alter table ${table} modify name varchar(512) not null`);
    await migrateMysql({ pool: at.console, table });
    const provider = mysqlProvider({ pool: at.console, table });
    const granted = await take(provider, 'x'.repeat(512));
    const connection = await at.console.getConnection();
    await connection.query('begin');
    const request = { key: 'x'.repeat(512), owner, token: granted.ok ? granted.token : 0, leftMs: MINUTE };
    expect(await provider.guard?.(request, connection)).toBe(true);
    expect(await provider.guard?.({ ...request, owner: 'other' }, connection)).toBe(false);
    // The row itself is locked: a renewal has to wait, which is no loss.
    expect(await provider.renewMany([{ ...request, leaseMs: MINUTE }])).toEqual(['unknown']);
    expect(await take(provider, request.key, 'other')).toMatchObject({ ok: false });
    await connection.query('commit');
    connection.release();
    expect(await provider.renewMany([{ ...request, leaseMs: MINUTE }])).toEqual(['ok']);
  });

  test.each(HOSTILE)('any name is quoted: %s', async (name) => {
    const columns = {
      name: `n${name}`.slice(0, 64),
      lockUntil: `u${name}`.slice(0, 64),
      lockedAt: `a${name}`.slice(0, 64),
      lockedBy: `b${name}`.slice(0, 64),
      fencingToken: `t${name}`.slice(0, 64),
      slot: `s${name}`.slice(0, 64),
      guardKey: `g${name}`.slice(0, 64),
    };
    const schema = new URL(at.url).pathname.slice(1);
    const options: MysqlProviderOptions = { pool: at.console, schema, table: name, columns };
    await migrateMysql({ pool: at.console, schema, table: name, columns });
    const provider = mysqlProvider(options);
    expect(await provider.acquire({ key: 'k', owner, leaseMs: MINUTE, oncePerMs: 1_000 })).toMatchObject({
      ok: true,
    });
    expect(await provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: MINUTE }])).toEqual(['ok']);
    expect(await provider.inspect({})).toHaveLength(1);
    expect(await provider.release({ key: 'k', owner })).toBe(true);
    expect(await provider.forceRelease('k')).toBe(false);
    expect(await provider.purge({ idleMs: 0 })).toBe(0);
    await at.console.query(`drop table \`${name.replaceAll('`', '``')}\``);
  });

  test.each([
    [
      'no primary key',
      'name varchar(64), lock_until timestamp(3) null, locked_at timestamp(3) null, locked_by varchar(255)',
      /not the primary key/,
    ],
    [
      'another primary key',
      'id int auto_increment primary key, name varchar(64) unique, lock_until datetime(3), locked_at datetime(3), locked_by varchar(255)',
      /not the primary key/,
    ],
    [
      'whole seconds',
      'name varchar(64) primary key, lock_until datetime, locked_at datetime, locked_by varchar(255)',
      /keeps 0 digits of a second/,
    ],
    [
      'a text for an instant',
      'name varchar(64) primary key, lock_until varchar(30), locked_at datetime(3), locked_by varchar(255)',
      /is of type varchar, not timestamp or datetime/,
    ],
    [
      'other columns',
      'name varchar(64) primary key, x int',
      /has no column `lock_until`, `locked_at`, `locked_by`/,
    ],
    [
      'no transactions',
      'name varchar(64) primary key, lock_until datetime(3), locked_at datetime(3), locked_by varchar(255)) engine = (Aria',
      /its engine is Aria/,
    ],
    [
      'a token that is too small',
      'name varchar(64) primary key, lock_until datetime(3), locked_at datetime(3), locked_by varchar(255), fencing_token int',
      /of type int, not bigint/,
    ],
  ])('one that can not hold locks is refused: %s', async (_what, columns, message) => {
    const table = at.freshTable();
    const sql = `create table ${table} (${columns})`.replace('(Aria)', 'Aria');
    await at.console.query(sql);
    await expect(take(mysqlProvider({ pool: at.console, table }))).rejects.toThrow(message);
    await expect(migrateMysql({ pool: at.console, table })).rejects.toThrow(message);
  });

  test('a view is none', async () => {
    const table = await at.madeTable();
    await at.console.query(`create view view_of_locks as select * from ${table}`);
    await expect(take(mysqlProvider({ pool: at.console, table: 'view_of_locks' }))).rejects.toThrow(
      /a view\?/,
    );
  });

  test.each([
    [{}, /there is no client/],
    [{ pool: {} }, /pool is not a pool of mysql2 or mariadb/],
    [{ sessionTimeZone: "x'" }, /sessionTimeZone is "x'"/],
    [{ table: '' }, /table is ""/],
    [{ table: 'what?' }, /without a question mark/],
    [{ table: 'x'.repeat(65) }, /1 to 64 characters/],
    [{ columns: { slot: 'NAME' } }, /two columns have one name/],
    [{ prepare: 'no' }, /prepare is no/],
    [{ timeoutMs: 0 }, /timeoutMs is 0/],
    [{ colour: 'red' }, /colour/],
  ])('options that can not be right are refused: %j', (options, message) => {
    const given = {
      ...('pool' in options || Object.keys(options).length === 0 ? {} : { pool: at.console }),
      ...options,
    };
    expect(() => mysqlProvider(given as MysqlProviderOptions)).toThrow(message);
  });

  test('a pool that is given as a connection, and the other way round, is told from it', async () => {
    const connection = await at.console.getConnection();
    expect(() => mysqlProvider({ connection: at.console as never })).toThrow(/looks like a pool.*say pool/);
    expect(() => mysqlProvider({ pool: connection as never })).toThrow(
      /looks like a connection.*say connection/,
    );
    connection.release();
  });
});
