import { type ChildProcess, spawn } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLocks, type GuardRequest, type LockProvider } from 'joblatch';
import { type SqliteDatabase, sqliteProvider } from 'joblatch/sqlite';
import { afterEach, describe, expect, test } from 'vitest';
import { openSqlite } from '../support/open-sqlite.js';
import { describePerDriver, freshFile, holdWriteLock, scratchFolder } from '../support/sqlite-drivers.ts';
import { count, createCounters, openMember, sumOfCounters } from '../support/sqlite-guarded.js';

const folder = scratchFolder();
const MINUTE = 60_000;
const owner = 'host:1';
const ROUNDS = Number(process.env.JOBLATCH_GUARD_ROUNDS ?? 400);
const STOPS = Number(process.env.JOBLATCH_GUARD_STOPS ?? 15);

const grantOf = (key: string, more: Partial<GuardRequest> = {}): GuardRequest => ({
  key,
  owner,
  // SQLite finds a grant by its owner.
  token: 1,
  leftMs: MINUTE,
  ...more,
});

function guard(provider: LockProvider, request: GuardRequest, transaction: object): Promise<boolean> {
  return provider.guard?.(request, transaction) ?? Promise.reject(new Error('There is no guard.'));
}

function cell(database: SqliteDatabase, sql: string): unknown {
  return Object.values(database.prepare(sql).all()[0] as object)[0];
}

const opened: SqliteDatabase[] = [];
const providers: LockProvider[] = [];
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const provider of providers.splice(0)) await provider.close?.();
  for (const database of opened.splice(0)) database.close();
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

