import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { LockProvider } from 'joblatch';
import { type SqliteProviderOptions, sqliteProvider } from 'joblatch/sqlite';
import { describe, expect, test } from 'vitest';
import { openSqlite, opensByPath } from '../support/open-sqlite.js';
import { describePerDriver, freshFile, scratchFolder, sqliteDrivers } from '../support/sqlite-drivers.ts';
import { packageFolder } from '../support/sqlite-handles.js';

const folder = scratchFolder();
const MINUTE = 60_000;
const owner = 'host:1';
const take = (provider: LockProvider) => provider.acquire({ key: 'first', owner, leaseMs: MINUTE });

describe('options that can not be right are refused at once', () => {
  const handle = { prepare: () => ({ all: () => [] }), exec: () => undefined, close: () => undefined };
  const wrong: ReadonlyArray<readonly [object, RegExp]> = [
    [{}, /no path and no database/],
    [{ path: 'a', database: handle }, /path and database/],
    [{ path: '' }, /path is ""/],
    [{ path: 'file:a.db?mode=ro' }, /URL/],
    [{ path: 'libsql://user:secret@host/' }, /^(?!.*secret).*URL/],
    [{ path: 'a\0' }, /path is/],
    [{ path: 'a', driver: 'sqlite3' }, /sqlite3.*'node:sqlite', 'better-sqlite3', 'libsql'/],
    [{ database: handle, driver: 'libsql' }, /driver/],
    [{ database: {} }, /prepare/],
    [{ database: null }, /prepare/],
    [{ path: 'a', table: '' }, /table is ""/],
    [{ path: 'a', table: 'sqlite_locks' }, /sqlite_locks/],
    [{ path: 'a', busyTimeoutMs: -1 }, /-1/],
    [{ path: 'a', busyTimeoutMs: Number.NaN }, /NaN/],
  ];
  for (const [options, message] of wrong) {
    test(`${message}`, () => {
      expect(() => sqliteProvider(options as SqliteProviderOptions)).toThrow(
        expect.objectContaining({ code: 'OPTIONS', message: expect.stringMatching(message) }),
      );
    });
  }
});

const FIRST_TAKER = fileURLToPath(new URL('../support/first-taker.js', import.meta.url));
/** Long enough for a process to start. */
const START_MS = 1_000;

/** One process for each of the drivers, with ten takers each; all begin at the same instant. */
async function firstTakers(drivers: readonly string[], path: string): Promise<string[]> {
  const start = String(Date.now() + START_MS);
  const all = await Promise.all(
    drivers.map(async (driver) => {
      const [results] = await once(fork(FIRST_TAKER, [driver, path, start, '10']), 'message');
      return results as string[];
    }),
  );
  return all.flat();
}

