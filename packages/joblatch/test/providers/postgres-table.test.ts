import { type LockProvider, LockStoreError } from 'joblatch';
import {
  migratePostgres,
  type PostgresProviderOptions,
  postgresMigrationSql,
  postgresProvider,
} from 'joblatch/postgres';
import { beforeAll, describe, expect, test } from 'vitest';
import { openClient, openPostgres } from '../support/postgres-clients.js';
import {
  behindTheBack,
  describeWithPostgres,
  home,
  java,
  keepsTheContract,
  shedlockTable,
} from '../support/postgres-server.ts';

const MINUTE = 60_000;
const owner = 'host:1';
const take = (provider: LockProvider, key = 'k', taker = owner) =>
  provider.acquire({ key, owner: taker, leaseMs: MINUTE });

const HOSTILE = [
  'simple',
  'MixedCase',
  'Übergröße 🔒',
  'order',
  'a"b',
  '""',
  "a'b",
  'x; drop table victim; --',
  'a.b',
  '%s $1 ?',
  '\\',
  ' ',
  '123',
  'x'.repeat(63),
];

describeWithPostgres("PostgreSQL: ShedLock's table as it is keeps what it can of the contract", (server) => {
  const at = home(server);
  const table = at.freshTable();
  beforeAll(async () => {
    await at.console.query(shedlockTable(table));
    await at.console.query(`alter table ${table} alter column name type varchar(512)`);
  });
  keepsTheContract(
    {
      open: () => openPostgres('pg Pool', at.url, { table }),
      ...behindTheBack(at, () => table, "timezone('utc', now())"),
    },
    ['slots', 'fencing', 'openSkewed', 'interrupt', 'moduleUrl'],
  );
});

describeWithPostgres('PostgreSQL: in one table with Java', (server) => {
  const at = home(server);
  const asJava = async (sql: string, table: string, ...values: unknown[]): Promise<number> => {
    const { rowCount } = (await at.console.query(sql.replaceAll('$table', table), values)) as unknown as {
      rowCount: number;
    };
    return rowCount;
  };

  for (const extended of [false, true]) {
    test(`${extended ? 'with' : 'without'} our columns: each refuses the other, and takes over from it`, async () => {
      const table = at.freshTable();
      await at.console.query(shedlockTable(table));
      if (extended) await migratePostgres({ pool: at.console, table });
      const provider = postgresProvider({ pool: at.console, table });
      expect(await provider.abilities()).toMatchObject({
        fencing: extended,
        slots: extended,
        serverClock: true,
      });

      expect(await asJava(java.lock, table, 'k', 60)).toBe(1);
      const refused = await take(provider);
      expect(refused).toMatchObject({ ok: false, reason: 'held' });
      expect(!refused.ok && (refused.leftMs ?? 0)).toBeGreaterThan(MINUTE - 10_000);
      expect(await provider.inspect({})).toMatchObject([{ key: 'k', owner: 'java', state: 'held' }]);
      expect(await provider.release({ key: 'k', owner })).toBe(false);

      expect(await asJava(java.unlock, table, 'k')).toBe(1);
      const first = await take(provider);
      expect(first.ok).toBe(true);
      expect(await asJava(java.lock, table, 'k', 60)).toBe(0);
      // Its late unlock leaves us alone.
      expect(await asJava(java.unlock, table, 'k')).toBe(0);
      expect(await provider.release({ key: 'k', owner })).toBe(true);

      expect(await asJava(java.lock, table, 'k', 0.05)).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 100));
      const second = await take(provider, 'k', 'host:2');
      expect(first.ok && second.ok && second.token > first.token).toBe(true);
    });
  }

  test('a token that a take-over by Java left grows from where it was', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    await migratePostgres({ pool: at.console, table });
    const provider = postgresProvider({ pool: at.console, table });
    const ahead = Date.now() * 1_000 + 1e12;
    const first = await provider.acquire({ key: 'k', owner, leaseMs: MINUTE, minToken: ahead });
    expect(first).toMatchObject({ ok: true, token: ahead });
    await provider.release({ key: 'k', owner });
    await asJava(java.lock, table, 'k', 60);
    await asJava(java.unlock, table, 'k');
    expect(await take(provider)).toMatchObject({ ok: true, token: ahead + 1 });
  });

  test('what does not fit is refused, and never cut', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    const provider = postgresProvider({ pool: at.console, table });
    expect(await take(provider, '🔒'.repeat(64))).toMatchObject({ ok: true });
    await expect(take(provider, `${'🔒'.repeat(64)}x`)).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringMatching(/65 characters.*holds 64/),
    });
    for (const request of [{ slot: Date.now() }, { oncePerMs: 60_000 }]) {
      await expect(provider.acquire({ key: 's', owner, leaseMs: 1, ...request })).rejects.toMatchObject({
        code: 'OPTIONS',
        message: expect.stringContaining('joblatch migrate'),
      });
    }
    await at.console.query(`alter table ${table} alter column locked_by type varchar(20)`);
    await expect(
      take(postgresProvider({ pool: at.console, table }), 'o', 'x'.repeat(20)),
    ).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringContaining('locked_by'),
    });
  });
});

