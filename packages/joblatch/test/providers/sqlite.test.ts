import { mkdtempSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import type { LockProvider } from 'joblatch';
import { sqliteProvider } from 'joblatch/sqlite';
import { type Need, providerContract } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';
import { moduleUrl, openSqlite, opensByPath } from '../support/open-sqlite.js';
import {
  describePerDriver,
  freshFile,
  type SqliteTestDriver,
  scratchFolder,
  sqliteDrivers,
} from '../support/sqlite-drivers.ts';

const YESTERDAY_MS = 24 * 3_600_000;
const folder = scratchFolder();

/**
 * What is asked of other kinds of stores: one without slots; a clock that the test drives, or that is not the
 * host's; row locks. (Behind the write lock of a file an attempt is neither refused nor granted: it is tried
 * again for a while, then it is an error; sqlite-busy.test.ts has these.)
 */
const NOT_FOR_SQLITE: readonly Need[] = ['noSlots', 'clock', 'openSkewed', 'obstruct', 'guard'];

interface Store {
  readonly driver: SqliteTestDriver;
  readonly path: string;
  readonly open: () => LockProvider;
  readonly moduleUrl?: URL;
  readonly interrupt?: () => Promise<() => void>;
}

function keepsTheContract({ driver, path, open, moduleUrl, interrupt }: Store): void {
  // Deletes and writes behind the provider's back; through the same driver, see the docstring of sqliteProvider.
  const console = driver.open(path);
  console.exec('pragma busy_timeout = 2000');
  const contract = providerContract({
    open,
    moduleUrl,
    interrupt,
    deleteRecord: (key) => void console.prepare('delete from shedlock where name = ? returning 1').all(key),
    writeOldRecord: (key) => {
      const then = Date.now() - YESTERDAY_MS;
      console
        .prepare(
          `insert into shedlock (name, lock_until, locked_at, locked_by)
          values (?, cast(? as integer), cast(? as integer), 'old') returning 1`,
        )
        .all(key, then, then - 1_000);
    },
  }).filter(({ needs }) => !NOT_FOR_SQLITE.some((need) => needs.includes(need)));

  for (const { name, needs, run } of contract) {
    if (moduleUrl === undefined && needs.includes('moduleUrl')) continue;
    if (interrupt === undefined && needs.includes('interrupt')) continue;
    test(name, async () => {
      expect((await run()).skip).toBeUndefined();
    });
  }
}

describePerDriver('the SQLite provider keeps the contract', (driver) => {
  const home = mkdtempSync(join(folder, 'contract-'));
  const path = freshFile(home);
  keepsTheContract({
    driver,
    path,
    open: () => openSqlite(driver.name, path),
    moduleUrl: moduleUrl(driver.name, path),
    // As a volume that is not mounted for a while. A handle that was given stays where it is.
    ...(opensByPath(driver.name) && {
      interrupt: async () => {
        renameSync(home, `${home}-away`);
        return () => renameSync(`${home}-away`, home);
      },
    }),
  });
});

// Here a writer blocks those who read, too. One driver will do: the difference is one of SQLite.
const [driver] = sqliteDrivers.filter(({ name }) => name === 'libsql') as [SqliteTestDriver];

describe('libsql: a handle that was given, not in WAL mode, keeps the contract', () => {
  const path = freshFile(folder);
  const open = (): LockProvider => {
    const database = driver.open(path);
    // What is written is the same, without the wait for the disk.
    database.exec('pragma synchronous = off');
    return sqliteProvider({ database });
  };
  keepsTheContract({ driver, path, open });
});