describePerDriver('a file by its path', (driver) => {
  const open = (path: string): LockProvider =>
    opensByPath(driver.name) ? sqliteProvider({ path, driver: driver.name }) : openSqlite(driver.name, path);

  test('50 first takers, over five providers, of a file that is not there yet: one wins, no error', async () => {
    const path = freshFile(folder);
    const providers = Array.from({ length: 5 }, () => open(path));
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        (providers[i % 5] as LockProvider).acquire({ key: 'first', owner: `${i}`, leaseMs: MINUTE }),
      ),
    );
    expect(results.filter((r) => r.ok)).toHaveLength(1);
    expect(results.filter((r) => !r.ok && r.reason === 'held' && (r.leftMs ?? 0) > 0)).toHaveLength(49);
    await Promise.all(providers.map((provider) => provider.close?.()));
  });

  test('five processes, ten takers each, of a file that is not there yet: one wins, no error', async () => {
    const path = freshFile(folder);
    const results = await firstTakers(
      Array.from({ length: 5 }, () => driver.name),
      path,
    );
    expect(results.sort()).toEqual([...Array.from({ length: 49 }, () => 'held'), 'won']);
  });

  if (!opensByPath(driver.name)) return;

  test('nothing is opened before the first use, and once by callers that come together', async () => {
    const path = freshFile(folder);
    const provider = open(path);
    expect(existsSync(path)).toBe(false);
    const abilities = await Promise.all(Array.from({ length: 10 }, () => provider.abilities()));
    expect(new Set(abilities.map((a) => a.multiProcess))).toEqual(new Set([true]));
    expect(existsSync(path)).toBe(true);
    await provider.close?.();
  });

  test('it is in WAL mode, and what was acquired is there for the next', async () => {
    const path = freshFile(folder);
    const first = open(path);
    expect((await take(first)).ok).toBe(true);
    await first.close?.();
    const second = open(path);
    expect(await take(second)).toMatchObject({ ok: false, reason: 'held' });
    await second.close?.();
    const handle = driver.open(path);
    expect(handle.prepare('pragma journal_mode').all()).toMatchObject([{ journal_mode: 'wal' }]);
    handle.close();
  });

  test('a missing folder is named; once it is there the same provider works', async () => {
    const path = join(folder, `missing-${driver.name.replace(':', '-')}`, 'a.db');
    const provider = open(path);
    for (const call of [() => take(provider), () => provider.abilities()]) {
      await expect(call()).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringMatching(/folder ".*missing-.*" does not exist/),
      });
    }
    mkdirSync(join(path, '..'));
    expect((await take(provider)).ok).toBe(true);
    await provider.close?.();
  });

  test('a file that is no database is told as one, and so is a folder', async () => {
    const path = freshFile(folder);
    writeFileSync(path, 'minutes of the meeting '.repeat(200));
    await expect(take(open(path))).rejects.toMatchObject({
      code: 'STORE',
      operation: 'acquire',
      key: 'first',
      message: expect.stringMatching(/not a sound SQLite database/),
    });
    await expect(take(open(folder))).rejects.toMatchObject({ code: 'STORE' });
  });

  test(':memory: is a database of this provider alone', async () => {
    const [one, two] = [open(':memory:'), open(':memory:')];
    expect((await take(one)).ok).toBe(true);
    expect((await take(one)).ok).toBe(false);
    expect((await take(two)).ok).toBe(true);
    expect((await one.abilities()).multiProcess).toBe(false);
    await Promise.all([one.close?.(), two.close?.()]);
  });

  test('close() ends it: before the first use, while it opens, twice', async () => {
    const path = freshFile(folder);
    const unused = open(path);
    await unused.close?.();
    await expect(take(unused)).rejects.toMatchObject({
      code: 'STORE',
      message: expect.stringContaining('closed'),
    });
    expect(existsSync(path)).toBe(false);

    const opening = open(path);
    const taken = take(opening);
    await Promise.all([
      expect(taken).rejects.toMatchObject({ message: expect.stringContaining('closed') }),
      opening.close?.(),
      opening.close?.(),
    ]);
  });

  test('a file that was deleted or replaced is left: nobody goes on alone with the old one', async () => {
    const path = freshFile(folder);
    const [one, two] = [open(path), open(path)];
    const lost = await take(one);
    expect((await take(two)).ok).toBe(false);
    for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });

    expect((await two.acquire({ key: 'first', owner: 'b', leaseMs: MINUTE })).ok).toBe(true);
    expect(await one.acquire({ key: 'first', owner: 'c', leaseMs: MINUTE })).toMatchObject({
      reason: 'held',
    });
    const token = lost.ok ? lost.token : 0;
    expect(await one.renewMany([{ key: 'first', owner, token, leaseMs: MINUTE }])).toEqual(['lost']);
    expect(await two.renewMany([{ key: 'first', owner: 'b', token, leaseMs: MINUTE }])).toEqual(['ok']);
    await Promise.all([one.close?.(), two.close?.()]);
  });

  test('an aborted signal ends the wait for the opening, not the opening', async () => {
    const provider = open(freshFile(folder));
    const gone = provider.acquire({ key: 'first', owner, leaseMs: MINUTE }, { signal: AbortSignal.abort() });
    const other = take(provider);
    await expect(gone).rejects.toMatchObject({ code: 'STORE', message: expect.stringContaining('gave up') });
    expect((await other).ok).toBe(true);
    await provider.close?.();
  });
});

const here = sqliteDrivers.filter(({ reason }) => reason === undefined).map(({ name }) => name);