const UNFIT: Readonly<Record<string, readonly [columns: string, why: RegExp]>> = {
  'another kind of table': ['id bigint primary key, what text', /no column "name", "lock_until"/],
  'padded names': [
    'name char(64) primary key, lock_until timestamptz, locked_at timestamptz, locked_by text',
    /"name" is of type character/,
  ],
  'letter case folded': [
    'name text collate folding primary key, lock_until timestamptz, locked_at timestamptz, locked_by text',
    /takes different keys for one/,
  ],
  'no unique key': [
    'name text, lock_until timestamptz, locked_at timestamptz, locked_by text',
    /"name" is not the primary key/,
  ],
  'a key of two columns': [
    'name text, tenant int, lock_until timestamptz, locked_at timestamptz, locked_by text, primary key (name, tenant)',
    /"name" is not the primary key/,
  ],
  'whole seconds': [
    'name text primary key, lock_until timestamptz(0), locked_at timestamptz, locked_by text',
    /"lock_until" keeps 0 digits/,
  ],
  dates: ['name text primary key, lock_until date, locked_at timestamptz, locked_by text', /of type date/],
  'a slot of another type': [
    'name text primary key, lock_until timestamptz, locked_at timestamptz, locked_by text, slot text',
    /"slot" is of type text/,
  ],
};

