import type { LockProvider } from 'joblatch';
import { sqliteProvider } from 'joblatch/sqlite';
import { expect, test } from 'vitest';
import { openSqlite } from '../support/open-sqlite.js';
import { describePerDriver, freshFile, holdWriteLock, scratchFolder } from '../support/sqlite-drivers.ts';

const folder = scratchFolder();
const MINUTE = 60_000;
const owner = 'host:1';

/** Counts turns of the event loop until it is told to stop. */
function countTurns(): () => number {
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 5);
  return () => {
    clearInterval(timer);
    return turns;
  };
}

describePerDriver('a file in which somebody else writes', (driver) => {
  test('who loses is refused at once; who would win, waits; the event loop goes on', async () => {
    const path = freshFile(folder);
    const provider = openSqlite(driver.name, path);
    await provider.acquire({ key: 'held', owner, leaseMs: MINUTE });
    const other = await holdWriteLock(driver.name, path, 800);
    let over = false;
    void other.released.then(() => {
      over = true;
    });
    const turns = countTurns();

    expect(await provider.acquire({ key: 'held', owner: 'b', leaseMs: MINUTE })).toMatchObject({
      reason: 'held',
    });
    expect(over).toBe(false);
    const waiting = Promise.all([
      ...Array.from({ length: 100 }, (_, i) => provider.acquire({ key: `${i}`, owner, leaseMs: MINUTE })),
      provider.renewMany([{ key: 'held', owner, token: 1, leaseMs: 2 * MINUTE }]),
      provider.release({ key: 'no', owner }),
    ]);
    const results = await waiting;

    expect(results.slice(0, 100).every((r) => typeof r === 'object' && 'ok' in r && r.ok)).toBe(true);
    expect(results.slice(100)).toEqual([['ok'], false]);
    await other.released;
    // 160 at the most; a driver that waits would leave none of them.
    expect(turns()).toBeGreaterThan(20);
    await provider.close?.();
  });

  test('without a signal the limit ends it: an error that says so, and nothing is taken', async () => {
    const path = freshFile(folder);
    const database = driver.open(path);
    const provider = sqliteProvider({ database, busyTimeoutMs: 150 });
    await provider.abilities();
    const other = await holdWriteLock(driver.name, path, 1_500);
    const turns = countTurns();
    await expect(provider.acquire({ key: 'k', owner, leaseMs: MINUTE })).rejects.toMatchObject({
      code: 'STORE',
      operation: 'acquire',
      key: 'k',
      message: expect.stringContaining('database is locked'),
      cause: expect.objectContaining({ message: expect.stringContaining('locked') }),
    });
    expect(turns()).toBeGreaterThan(3);
    await other.released;
    expect(await provider.inspect({})).toEqual([]);
    database.close();
  });

  test('with a signal it is tried beyond the limit, until the signal aborts', async () => {
    const path = freshFile(folder);
    const database = driver.open(path);
    const provider = sqliteProvider({ database, busyTimeoutMs: 1 });
    await provider.abilities();
    const first = await holdWriteLock(driver.name, path, 300);
    const { signal } = new AbortController();
    expect((await provider.acquire({ key: 'k', owner, leaseMs: MINUTE }, { signal })).ok).toBe(true);
    await first.released;

    const second = await holdWriteLock(driver.name, path, 1_500);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 100);
    await expect(
      provider.acquire({ key: 'other', owner, leaseMs: MINUTE }, controller),
    ).rejects.toMatchObject({ code: 'STORE', message: expect.stringContaining('database is locked') });
    await second.released;
    expect(await provider.inspect({ key: 'other' })).toEqual([]);
    database.close();
  });

  test('who gave up reads the present afterwards, not what was there then', async () => {
    const path = freshFile(folder);
    const handles = [driver.open(path), driver.open(path)] as const;
    handles[0].exec('pragma journal_mode = wal');
    const [one, two] = handles.map((database) => sqliteProvider({ database, busyTimeoutMs: 50 })) as [
      LockProvider,
      LockProvider,
    ];
    await Promise.all([one.abilities(), two.abilities()]);
    await two.acquire({ key: 'k', owner, leaseMs: MINUTE });
    const other = await holdWriteLock(driver.name, path, 300);
    await expect(one.acquire({ key: 'free', owner, leaseMs: MINUTE })).rejects.toThrow('locked');
    await other.released;
    expect(await one.acquire({ key: 'k', owner: 'b', leaseMs: MINUTE })).toMatchObject({ reason: 'held' });
    expect(await two.release({ key: 'k', owner })).toBe(true);
    expect(await one.acquire({ key: 'k', owner: 'b', leaseMs: MINUTE })).toMatchObject({ ok: true });
    for (const handle of handles) handle.close();
  });

  test('outside WAL mode who could not even read gives up, and then keeps nobody from writing', async () => {
    const path = freshFile(folder);
    const handles = [driver.open(path), driver.open(path)] as const;
    const [one, two] = handles.map((database) => sqliteProvider({ database, busyTimeoutMs: 50 })) as [
      LockProvider,
      LockProvider,
    ];
    await Promise.all([one.abilities(), two.abilities()]);
    const other = await holdWriteLock(driver.name, path, 500, 'exclusive');
    await expect(one.inspect({})).rejects.toThrow('locked');
    await expect(one.acquire({ key: 'k', owner, leaseMs: MINUTE })).rejects.toThrow('locked');
    await other.released;
    expect(await one.forceRelease('k')).toBe(false);
    expect(await two.acquire({ key: 'k', owner, leaseMs: MINUTE })).toMatchObject({ ok: true });
    expect(await one.inspect({})).toMatchObject([{ key: 'k', state: 'held' }]);
    expect(await two.release({ key: 'k', owner })).toBe(true);
    expect(await one.inspect({})).toMatchObject([{ key: 'k', state: 'free' }]);
    for (const handle of handles) handle.close();
  });

  test('close() lets those go who wait', async () => {
    const path = freshFile(folder);
    const database = driver.open(path);
    const provider = sqliteProvider({ database });
    await provider.abilities();
    const other = await holdWriteLock(driver.name, path, 500);
    const waiting = provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    setTimeout(() => void provider.close?.(), 50);
    await expect(waiting).rejects.toMatchObject({ message: expect.stringContaining('closed') });
    await other.released;
    database.close();
  });

  test('the time is read after the write lock was had, so waiting takes nothing off the lease', async () => {
    const path = freshFile(folder);
    const database = driver.open(path);
    const provider = sqliteProvider({ database });
    await provider.abilities();
    // Set behind its back: here the driver itself shall wait, within the statement.
    database.exec('pragma busy_timeout = 5000');
    const other = await holdWriteLock(driver.name, path, 300);
    const sentAt = Date.now();
    const taken = await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    const releasedAt = await other.released;
    expect(taken.ok).toBe(true);
    const [row] = database.prepare('select locked_at, lock_until from shedlock').all();
    const { locked_at, lock_until } = row as { locked_at: number; lock_until: number };
    expect(locked_at - sentAt).toBeGreaterThan(150);
    // The other looks at its clock a little after its commit.
    expect(locked_at).toBeGreaterThan(releasedAt - 50);
    expect(lock_until - locked_at).toBe(MINUTE);
    database.close();
  });

  test('it is opened for the first time in spite of that', async () => {
    const path = freshFile(folder);
    const other = await holdWriteLock(driver.name, path, 300);
    const provider = openSqlite(driver.name, path);
    expect((await provider.acquire({ key: 'k', owner, leaseMs: MINUTE })).ok).toBe(true);
    await other.released;
    await provider.close?.();
  });
});
