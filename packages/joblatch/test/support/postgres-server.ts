import type { LockProvider } from 'joblatch';
import { migratePostgres } from 'joblatch/postgres';
import type { ContractOptions, Need } from 'joblatch/testing';
import { providerContract } from 'joblatch/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { noClients, openClient, type TestClients } from './postgres-clients.js';
import { transactions } from './postgres-transactions.ts';
import { skipAll } from './skip-all.ts';

export type Pool = TestClients['pg Pool'];

const url: string | undefined = process.env.JOBLATCH_TEST_POSTGRES;

const NO_SERVER =
  noClients ??
  (url === undefined
    ? 'JOBLATCH_TEST_POSTGRES is not set; npm run stores -- --only postgres --exec "npm test" sets it'
    : undefined);

/** Describes something that needs the server; without it a skipped test says why. */
export function describeWithPostgres(what: string, body: (url: string) => void): void {
  describe(what, () => {
    if (url !== undefined && NO_SERVER === undefined) return body(url);
    skipAll(what, NO_SERVER ?? '');
  });
}

export interface Home {
  /** Of the whole file, for looking behind the provider's back. */
  readonly console: Pool;
  readonly url: string;
  /** A name that no other test has, of a table that is not there yet. */
  freshTable(): string;
  /** A table of ours. */
  madeTable(): Promise<string>;
}

let tables = 0;

/** A schema of its own for the tests of one `describe`, so that files may run at the same time; gone afterwards. */
export function home(server: string): Home {
  const schema = `joblatch_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  const inSchema = new URL(server);
  inSchema.searchParams.set('options', `-c search_path=${schema}`);
  let console: Pool | undefined;
  beforeAll(async () => {
    console = await openClient('pg Pool', inSchema.href);
    await console.query(`create schema ${schema}`);
  });
  afterAll(async () => {
    await console?.query(`drop schema if exists ${schema} cascade`);
    await console?.end();
  });
  const freshTable = (): string => {
    tables += 1;
    return `locks_${tables}`;
  };
  const pool = (): Pool => {
    if (console === undefined) throw new Error('Only within a test.');
    return console;
  };
  return {
    get console() {
      return pool();
    },
    url: inSchema.href,
    freshTable,
    madeTable: async () => {
      const table = freshTable();
      await migratePostgres({ pool: pool(), table });
      return table;
    },
  };
}

/** The table that the README of Java's ShedLock gives for PostgreSQL. */
export const shedlockTable = (table: string): string =>
  `create table ${table} (name varchar(64) not null, lock_until timestamp not null, locked_at timestamp not null, locked_by varchar(255) not null, primary key (name))`;

/** What Java's ShedLock sends, told to use the time of the database. */
export const java = {
  lock: `insert into $table (name, lock_until, locked_at, locked_by)
    values ($1, timezone('utc', current_timestamp) + make_interval(secs => $2), timezone('utc', current_timestamp), 'java')
    on conflict (name) do update set lock_until = timezone('utc', current_timestamp) + make_interval(secs => $2),
    locked_at = timezone('utc', current_timestamp), locked_by = 'java'
    where $table.name = $1 and $table.lock_until <= timezone('utc', current_timestamp)`,
  unlock: `update $table set lock_until = timezone('utc', current_timestamp) where name = $1 and locked_by = 'java'`,
};

/** Deletes, and writes what others left, behind the provider's back, and opens transactions; `now` as the columns have it. */
export function behindTheBack(
  home: Home,
  table: () => string,
  now: 'now()' | "timezone('utc', now())",
): Pick<ContractOptions, 'deleteRecord' | 'writeOldRecord' | 'obstruct' | 'beginTransaction' | 'notBegun'> {
  return {
    ...transactions('pg Pool', () => home.url),
    deleteRecord: async (key) => {
      await home.console.query(`delete from ${table()} where name = $1`, [key]);
    },
    writeOldRecord: async (key) => {
      await home.console.query(
        `insert into ${table()} (name, lock_until, locked_at, locked_by) values ($1, ${now} - interval '1 day', ${now} - interval '1 day 1 second', 'old')`,
        [key],
      );
    },
    obstruct: async (key) => {
      const other = await home.console.connect();
      await other.query('begin');
      await other.query(`select from ${table()} where name = $1 for update`, [key]);
      return async () => {
        await other.query('rollback');
        other.release();
      };
    },
  };
}

/** Each case of the contract as a test; none may be skipped but for the needs that are named. */
export function keepsTheContract(options: ContractOptions, except: readonly Need[] = []): void {
  const notGiven: readonly Need[] = ['clock', ...except];
  for (const { name, needs, run } of providerContract(options)) {
    if (needs.some((need) => notGiven.includes(need))) continue;
    test(name, async () => {
      expect((await run()).skip).toBeUndefined();
    });
  }
}

export type { LockProvider };