describeWithPostgres('PostgreSQL: the table', (server) => {
  const at = home(server);
  const provider = (options: Omit<PostgresProviderOptions, 'pool'> = {}) =>
    postgresProvider({ pool: at.console, ...options });

  test('that is missing is an error of every verb, which names the command and the function', async () => {
    const table = at.freshTable();
    const missing = provider({ table });
    const verbs = [
      () => missing.abilities(),
      () => take(missing),
      () => missing.renewMany([{ key: 'k', owner, token: 1, leaseMs: 1 }]),
      () => missing.release({ key: 'k', owner }),
      () => missing.inspect({}),
      () => missing.forceRelease('k'),
      () => missing.purge({ idleMs: 0 }),
    ];
    for (const verb of verbs) {
      await expect(verb()).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringMatching(/`joblatch migrate`.*`migratePostgres\(\)`/),
      });
    }
    await migratePostgres({ pool: at.console, table });
    expect(await take(missing)).toMatchObject({ ok: true });

    await at.console.query(`drop table ${table}`);
    await expect(take(missing)).rejects.toBeInstanceOf(LockStoreError);
    // Made again, and by Java this time: it is looked at anew.
    await at.console.query(shedlockTable(table));
    expect(await take(missing)).toMatchObject({ ok: true });
    expect(await missing.abilities()).toMatchObject({ fencing: false });
  });

  test('is made once by many who come together, or completed', async () => {
    for (const there of [false, true]) {
      const table = at.freshTable();
      if (there) await at.console.query(shedlockTable(table));
      const providers = Array.from({ length: 12 }, () => provider({ table, autoMigrate: true }));
      const results = await Promise.all(providers.map((each, i) => take(each, 'k', `host:${i}`)));
      expect(results.filter(({ ok }) => ok)).toHaveLength(1);
      expect(await migratePostgres({ pool: at.console, table })).toEqual([]);
      expect(await provider({ table }).abilities()).toMatchObject({ fencing: true, slots: true });
    }
  });

  test('printed as SQL makes and completes it, any number of times, with the same result', async () => {
    const schema = (table: string) =>
      at.console.query(
        `select column_name, data_type, column_default, is_nullable from information_schema.columns where table_name = $1 and table_schema = current_schema() order by 1`,
        [table],
      );
    const [printed, made] = [at.freshTable(), await at.madeTable()];
    await at.console.query(postgresMigrationSql({ table: printed }));
    await at.console.query(postgresMigrationSql({ table: printed }));
    expect((await schema(printed)).rows).toEqual((await schema(made)).rows);
    const javas = at.freshTable();
    await at.console.query(shedlockTable(javas));
    await at.console.query(postgresMigrationSql({ table: javas }));
    expect(await migratePostgres({ pool: at.console, table: javas })).toEqual([]);
  });

  test('updates of it are HOT: the index is left alone', async () => {
    const table = await at.madeTable();
    const it = provider({ table });
    for (let i = 0; i < 200; i += 1) {
      await take(it, 'k', `host:${i}`);
      await it.release({ key: 'k', owner: `host:${i}` });
    }
    await at.console.query('select pg_stat_force_next_flush()').catch(() => {});
    await expect
      .poll(
        async () => {
          const { rows } = await at.console.query(
            'select n_tup_upd::int as all, n_tup_hot_upd::int as hot from pg_stat_user_tables where relid = $1::regclass',
            [table],
          );
          return rows[0];
        },
        { timeout: 10_000 },
      )
      .toMatchObject({ all: 399 });
    const { rows } = await at.console.query(
      'select n_tup_hot_upd::float / n_tup_upd as share from pg_stat_user_tables where relid = $1::regclass',
      [table],
    );
    expect(rows[0]?.share).toBeGreaterThan(0.9);
  });

  describe('that can not keep locks is refused, and left alone', () => {
    test.each(Object.entries(UNFIT))('%s', async (_what, [columns, why]) => {
      await at.console.query(
        "create collation if not exists folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
      );
      const table = at.freshTable();
      await at.console.query(`create table ${table} (${columns})`);
      for (const attempt of [
        () => take(provider({ table })),
        () => migratePostgres({ pool: at.console, table }),
      ]) {
        await expect(attempt()).rejects.toMatchObject({ code: 'STORE', message: expect.stringMatching(why) });
      }
    });
  });

  test('its name, its schema and its columns are names, whatever is in them', async () => {
    await at.console.query('create table victim (n int)');
    const { rows } = await at.console.query('select current_schema() as schema');
    const home = rows[0]?.schema as string;
    for (const [i, table] of HOSTILE.entries()) {
      // A schema is quoted in the same way; one of them all is tried with each table.
      const schema = i % 2 ? home : `${home.slice(0, 20)}${HOSTILE[i]?.slice(0, 20)}`;
      await at.console.query(`create schema if not exists "${schema.replaceAll('"', '""')}"`);
      const columns = {
        name: table,
        lockUntil: `u${i}"`,
        lockedAt: "a'",
        lockedBy: 'by;',
        fencingToken: 'T',
        slot: '$1',
      };
      const it = provider({ schema, table, columns, autoMigrate: true });
      const slot = Date.now();
      expect(await it.acquire({ key: 'k', owner, leaseMs: MINUTE, slot }), table).toMatchObject({ ok: true });
      expect(await take(it), table).toMatchObject({ ok: false, reason: 'held' });
      expect(await it.renewMany([{ key: 'k', owner, token: 1, leaseMs: MINUTE }]), table).toEqual(['ok']);
      expect(await it.inspect({}), table).toMatchObject([{ key: 'k', owner, slot }]);
      expect(await it.release({ key: 'k', owner }), table).toBe(true);
      expect(await it.forceRelease('k'), table).toBe(false);
      expect(await it.purge({ idleMs: 0 }), table).toBe(0);
      if (schema !== home) await at.console.query(`drop schema "${schema.replaceAll('"', '""')}" cascade`);
    }
    expect((await at.console.query('select * from victim')).rows).toEqual([]);
  });

  test('of which somebody has no rights: told, with those that are needed', async () => {
    const table = await at.madeTable();
    const role = `nobody_${process.pid}_${Date.now()}`;
    await at.console.query(`create role ${role} login`);
    const url = new URL(at.url);
    url.username = role;
    const pool = await openClient('pg Pool', url.href);
    const poor = postgresProvider({ pool, table });
    // Of a schema that he may not use he sees no table at all.
    await expect(take(poor)).rejects.toMatchObject({ code: 'STORE' });
    await at.console.query(
      `do $$ begin execute format('grant usage on schema %I to ${role}', current_schema()); end $$`,
    );
    await expect(take(poor)).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringMatching(/permission denied.*SELECT, INSERT and UPDATE/),
    });
    await expect(migratePostgres({ pool, table: at.freshTable() })).rejects.toMatchObject({
      code: 'STORE',
      operation: 'migrate',
      message: expect.stringMatching(/permission denied.*CREATE/),
    });
    await at.console.query(`grant select, insert, update on ${table} to ${role}`);
    expect(await take(poor)).toMatchObject({ ok: true });
    await pool.end();
    await at.console.query(`drop owned by ${role}`);
    await at.console.query(`drop role ${role}`);
  });

  test('ten thousand grants are renewed by one statement, and one that is gone spoils no other', async () => {
    const table = await at.madeTable();
    await at.console.query(
      `insert into ${table} select 'key-' || i, now() + interval '10 minutes', now(), 'host:' || i, i, null from generate_series(0, 9999) i`,
    );
    const it = provider({ table });
    const requests = Array.from({ length: 10_000 }, (_, i) => ({
      key: `key-${i}`,
      owner: `host:${i}`,
      token: i,
      leaseMs: i % 2 ? 1_000 : 60 * MINUTE,
    }));
    await it.forceRelease('key-7');
    const locked = await at.console.connect();
    await locked.query('begin');
    await locked.query(`select from ${table} where name = 'key-8' for update`);
    const answers = await it.renewMany(requests);
    await locked.query('rollback');
    locked.release();
    expect(answers.map((answer, i) => [i, answer]).filter(([, answer]) => answer !== 'ok')).toEqual([
      [7, 'lost'],
      [8, 'unknown'],
    ]);
    const left = new Map((await it.inspect({})).map((record) => [record.key, record.leftMs]));
    expect(left.size).toBe(10_000);
    const off = requests.filter(({ key }, i) => {
      const ms = left.get(key) as number;
      return i !== 7 && i !== 8 && (i % 2 ? ms < 9 * MINUTE || ms > 10 * MINUTE : ms < 50 * MINUTE);
    });
    expect(off).toEqual([]);
    expect(await it.inspect({ limit: 6_000 })).toHaveLength(6_000);
  });

  test('an instant that a person set to infinity is honoured, and can be released', async () => {
    const table = await at.madeTable();
    const it = provider({ table });
    await at.console.query(
      `insert into ${table} values ('k', 'infinity', '-infinity', 'a person', null, null)`,
    );
    expect(await take(it)).toMatchObject({ ok: false, reason: 'held' });
    expect(await it.inspect({})).toMatchObject([{ state: 'held', owner: 'a person' }]);
    expect(await it.forceRelease('k')).toBe(true);
    expect(await take(it)).toMatchObject({ ok: true });
  });

  test('a column whose type is changed under way is served as it is now', async () => {
    const table = at.freshTable();
    await at.console.query(shedlockTable(table));
    const url = new URL(at.url);
    url.searchParams.set('options', `${url.searchParams.get('options')} -c TimeZone=America/New_York`);
    const it = await openPostgres('pg Pool', url.href, { table });
    const left = async (): Promise<number> => (await it.inspect({ key: 'k' }))[0]?.leftMs ?? 0;
    expect(await take(it)).toMatchObject({ ok: true });
    await at.console.query(
      `alter table ${table} alter column lock_until type timestamptz using lock_until at time zone 'utc', alter column locked_at type timestamptz using locked_at at time zone 'utc'`,
    );
    expect(await left()).toBeGreaterThan(MINUTE / 2);
    expect(await take(it, 'k', 'host:2')).toMatchObject({ ok: false });
    expect(await it.renewMany([{ key: 'k', owner, token: 1, leaseMs: 2 * MINUTE }])).toEqual(['ok']);
    expect(await left()).toBeLessThanOrEqual(2 * MINUTE);
    expect(await it.release({ key: 'k', owner })).toBe(true);
    expect(await take(it, 'k', 'host:2')).toMatchObject({ ok: true });
    await it.close?.();
  });
});

