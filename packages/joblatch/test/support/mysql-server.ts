import { migrateMysql } from 'joblatch/mysql';
import type { ContractOptions, Need } from 'joblatch/testing';
import { providerContract } from 'joblatch/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { noClients, openClient, type TestPool } from './mysql-clients.js';
import { skipAll } from './skip-all.ts';

const url: string | undefined = process.env.JOBLATCH_TEST_MARIADB;

const NO_SERVER =
  noClients ??
  (url === undefined
    ? 'JOBLATCH_TEST_MARIADB is not set; npm run stores -- --only mariadb --exec "npm test" sets it'
    : undefined);

/** Describes something that needs the server; without it a skipped test says why. */
export function describeWithMariadb(what: string, body: (url: string) => void): void {
  describe(what, () => {
    if (url !== undefined && NO_SERVER === undefined) return body(url);
    skipAll(what, NO_SERVER ?? '');
  });
}

export interface Home {
  /** Of the whole file, for looking behind the provider's back. */
  readonly console: TestPool;
  readonly url: string;
  /** A name that no other test has, of a table that is not there yet. */
  freshTable(): string;
  /** A table of ours. */
  madeTable(): Promise<string>;
}

let tables = 0;

/** A database of its own for the tests of one `describe`, so that files may run at the same time; gone afterwards. */
export function home(server: string): Home {
  const database = `joblatch_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  const own = new URL(server);
  own.pathname = `/${database}`;
  let console: TestPool | undefined;
  beforeAll(async () => {
    const first = await openClient('mysql2 connection', server);
    await first.query(`create database ${database}`);
    await first.end();
    console = await openClient('mysql2 pool', own.href);
  });
  afterAll(async () => {
    await console?.query(`drop database if exists ${database}`);
    await console?.end();
  });
  const freshTable = (): string => {
    tables += 1;
    return `locks_${tables}`;
  };
  const pool = (): TestPool => {
    if (console === undefined) throw new Error('Only within a test.');
    return console;
  };
  return {
    get console() {
      return pool();
    },
    url: own.href,
    freshTable,
    madeTable: async () => {
      const table = freshTable();
      await migrateMysql({ pool: pool(), table });
      return table;
    },
  };
}

/** The table that the README of Java's ShedLock gives for MySQL and MariaDB; its columns may be DATETIME too. */
export const shedlockTable = (
  table: string,
  instant: 'timestamp(3)' | 'datetime(3)' = 'timestamp(3)',
): string =>
  `create table ${table} (name varchar(64) not null, lock_until ${instant} not null,
    locked_at ${instant} not null default current_timestamp(3), locked_by varchar(255) not null, primary key (name))`;

/** What Java's ShedLock sends, told to use the time of the database. */
export const java = {
  insert: (table: string): string =>
    `insert ignore into ${table} (name, lock_until, locked_at, locked_by)
     values (?, timestampadd(microsecond, ?, utc_timestamp(3)), utc_timestamp(3), 'java')`,
  update: (table: string): string =>
    `update ${table} set lock_until = timestampadd(microsecond, ?, utc_timestamp(3)), locked_at = utc_timestamp(3), locked_by = 'java'
     where name = ? and lock_until <= utc_timestamp(3)`,
  unlock: (table: string): string =>
    `update ${table} set lock_until = utc_timestamp(3) where name = ? and locked_by = 'java'`,
};

/** Deletes, and writes what others left, behind the provider's back. */
export function behindTheBack(
  home: Home,
  table: () => string,
): Pick<ContractOptions, 'deleteRecord' | 'writeOldRecord' | 'obstruct'> {
  return {
    deleteRecord: async (key) => {
      await home.console.query(`delete from ${table()} where name = ?`, [key]);
    },
    writeOldRecord: async (key) => {
      await home.console.query(
        `insert into ${table()} (name, lock_until, locked_at, locked_by)
         values (?, utc_timestamp(3) - interval 1 day, utc_timestamp(3) - interval 86401 second, 'old')`,
        [key],
      );
    },
    obstruct: async (key) => {
      const other = await home.console.getConnection();
      await other.query('begin');
      await other.query(`select name from ${table()} where name = ? for update`, [key]);
      return async () => {
        await other.query('rollback');
        other.release();
      };
    },
  };
}

/**
 * Each case of the contract as a test; none may be skipped but for the needs that are named.
 *
 * @param fallsTogether a case whose keys the table takes for one: it has to fail with the error that says so
 * @param without cases of what the table can not do, which its tests look at for themselves
 */
export function keepsTheContract(
  options: ContractOptions,
  except: readonly Need[] = [],
  fallsTogether?: string,
  without: readonly string[] = [],
): void {
  const notGiven: readonly Need[] = ['clock', ...except];
  for (const { name, needs, run } of providerContract(options)) {
    if (needs.some((need) => notGiven.includes(need)) || without.includes(name)) continue;
    test(name, async () => {
      if (name === fallsTogether) return void (await expect(run()).rejects.toThrow(/falls together with/));
      expect((await run()).skip).toBeUndefined();
    });
  }
}
