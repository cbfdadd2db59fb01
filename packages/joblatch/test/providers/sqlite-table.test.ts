import { setTimeout as sleep } from 'node:timers/promises';
import type { LockProvider } from 'joblatch';
import { type SqliteDatabase, sqliteProvider } from 'joblatch/sqlite';
import { expect, test } from 'vitest';
import { describePerDriver, freshFile, scratchFolder } from '../support/sqlite-drivers.ts';

const folder = scratchFolder();
const MINUTE = 60_000;
const owner = 'host:1';

const take = (provider: LockProvider, key = 'k') => provider.acquire({ key, owner, leaseMs: MINUTE });

const HOSTILE = [
  'simple',
  'Übergröße 🔒',
  'order',
  'a"b',
  '""',
  "a'b",
  'x; drop table victim; --',
  'main.locks',
  '[x]',
  '`x`',
  '%s ? :a $1',
  ' ',
  '123',
  'x'.repeat(300),
];

const UNFIT: Readonly<Record<string, readonly [ddl: string, why: RegExp]>> = {
  'another kind of table': ['create table shedlock (id integer primary key, what text)', /no column name/],
  'letter case folded': [
    'create table shedlock (name text collate NoCase primary key, lock_until integer, locked_at integer, locked_by text)',
    /NOCASE/,
  ],
  'keys as numbers': [
    'create table shedlock (name numeric primary key, lock_until integer, locked_at integer, locked_by text)',
    /NUMERIC/,
  ],
  'no unique key': [
    'create table shedlock (name text, lock_until integer, locked_at integer, locked_by text)',
    /not a primary or unique key/,
  ],
};

const escaped = (text: string): string => text.replace(/[()]/g, '\\$&');

