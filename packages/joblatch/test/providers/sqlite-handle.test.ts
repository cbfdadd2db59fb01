import type { LockProvider } from 'joblatch';
import { type SqliteDatabase, type SqliteStatement, sqliteProvider } from 'joblatch/sqlite';
import { expect, test } from 'vitest';
import { describePerDriver, freshFile, scratchFolder } from '../support/sqlite-drivers.ts';

const folder = scratchFolder();
const MINUTE = 60_000;

/** Plays every verb once, and says what came back. */
async function playAll(provider: LockProvider): Promise<unknown[]> {
  const owner = 'host:1';
  const taken = await provider.acquire({ key: 'a', owner, leaseMs: MINUTE, oncePerMs: MINUTE });
  const token = taken.ok ? taken.token : 0;
  return [
    taken.ok && taken.leftMs === MINUTE && Number.isSafeInteger(token) && Number.isSafeInteger(taken.slot),
    (await provider.acquire({ key: 'a', owner: 'other', leaseMs: MINUTE })).ok,
    await provider.renewMany([
      { key: 'a', owner, token, leaseMs: 2 * MINUTE },
      { key: 'b', owner, token, leaseMs: MINUTE },
    ]),
    (await provider.inspect({})).map((r) => [r.key, r.state, r.owner, r.token === token, r.leftMs > MINUTE]),
    await provider.release({ key: 'a', owner }),
    (await provider.inspect({ key: 'a' })).map((r) => [r.key, r.state, r.owner, r.leftMs]),
    await provider.forceRelease('a'),
    await provider.purge({ idleMs: MINUTE }),
  ];
}

const EXPECTED = [
  true,
  false,
  ['ok', 'lost'],
  [['a', 'held', 'host:1', true, true]],
  true,
  [['a', 'free', 'host:1', 0]],
  false,
  0,
];

/** Ways to be told to answer in another form: at the opening, on the handle, on each statement. */
const MODES: Readonly<
  Record<string, readonly [options: object, prepare?: (statement: SqliteStatement) => void]>
> = {
  'as it comes': [{}],
  'integers as BigInt (node:sqlite)': [{ readBigInts: true }],
  'rows as arrays (node:sqlite)': [{ returnArrays: true }],
  'rows as arrays (raw)': [{}, (statement) => call(statement, 'raw', true)],
  'bare values (pluck)': [{}, (statement) => call(statement, 'pluck', true)],
  'integers as BigInt (safeIntegers)': [{}, (statement) => call(statement, 'safeIntegers', true)],
};

function call(target: object, method: string, ...args: unknown[]): void {
  const found = (target as Record<string, unknown>)[method];
  if (typeof found === 'function') found.apply(target, args);
}

/** The handle as someone sees it who prepares each statement in a way of their own. */
function preparing(database: SqliteDatabase, prepare: (statement: SqliteStatement) => void): SqliteDatabase {
  return {
    prepare: (sql) => {
      const statement = database.prepare(sql);
      prepare(statement);
      return statement;
    },
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
  };
}