describe('postgresProvider', () => {
  const pool = {
    connect: async () => {},
    query: async () => {},
    totalCount: 0,
    on() {},
    removeListener() {},
  };
  const client = { connect: async () => {}, query: async () => {}, on() {}, removeListener() {} };
  test.each([
    [{}, /there is no client/],
    [{ pool, client }, /pool and client were given/],
    [{ pool: client }, /say client/],
    [{ client: pool }, /say pool/],
    [{ pool: 'postgres://user:secret@host/db' }, /pool is not a Pool of pg/],
    [{ pool, table: '' }, /table is ""/],
    [{ pool, table: 'x'.repeat(64) }, /63 bytes/],
    [{ pool, table: 'a\0b' }, /table is/],
    [{ pool, schema: 7 }, /schema is 7/],
    [{ pool, columns: { name: 'slot' } }, /two columns have one name/],
    [{ pool, columns: { nmae: 'x' } }, /no option "nmae"/],
    [{ pool, tabel: 'x' }, /no option "tabel"/],
    [{ pool, timeoutMs: 0 }, /timeoutMs is 0/],
    [{ pool, autoMigrate: 'yes' }, /autoMigrate is yes/],
    [{ pool, prepare: 1 }, /prepare is 1/],
  ])('refuses %j', (options, why) => {
    const attempt = (): unknown => postgresProvider(options as never);
    expect(attempt).toThrow(why);
    expect(attempt).toThrow(expect.objectContaining({ code: 'OPTIONS' }));
    expect(attempt).not.toThrow(/secret/);
  });

  test('prints what a migration does without a server', () => {
    expect(postgresMigrationSql({ schema: 'jobs', table: 'a"b' })).toMatch(
      /^create table if not exists "jobs"\."a""b" \([\s\S]*\);\nalter table [^;]*"fencing_token" bigint default 0;\nalter table [^;]*"slot" bigint;\n$/,
    );
  });
});
