import { providerContract } from 'joblatch/testing';
import { expect, test } from 'vitest';
import { moduleUrl, openSqlite } from '../support/open-sqlite.js';
import { describePerDriver, freshFile, scratchFolder } from '../support/sqlite-drivers.ts';

const YESTERDAY_MS = 24 * 3_600_000;
const folder = scratchFolder();

/** What is asked of other kinds of stores: one without slots, a clock that the test drives or that is not the host's. */
const NOT_FOR_SQLITE = ['noSlots', 'clock', 'openSkewed'] as const;

describePerDriver('the SQLite provider keeps the contract', (driver) => {
  const path = freshFile(folder);
  // Deletes and writes behind the provider's back; through the same driver, see the docstring of sqliteProvider.
  const console = driver.open(path);
  console.exec('pragma busy_timeout = 2000');
  const contract = providerContract({
    open: () => openSqlite(driver.name, path),
    moduleUrl: moduleUrl(driver.name, path),
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
    limits: { manyGrants: 10_000 },
  }).filter(({ needs }) => !NOT_FOR_SQLITE.some((need) => needs.includes(need)));

  for (const { name, run } of contract) {
    test(name, async () => {
      expect((await run()).skip).toBeUndefined();
    });
  }
});