describePerDriver('a guard', (driver) => {
  /** A provider, and the handle of an application: the same, or another one of the same file. */
  function openBoth(which: 'the same handle' | 'two handles'): [LockProvider, SqliteDatabase] {
    const path = freshFile(folder);
    const database = driver.open(path);
    if (which === 'the same handle') {
      opened.push(database);
      return [sqliteProvider({ database }), database];
    }
    const provider = openSqlite(driver.name, path);
    providers.push(provider);
    opened.push(database);
    return [provider, database];
  }

  describe.each(['the same handle', 'two handles'] as const)('%s', (which) => {
    test('is true for a live grant of ours, and for nothing else', async () => {
      const [provider, database] = openBoth(which);
      await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
      await provider.acquire({ key: 'short', owner, leaseMs: 1 });
      await provider.acquire({ key: 'given back', owner, leaseMs: MINUTE });
      await provider.release({ key: 'given back', owner });
      await provider.acquire({ key: 'kept', owner, leaseMs: MINUTE });
      await provider.release({ key: 'kept', owner, keepMs: MINUTE });
      database.exec('create table facts (fact text)');
      await sleep(5);

      for (const begin of ['begin', 'begin immediate']) {
        database.exec(begin);
        expect(await guard(provider, grantOf('k'), database)).toBe(true);
        expect(await guard(provider, grantOf('k', { owner: 'other' }), database)).toBe(false);
        expect(await guard(provider, grantOf('K'), database)).toBe(false);
        for (const key of ['short', 'given back', 'kept', 'never taken'])
          expect(await guard(provider, grantOf(key), database)).toBe(false);
        // The transaction goes on, whatever was said.
        database.exec("insert into facts values ('written')");
        database.exec('commit');
      }
      expect(cell(database, 'select count(*) from facts')).toBe(2);
      expect(await provider.renewMany([{ key: 'k', owner, token: 1, leaseMs: MINUTE }])).toEqual(['ok']);
    });

    test('nobody can take the key till the commit, though the lease is over', async () => {
      const [provider, database] = openBoth(which);
      const path = cell(database, 'select file from pragma_database_list') as string;
      const other = openSqlite(driver.name, path);
      providers.push(other);
      await other.abilities();
      await provider.acquire({ key: 'k', owner, leaseMs: 150 });
      database.exec('begin');
      expect(await guard(provider, grantOf('k'), database)).toBe(true);
      expect(await other.acquire({ key: 'k', owner: 'b', leaseMs: MINUTE }, soon(50))).toMatchObject({
        ok: false,
        reason: 'held',
      });
      await sleep(200);

      // A file has one lock: who wants to write waits, as long as the signal lets it.
      await expect(other.acquire({ key: 'k', owner: 'b', leaseMs: MINUTE }, soon(50))).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('locked'),
      });
      let taken = false;
      const waiting = other.acquire({ key: 'k', owner: 'c', leaseMs: MINUTE }).then((result) => {
        taken = true;
        return result;
      });
      await sleep(50);
      expect(taken).toBe(false);
      database.exec('commit');
      expect(await waiting).toMatchObject({ ok: true });

      database.exec('begin');
      expect(await guard(provider, grantOf('k'), database)).toBe(false);
      database.exec('rollback');
    });

    test('a renewal meanwhile is not told that the lock is lost', async () => {
      const [provider, database] = openBoth(which);
      await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
      const renewal = [{ key: 'k', owner, token: 1, leaseMs: 2 * MINUTE }];
      database.exec('begin');
      expect(await guard(provider, grantOf('k'), database)).toBe(true);
      await expect(provider.renewMany(renewal, soon(50))).rejects.toMatchObject({ code: 'STORE' });
      database.exec('commit');
      expect(await provider.renewMany(renewal)).toEqual(['ok']);
    });

    test('a handle without an open transaction is refused', async () => {
      const [provider, database] = openBoth(which);
      await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
      await expect(guard(provider, grantOf('k'), database)).rejects.toMatchObject({
        code: 'OPTIONS',
        key: 'k',
        message: expect.stringMatching(/no transaction open.*begin immediate/),
      });
      // node:sqlite before Node 22.16 does not tell whether one is open.
      const { prepare, exec } = database;
      const silent = { prepare: prepare.bind(database), exec: exec.bind(database), close: () => {} };
      const sql = openSilent(which, provider, silent);
      await expect(guard(sql, grantOf('k'), silent)).rejects.toMatchObject({ code: 'OPTIONS' });
      database.exec('begin');
      expect(await guard(sql, grantOf('k'), silent)).toBe(true);
      database.exec('commit');
    });
  });

  function openSilent(which: string, provider: LockProvider, database: SqliteDatabase): LockProvider {
    return which === 'the same handle' ? sqliteProvider({ database }) : provider;
  }

  test('what is no handle of the file is refused', async () => {
    const [provider] = openBoth('two handles');
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    const elsewhere = driver.open(freshFile(folder));
    const memory = driver.open(':memory:');
    const closed = driver.open(':memory:');
    opened.push(elsewhere, memory);
    closed.close();
    elsewhere.exec('begin');
    memory.exec('begin');
    for (const [transaction, message] of [
      [{}, /object\) has no prepare and exec/],
      ['begin', /string\) has no prepare and exec/],
      [null, /null\) has no prepare and exec/],
      [closed, /closed/],
      [elsewhere, /transaction is in file ".*\.db", and the lock in file ".*\.db"\. Keep the lock/],
      [memory, /transaction is in a database in memory, and the lock in file/],
    ] as const) {
      await expect(guard(provider, grantOf('k'), transaction as object)).rejects.toMatchObject({
        code: 'OPTIONS',
        message: expect.stringMatching(message),
      });
    }
  });

  test('the file is the same by whatever path', async () => {
    const path = freshFile(folder);
    const provider = openSqlite(driver.name, path);
    providers.push(provider);
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    symlinkSync(path, `${path}.symbolic`);
    const database = driver.open(`${path}.symbolic`);
    opened.push(database);
    database.exec('begin immediate');
    expect(await guard(provider, grantOf('k'), database)).toBe(true);
    database.exec('commit');
  });

  test('in memory: of one handle only', async () => {
    const [database, other] = [driver.open(':memory:'), driver.open(':memory:')];
    opened.push(database, other);
    const provider = sqliteProvider({ database });
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    database.exec('begin');
    expect(await guard(provider, grantOf('k'), database)).toBe(true);
    database.exec('commit');
    other.exec('begin');
    await expect(guard(provider, grantOf('k'), other)).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('no such table'),
    });
  });

  test('a table that is not there is told', async () => {
    const [provider, database] = openBoth('two handles');
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    database.exec('drop table shedlock');
    database.exec('begin');
    await expect(guard(provider, grantOf('k'), database)).rejects.toMatchObject({
      code: 'STORE',
      operation: 'guard',
      message: expect.stringMatching(/guard of "k" failed on table "shedlock".*no such table/),
    });
  });

  test('a transaction that read before somebody else wrote: an error that says what to do, never false', async () => {
    const [provider, database] = openBoth('two handles');
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    database.exec('create table facts (fact text)');
    database.exec('begin');
    expect(cell(database, 'select count(*) from facts')).toBe(0);
    await provider.acquire({ key: 'another', owner, leaseMs: MINUTE });
    await expect(guard(provider, grantOf('k'), database)).rejects.toMatchObject({
      code: 'STORE',
      operation: 'guard',
      key: 'k',
      message: expect.stringMatching(/begin immediate, or call guard first/),
    });
    database.exec('rollback');
    database.exec('begin immediate');
    expect(await guard(provider, grantOf('k'), database)).toBe(true);
    database.exec('commit');
  });

  test('a busy file is waited for, within its time; the event loop goes on; the time-out of the handle stays', async () => {
    const [provider, database] = openBoth('two handles');
    const path = cell(database, 'select file from pragma_database_list') as string;
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    database.exec('pragma busy_timeout = 4321');
    const first = await holdWriteLock(driver.name, path, 300);
    database.exec('begin');
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 5);
    expect(await guard(provider, grantOf('k'), database)).toBe(true);
    expect(turns).toBeGreaterThan(5);
    database.exec('commit');
    expect(cell(database, 'pragma busy_timeout')).toBe(4321);
    await first.released;

    const second = await holdWriteLock(driver.name, path, 1_000);
    database.exec('begin');
    const locked = { code: 'STORE', operation: 'guard', message: expect.stringContaining('locked') };
    const startedAt = performance.now();
    await expect(guard(provider, grantOf('k', { leftMs: 100 }), database)).rejects.toMatchObject(locked);
    await expect(provider.guard?.(grantOf('k'), database, soon(100))).rejects.toMatchObject(locked);
    expect(performance.now() - startedAt).toBeLessThan(800);
    clearInterval(timer);
    database.exec('rollback');
    expect(cell(database, 'pragma busy_timeout')).toBe(4321);
    await second.released;
  });

  test('the guard is no reading before the guard: whoever is waited for may write', async () => {
    const [provider, database] = openBoth('two handles');
    const second = driver.open(cell(database, 'select file from pragma_database_list') as string);
    opened.push(second);
    await provider.acquire({ key: 'k', owner, leaseMs: MINUTE });
    second.exec('begin immediate');
    database.exec('begin');
    const waiting = guard(provider, grantOf('k'), database);
    await sleep(20);
    second.exec('create table facts (fact text)');
    second.exec('commit');
    expect(await waiting).toBe(true);
    database.exec('commit');
  });

  test('a guard waits for nobody who waits for its own transaction', async () => {
    const [provider, database] = openBoth('two handles');
    const second = driver.open(cell(database, 'select file from pragma_database_list') as string);
    opened.push(second);
    for (const key of ['k', 'other']) await provider.acquire({ key, owner, leaseMs: MINUTE });
    database.exec('begin immediate');
    second.exec('begin');
    const waiting = [
      provider.release({ key: 'other', owner }),
      guard(provider, grantOf('k'), second),
      guard(provider, grantOf('k', { owner: 'nobody' }), second),
    ];
    for (let i = 0; i < 5; i += 1) {
      // Long enough that the next call has to wait for its turn of the event loop.
      const spunUntil = performance.now() + 20;
      while (performance.now() < spunUntil);
      expect(await guard(provider, grantOf('k', { leftMs: 2_000 }), database)).toBe(true);
    }
    database.exec('commit');
    const [, ...guards] = waiting;
    expect(await Promise.all(guards)).toEqual([true, false]);
    second.exec('commit');
    expect(await waiting[0]).toBe(true);
  });

  test('a transaction that outlasts the lease: told as lost by the deadline, but nobody had the key before the commit', async () => {
    const [provider, database] = openBoth('two handles');
    const path = cell(database, 'select file from pragma_database_list') as string;
    const locks = createLocks({ provider, watchdogLease: 300 });
    const other = createLocks({ provider: openSqlite(driver.name, path), pollEvery: 5 });
    const seen: unknown[] = [];
    locks.on('lost', ({ detectedBy }) => seen.push(detectedBy));
    let errors = 0;
    locks.on('error', () => {
      errors += 1;
    });
    const lock = await locks.acquire('k');
    database.exec('begin');
    await lock.guard(database);
    database.exec('create table facts (fact text)');
    let taken = false;
    const waiting = other.acquire('k', { wait: '10s' }).then((next) => {
      taken = true;
      return next;
    });
    await sleep(600);
    expect([lock.held, taken, seen]).toEqual([false, false, ['deadline']]);
    expect(errors).toBeGreaterThan(0);
    database.exec('commit');
    await (await waiting).release();
    await locks.close();
    await other.close();
  });

  test('lock.guard: a holder that was away too long is told so, and what it wrote is taken back', async () => {
    const [provider, database] = openBoth('two handles');
    const locks = createLocks({ provider });
    const lock = await locks.acquire('k');
    database.exec('begin immediate');
    await lock.guard(database);
    database.exec('create table facts (fact text)');
    database.exec('commit');
    await provider.forceRelease('k');
    database.exec('begin immediate');
    database.exec("insert into facts values ('too late')");
    expect(lock.held).toBe(true);
    await expect(lock.guard(database)).rejects.toMatchObject({ code: 'LOST', detectedBy: 'guard' });
    database.exec('rollback');
    expect(cell(database, 'select count(*) from facts')).toBe(0);
    await locks.close();
  });

  /** Each of the handles does its share of the rounds, on one key after the other. */
  async function countAll(guarded: boolean, rounds: number) {
    const path = freshFile(folder);
    const members = Array.from({ length: 8 }, () => openMember(driver.name, path, 50));
    const [first] = members as [(typeof members)[0]];
    first.database.exec('pragma journal_mode = wal');
    await createCounters(first, 16);
    const outcomes = { written: 0, lost: 0 };
    let next = 0;
    const work = members.map(async (member) => {
      while (next < rounds) {
        const round = next++;
        // Of a hundred, thirty wait past the lease before the transaction, and two within it.
        const kind = (round * 37) % 100;
        const beforeMs = kind < 30 ? 55 + (kind % 7) * 5 : 0;
        const withinMs = kind >= 98 ? 60 : 0;
        const key = `key-${round % 16}`;
        const guardedBy = !guarded ? undefined : round % 3 === 0 ? 'lock' : 'store';
        outcomes[await count(member, key, { guardedBy, beforeMs, withinMs })] += 1;
      }
    });
    await Promise.all(work);
    const lostUpdates = outcomes.written - sumOfCounters(first);
    for (const member of members) await member.close();
    return { ...outcomes, lostUpdates };
  }

  test('counters that are written blindly: with the guard no update is lost', {
    timeout: 60_000 + ROUNDS * 50,
  }, async () => {
    const result = await countAll(true, ROUNDS);
    console.log(`${driver.name}, guarded: ${JSON.stringify(result)}`);
    expect(result.lostUpdates).toBe(0);
    expect(result.lost).toBeGreaterThan(0);
    expect(result.written + result.lost).toBe(ROUNDS);
  });

  test('the same without it loses some', { timeout: 60_000 }, async () => {
    const result = await countAll(false, 400);
    console.log(`${driver.name}, unguarded: ${JSON.stringify(result)}`);
    expect(result.lostUpdates).toBeGreaterThan(0);
  });

  /** Three processes that count, of which now and then one is stopped for longer than its lease. */
  async function stopAndGo(mode: 'guarded' | 'unguarded', stops: number) {
    const path = freshFile(folder);
    const member = openMember(driver.name, path, 50);
    member.database.exec('pragma journal_mode = wal');
    await createCounters(member, 2);
    const script = fileURLToPath(new URL('../support/sqlite-guarded.js', import.meta.url));
    const workers = Array.from({ length: 3 }, () => {
      const child = spawn(process.execPath, [script, driver.name, path, '2', mode], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      children.push(child);
      return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
    });
    const tell = async (index: number): Promise<Record<string, number>> =>
      JSON.parse((await workers[index]?.lines.next())?.value as string);
    for (const index of workers.keys()) await tell(index);
    for (let i = 0; i < stops; i += 1) {
      const { child } = workers[i % workers.length] as { child: ChildProcess };
      await sleep(5 + Math.random() * 30);
      child.kill('SIGSTOP');
      await sleep(80 + Math.random() * 80);
      child.kill('SIGCONT');
    }
    for (const { child } of workers) child.stdin?.write('over\n');
    const told = [await tell(0), await tell(1), await tell(2)];
    const written = told.reduce((sum, one) => sum + (one.written as number), 0);
    const lost = told.reduce((sum, one) => sum + (one.lost as number), 0);
    const result = { stops, written, lost, lostUpdates: written - sumOfCounters(member) };
    await member.close();
    console.log(`${driver.name}, processes, ${mode}: ${JSON.stringify(result)}`);
    return result;
  }

  test('processes that are stopped past their lease: with the guard no update is lost', {
    timeout: 60_000 + STOPS * 500,
  }, async () => {
    const result = await stopAndGo('guarded', STOPS);
    expect(result.lostUpdates).toBe(0);
    expect(result.written).toBeGreaterThan(STOPS);
  });

  test('the same without it loses some, though held is checked', {
    timeout: 120_000,
  }, async () => {
    expect((await stopAndGo('unguarded', 30)).lostUpdates).toBeGreaterThan(0);
  });
});

function soon(ms: number): { readonly signal: AbortSignal } {
  return { signal: AbortSignal.timeout(ms) };
}