// With one driver there is nothing to compare; `npm run drivers` installs more.
test.skipIf(here.length < 2)(
  'processes with different drivers share a file: one of all their first takers wins',
  async () => {
    const path = freshFile(folder);
    const names = here;
    const results = await firstTakers(names, path);
    expect(results.sort()).toEqual([...Array.from({ length: names.length * 10 - 1 }, () => 'held'), 'won']);
  },
);

/** An application of its own: joblatch and these packages in its node_modules, and nothing above. */
function application(
  packages: Readonly<Record<string, string>>,
): (code: string) => Promise<{ stdout: string; stderr: string }> {
  const home = mkdtempSync(join(folder, 'app-'));
  const joblatch = join(home, 'node_modules', 'joblatch');
  const source = fileURLToPath(new URL('../..', import.meta.url));
  cpSync(join(source, 'dist'), join(joblatch, 'dist'), { recursive: true });
  cpSync(join(source, 'package.json'), join(joblatch, 'package.json'));
  for (const [name, target] of Object.entries(packages))
    symlinkSync(target, join(home, 'node_modules', name));
  return (code) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', `${IN_APPLICATION}\n${code}`], {
      cwd: home,
    });
}

const IN_APPLICATION = `import { sqliteProvider } from 'joblatch/sqlite';
const attempt = async (options) => {
  const provider = sqliteProvider(options);
  try {
    const taken = await provider.acquire({ key: 'k', owner: 'o', leaseMs: 1000 });
    return taken.ok ? 'won' : 'refused';
  } catch (error) {
    return error.code + ': ' + error.message;
  } finally {
    await provider.close();
  }
};`;

const hasBuiltin = sqliteDrivers.some(({ name, reason }) => name === 'node:sqlite' && reason === undefined);
const major = Number.parseInt(process.versions.node, 10);

describe('the driver of a path', () => {
  test('with nothing installed: the one of Node, or an error that says what to install', async () => {
    const { stdout, stderr } = await application({})("console.log(await attempt({ path: 'a.db' }))");
    if (hasBuiltin) expect(stdout).toBe('won\n');
    else
      expect(stdout).toMatch(
        /^OPTIONS: .*better-sqlite3: not installed.*libsql: not installed.*npm install libsql/,
      );
    expect(stderr).toBe('');
  });

  test('one that was asked for and is not there is not replaced by another', async () => {
    const { stdout } = await application({})(
      "console.log(await attempt({ path: 'a.db', driver: 'libsql' }))",
    );
    expect(stdout).toMatch(/^OPTIONS: .*libsql: not installed.*npm install libsql/);
  });

  for (const name of ['better-sqlite3 12', 'better-sqlite3 13']) {
    const crashes = name.endsWith('13') && major < 22;
    const reason = sqliteDrivers.find((driver) => driver.name === name)?.reason;
    const isInstalled = existsSync(packageFolder(name.replace(' ', '-')));
    // Its binary is for another Node, for instance; describePerDriver has printed why.
    test.skipIf(!isInstalled || (reason !== undefined && !crashes))(
      `${name} works, or is refused where it would crash`,
      async () => {
        const run = application({ 'better-sqlite3': packageFolder(name.replace(' ', '-')) });
        const { stdout } = await run(
          "console.log(await attempt({ path: 'a.db', driver: 'better-sqlite3' }))",
        );
        if (crashes) expect(stdout).toMatch(/^OPTIONS: .*version 13\.\S+ crashes/);
        else expect(stdout).toBe('won\n');
      },
    );
  }

  test('one that can not work here is passed over', async () => {
    const libsql = fileURLToPath(new URL('.', import.meta.resolve('libsql')));
    const run = application({ 'better-sqlite3': packageFolder('better-sqlite3-13'), libsql });
    expect((await run("console.log(await attempt({ path: 'a.db' }))")).stdout).toBe('won\n');
  });

  test('other warnings of the process are still shown', async () => {
    const run = application({ libsql: fileURLToPath(new URL('.', import.meta.resolve('libsql'))) });
    const { stderr } = await run("await attempt({ path: 'a.db' }); process.emitWarning('mind the gap');");
    expect(stderr).toContain('mind the gap');
    expect(stderr).not.toContain('experimental');
  });
});