describePerDriver('the table', (driver) => {
  const inMemory = (ddl?: string): { handle: SqliteDatabase; provider: LockProvider } => {
    const handle = driver.open(':memory:');
    if (ddl) handle.exec(ddl);
    return { handle, provider: sqliteProvider({ database: handle }) };
  };

  test('is made again when it vanishes, while held and while free, and by each verb', async () => {
    const { handle, provider } = inMemory();
    const verbs: ReadonlyArray<readonly [() => Promise<unknown>, unknown]> = [
      [() => take(provider), expect.objectContaining({ ok: true })],
      [() => provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: MINUTE }]), ['lost']],
      [() => provider.release({ key: 'k', owner }), false],
      [() => provider.inspect({}), []],
      [() => provider.inspect({ key: 'k' }), []],
      [() => provider.forceRelease('k'), false],
      [() => provider.purge({ idleMs: 0 }), 0],
    ];
    for (const [verb, expected] of verbs) {
      await take(provider);
      handle.exec('drop table shedlock');
      expect(await verb()).toEqual(expected);
      await provider.forceRelease('k');
    }
    handle.close();
  });

  test('of an earlier version gets its columns, once, and its records are taken over', async () => {
    const path = freshFile(folder);
    const old = driver.open(path);
    old.exec(
      'create table shedlock (name varchar(64) primary key, lock_until timestamp(3), locked_at timestamp(3), locked_by varchar(255))',
    );
    old.exec(
      "insert into shedlock values ('k', 1700000000000, 1699999999000, 'old'), ('null', null, null, null)",
    );
    const providers = Array.from({ length: 8 }, () => sqliteProvider({ database: driver.open(path) }));
    const results = await Promise.all(providers.map((provider) => take(provider)));
    expect(results.filter((r) => r.ok)).toHaveLength(1);
    const [first] = providers as [LockProvider];
    expect(await take(first, 'null')).toMatchObject({ ok: true });
    expect(await first.inspect({})).toMatchObject([
      { key: 'k', state: 'held', owner },
      { key: 'null', state: 'held', owner },
    ]);
  });

  test('records that another program writes are honoured, and the token grows past them', async () => {
    const { handle, provider } = inMemory();
    const first = await take(provider);
    handle.exec(
      "update shedlock set lock_until = unixepoch() * 1000 + 60000, locked_by = 'java', slot = null",
    );
    expect(await take(provider)).toMatchObject({ ok: false, reason: 'held' });
    expect(await provider.release({ key: 'k', owner })).toBe(false);
    handle.exec('update shedlock set lock_until = 0, fencing_token = null');
    // With the counter gone the token starts from the clock, which counts milliseconds.
    await sleep(5);
    const second = await take(provider);
    expect(first.ok && second.ok && second.token > first.token).toBe(true);
    handle.close();
  });

  test('a text where an instant belongs is told, not waited for', async () => {
    const { handle, provider } = inMemory(
      'create table shedlock (name text primary key, lock_until, locked_at, locked_by text)',
    );
    handle.exec("insert into shedlock values ('k', '2020-01-01 00:00:00', null, 'x')");
    await expect(take(provider)).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('lock_until'),
    });
    expect(await provider.forceRelease('k')).toBe(true);
    expect((await take(provider)).ok).toBe(true);
    handle.close();
  });

  for (const [what, [ddl, why]] of Object.entries(UNFIT)) {
    test(`that can not keep locks is refused and left alone: ${what}`, async () => {
      const { handle, provider } = inMemory(ddl);
      await expect(take(provider)).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringMatching(why),
      });
      expect(handle.prepare("select sql from sqlite_schema where name = 'shedlock'").all()).toMatchObject([
        { sql: expect.stringMatching(new RegExp(`^${escaped(ddl)}$`, 'i')) },
      ]);
      handle.close();
    });
  }

  test('its name is a name, whatever is in it', async () => {
    const handle = driver.open(':memory:');
    handle.exec('create table victim (n)');
    for (const table of HOSTILE) {
      const provider = sqliteProvider({ database: handle, table });
      expect(await take(provider), table).toMatchObject({ ok: true });
      expect(await take(provider), table).toMatchObject({ ok: false, reason: 'held' });
      expect(await provider.release({ key: 'k', owner }), table).toBe(true);
    }
    const made = handle.prepare("select name from sqlite_schema where type = 'table'").all();
    const names = made.map((row) => (row as { name: string }).name);
    expect(names.sort()).toEqual([...HOSTILE, 'victim'].sort());
    handle.close();
  });

  test('a temporary table of its name does not stand before it', async () => {
    const { handle, provider } = inMemory();
    handle.exec('create temp table shedlock (x)');
    expect((await take(provider)).ok).toBe(true);
    expect(handle.prepare('select name from main.shedlock').all()).toHaveLength(1);
    handle.close();
  });

  test('ten thousand grants are renewed by one call, and none is moved back', async () => {
    const handle = driver.open(freshFile(folder));
    handle.exec('pragma journal_mode = wal');
    handle.exec('pragma synchronous = off');
    const provider = sqliteProvider({ database: handle });
    const keys = Array.from({ length: 10_000 }, (_, i) => `key-${i}`);
    const requests = await Promise.all(
      keys.map(async (key, i) => {
        const result = await provider.acquire({ key, owner: `${owner}:${i}`, leaseMs: 10 * MINUTE });
        return {
          key,
          owner: `${owner}:${i}`,
          token: result.ok ? result.token : 0,
          leaseMs: i % 2 ? 1_000 : 60 * MINUTE,
        };
      }),
    );
    await provider.forceRelease('key-7');
    const answers = await provider.renewMany(requests);
    expect(answers.map((answer, i) => [i, answer]).filter(([, answer]) => answer !== 'ok')).toEqual([
      [7, 'lost'],
    ]);
    const records = new Map((await provider.inspect({})).map((record) => [record.key, record.leftMs]));
    expect(records.size).toBe(10_000);
    const off = keys.filter((key, i) => {
      const left = records.get(key) as number;
      return i !== 7 && (i % 2 ? left < 5 * MINUTE || left > 10 * MINUTE : left < 50 * MINUTE);
    });
    expect(off).toEqual([]);
    expect(await provider.inspect({ limit: 1_500 })).toHaveLength(1_500);
    handle.close();
  });
});