describePerDriver('a handle that was given', (driver) => {
  for (const [mode, [options, prepare]] of Object.entries(MODES)) {
    test(`answers are read whatever the form: ${mode}`, async () => {
      const handle = driver.open(':memory:', { ...options });
      call(handle, 'defaultSafeIntegers', mode.includes('BigInt'));
      const provider = sqliteProvider({ database: prepare ? preparing(handle, prepare) : handle });
      expect(await playAll(provider)).toEqual(EXPECTED);
      handle.close();
    });
  }

  test('is not closed by close(), and calls after it are refused', async () => {
    const handle = driver.open(':memory:');
    const provider = sqliteProvider({ database: handle });
    await provider.abilities();
    await provider.close?.();
    await provider.close?.();
    expect(handle.prepare('select 1').all()).toHaveLength(1);
    await expect(provider.acquire({ key: 'k', owner: 'o', leaseMs: 1 })).rejects.toMatchObject({
      code: 'STORE',
      operation: 'acquire',
      key: 'k',
      message: expect.stringContaining('the provider was closed'),
    });
    handle.close();
  });

  test('that its owner closed is told so, and the process lives', async () => {
    const handle = driver.open(':memory:');
    const provider = sqliteProvider({ database: handle });
    await provider.abilities();
    handle.close();
    await expect(provider.release({ key: 'k', owner: 'o' })).rejects.toMatchObject({
      code: 'STORE',
      operation: 'release',
      message: expect.stringContaining('closed'),
    });
    await expect(sqliteProvider({ database: handle }).abilities()).rejects.toMatchObject({ code: 'STORE' });
  });

  test('with an open transaction is refused, and is usable after it', async () => {
    const handle = driver.open(':memory:');
    const provider = sqliteProvider({ database: handle });
    await provider.abilities();
    handle.exec('begin');
    await expect(provider.acquire({ key: 'k', owner: 'o', leaseMs: MINUTE })).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('open transaction'),
    });
    handle.exec('rollback');
    expect((await provider.acquire({ key: 'k', owner: 'o', leaseMs: MINUTE })).ok).toBe(true);
    handle.close();
  });

  test('keeps its journal mode; its busy time-out is a matter of milliseconds', async () => {
    const handle = driver.open(freshFile(folder));
    const pragma = (name: string): unknown =>
      Object.values(handle.prepare(`pragma ${name}`).all()[0] as object)[0];
    handle.exec('pragma busy_timeout = 5000');
    const before = [pragma('journal_mode'), pragma('synchronous')];
    await sqliteProvider({ database: handle }).abilities();
    expect([pragma('journal_mode'), pragma('synchronous')]).toEqual(before);
    expect(pragma('busy_timeout')).toBeLessThan(10);
    handle.close();
  });

  test('that may only read can be inspected, and says so when it should write', async () => {
    const path = freshFile(folder);
    const handle = driver.open(path);
    const writer = sqliteProvider({ database: handle });
    await writer.acquire({ key: 'k', owner: 'o', leaseMs: MINUTE });
    handle.exec('pragma query_only = 1');
    expect(await writer.inspect({})).toMatchObject([{ key: 'k', state: 'held' }]);
    expect(await writer.acquire({ key: 'k', owner: 'p', leaseMs: MINUTE })).toMatchObject({ reason: 'held' });
    await expect(writer.acquire({ key: 'other', owner: 'p', leaseMs: MINUTE })).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('read-only'),
    });
    handle.close();
  });

  test('in memory is for one process', async () => {
    const handle = driver.open(':memory:');
    expect(await sqliteProvider({ database: handle }).abilities()).toEqual({
      multiProcess: false,
      serverClock: false,
      fencing: true,
      slots: true,
      inspect: true,
    });
    handle.close();
  });

  test('a full disk is told as one, nothing is taken, and there is room again later', async () => {
    const handle = driver.open(freshFile(folder));
    const provider = sqliteProvider({ database: handle });
    await provider.abilities();
    handle.exec('pragma max_page_count = 1');
    const take = (i: number) =>
      provider.acquire({ key: `${i}${'x'.repeat(500)}`, owner: 'o', leaseMs: MINUTE });
    const fill = async (): Promise<number> => {
      for (let i = 0; i < 100; i += 1) await take(i);
      return 0;
    };
    await expect(fill()).rejects.toMatchObject({ code: 'STORE', message: expect.stringContaining('full') });
    handle.exec('pragma max_page_count = 1000');
    expect((await take(100)).ok).toBe(true);
    handle.close();
  });
});

test('a driver with an old SQLite is refused with its version', async () => {
  const database: SqliteDatabase = {
    prepare: () => ({ all: () => [{ v: '["3.41.2"]' }] }),
    exec: () => undefined,
    close: () => undefined,
  };
  await expect(sqliteProvider({ database }).abilities()).rejects.toMatchObject({
    code: 'STORE',
    message: expect.stringMatching(/SQLite 3\.41\.2.*3\.42/),
  });
});
