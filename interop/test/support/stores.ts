import type { LockProvider } from 'joblatch';
import { migrateMysql } from 'joblatch/mysql';
import { migratePostgres } from 'joblatch/postgres';
import type { ContractTransaction } from 'joblatch/testing';
import { describe } from 'vitest';
import * as mysql from '../../../packages/joblatch/test/support/mysql-clients.js';
import * as mariadb from '../../../packages/joblatch/test/support/mysql-server.ts';
import { transactions as inMariadb } from '../../../packages/joblatch/test/support/mysql-transactions.ts';
import * as pg from '../../../packages/joblatch/test/support/postgres-clients.js';
import * as postgres from '../../../packages/joblatch/test/support/postgres-server.ts';
import { transactions as inPostgres } from '../../../packages/joblatch/test/support/postgres-transactions.ts';
import * as redis from '../../../packages/joblatch/test/support/redis-clients.js';
import { describeWithRedis } from '../../../packages/joblatch/test/support/redis-servers.ts';
import { skipAll } from '../../../packages/joblatch/test/support/skip-all.ts';
import { type JavaStore, type Kind, noJava } from './java.ts';

/** Where the locks of one test are, for both sides. */
export interface SharedStore {
  readonly java: JavaStore;
  /** For clients of Node. */
  readonly url: string;
  openNode(): Promise<LockProvider>;
  /** What another process of Node imports to open the same. */
  readonly moduleUrl: URL;
  /** Of a database: begins a transaction that a lock can guard. */
  readonly beginTransaction?: (() => Promise<ContractTransaction>) | undefined;
  /** Deletes the lock's record behind everybody's back. */
  deleteRecord(key: string): Promise<void>;
}

/** A way for Java and Node to share a store. */
export interface Setting {
  readonly name: string;
  /** The JVM's zone: far from UTC, where nothing depends on it. */
  readonly zone: string;
  /** What a store of this setting has that others may not. */
  readonly has: {
    /** Columns for tokens and slots; Redis needs none. */
    readonly tokens: boolean;
    /** A Java process gives back what is its own, and nothing else. */
    readonly ownerCheck: boolean;
    /** How long a name may be; Redis sets no limit. */
    readonly nameLimit?: number;
    /** A running Java process takes a key whose record was deleted; else it waits for somebody to make that again. */
    readonly javaMakesRecordAgain: boolean;
    /** Any character may be in a name: not in a table of MariaDB's that is in latin1, as its databases are by default. */
    readonly anyCharacter: boolean;
  };
  /** A place of its own for a test: a table, or an environment on Redis; by default one that no other test has. */
  make(space?: string): Promise<SharedStore>;
}

const FAR_FROM_UTC = 'America/Los_Angeles';

const jdbcUrl = (scheme: string, url: string): Omit<JavaStore, 'kind' | 'space'> => {
  const { host, pathname, search, username, password } = new URL(url);
  return {
    url: `jdbc:${scheme}://${host}${pathname}${search}`,
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
  };
};

type MakeTable<Home> = (home: Home, table: string) => Promise<unknown>;

const onPostgres = (
  home: postgres.Home,
  [name, kind, zone, tokens, makeTable]: readonly [string, Kind, string, boolean, MakeTable<postgres.Home>],
): Setting => ({
  name,
  zone,
  has: { tokens, ownerCheck: true, nameLimit: 64, javaMakesRecordAgain: false, anyCharacter: true },
  make: async (table = home.freshTable()) => {
    await makeTable(home, table);
    return {
      java: { kind, ...jdbcUrl('postgresql', home.url), space: table },
      url: home.url,
      openNode: () => pg.openPostgres('pg Pool', home.url, { table }),
      moduleUrl: pg.moduleUrl('pg Pool', home.url, table),
      beginTransaction: inPostgres('pg Pool', () => home.url).beginTransaction,
      deleteRecord: async (key) =>
        void (await home.console.query(`delete from ${table} where name = $1`, [key])),
    };
  },
});

const postgresTables = {
  published: (home: postgres.Home, table: string) => home.console.query(postgres.shedlockTable(table)),
  completed: async (home: postgres.Home, table: string) => {
    await home.console.query(postgres.shedlockTable(table));
    await migratePostgres({ pool: home.console, table });
  },
  ours: (home: postgres.Home, table: string) => migratePostgres({ pool: home.console, table }),
};

const onMariadb = (
  home: mariadb.Home,
  [name, kind, tokens, makeTable]: readonly [string, Kind, boolean, MakeTable<mariadb.Home>],
): Setting => ({
  name,
  zone: FAR_FROM_UTC,
  has: {
    tokens,
    ownerCheck: true,
    nameLimit: 64,
    javaMakesRecordAgain: false,
    anyCharacter: makeTable === mariadbTables.ours,
  },
  make: async (table = home.freshTable()) => {
    await makeTable(home, table);
    return {
      java: { kind, ...jdbcUrl('mariadb', home.url), space: table },
      url: home.url,
      openNode: () => mysql.openMysql('mysql2 pool', home.url, { table }),
      moduleUrl: mysql.moduleUrl('mysql2 pool', home.url, table),
      beginTransaction: inMariadb('mysql2 pool', () => home.url).beginTransaction,
      deleteRecord: async (key) =>
        void (await home.console.query(`delete from ${table} where name = ?`, [key])),
    };
  },
});

const mariadbTables = {
  published: (home: mariadb.Home, table: string) => home.console.query(mariadb.shedlockTable(table)),
  completed: async (home: mariadb.Home, table: string) => {
    await home.console.query(mariadb.shedlockTable(table));
    await migrateMysql({ pool: home.console, table });
  },
  datetime: async (home: mariadb.Home, table: string) => {
    await home.console.query(mariadb.shedlockTable(table, 'datetime(3)'));
    await migrateMysql({ pool: home.console, table });
  },
  ours: (home: mariadb.Home, table: string) => migrateMysql({ pool: home.console, table }),
};

const ioredis = redis.CLIENTS['ioredis 5'] as redis.TestClient;
let environments = 0;
function freshEnvironment(): string {
  environments += 1;
  return `java-${process.pid}-${environments}`;
}

const onRedis = (url: string, [name, kind]: readonly [string, Kind]): Setting => ({
  name,
  zone: FAR_FROM_UTC,
  has: { tokens: true, ownerCheck: kind === 'redis', javaMakesRecordAgain: true, anyCharacter: true },
  make: async (environment = freshEnvironment()) => {
    return {
      java: { kind, url, user: '', password: '', space: environment },
      url,
      openNode: () => redis.openRedis('ioredis 5', url, { environment }),
      moduleUrl: redis.moduleUrl('ioredis 5', url, { environment }),
      deleteRecord: async (key) => {
        const client = await ioredis.open(url);
        await (client as unknown as { del(key: string): Promise<number> }).del(
          `job-lock:${environment}:${key}`,
        );
        await ioredis.close(client);
      },
    };
  },
});

const POSTGRES = [
  ["ShedLock's table, database time", 'databaseTime', FAR_FROM_UTC, false, postgresTables.published],
  [
    "ShedLock's table and our columns, database time",
    'databaseTime',
    FAR_FROM_UTC,
    true,
    postgresTables.completed,
  ],
  [
    "ShedLock's table and our columns, Java's clock in UTC",
    'ownClockInUtc',
    FAR_FROM_UTC,
    true,
    postgresTables.completed,
  ],
  ['our table, database time, Java in UTC', 'databaseTime', 'UTC', true, postgresTables.ours],
] as const;

const MARIADB = [
  ["ShedLock's table, database time", 'databaseTime', false, mariadbTables.published],
  ["ShedLock's table and our columns, database time", 'databaseTime', true, mariadbTables.completed],
  ["ShedLock's table and our columns, Java's clock in UTC", 'ownClockInUtc', true, mariadbTables.completed],
  ['DATETIME columns, database time', 'databaseTime', true, mariadbTables.datetime],
  ['our table, database time', 'databaseTime', true, mariadbTables.ours],
] as const;

const REDIS = [
  ['safeUpdate', 'redis'],
  ['without safeUpdate', 'redisWithoutSafeUpdate'],
] as const;

/** Describes what holds in each setting, or in those that are named. */
type Describe = (body: (setting: Setting) => void, only?: readonly string[]) => void;

function shared(
  store: string,
  describeStore: (store: string, body: (url: string) => void) => void,
  settingsAt: (url: string) => readonly Setting[],
): Describe {
  return (body, only) => {
    if (noJava !== undefined)
      return void describe(store, () => skipAll(`${store}, shared with Java`, noJava as string));
    describeStore(store, (url) => {
      for (const setting of settingsAt(url))
        if (only?.includes(setting.name) ?? true) describe(setting.name, () => body(setting));
    });
  };
}

/** What Java and Node share, by store. */
export const describeShared: Readonly<Record<'PostgreSQL' | 'MariaDB' | 'Redis', Describe>> = {
  PostgreSQL: shared('PostgreSQL', postgres.describeWithPostgres, (url) => {
    const home = postgres.home(url);
    return POSTGRES.map((row) => onPostgres(home, row));
  }),
  MariaDB: shared('MariaDB', mariadb.describeWithMariadb, (url) => {
    const home = mariadb.home(url);
    return MARIADB.map((row) => onMariadb(home, row));
  }),
  Redis: shared('Redis', describeWithRedis, (url) => REDIS.map((row) => onRedis(url, row))),
};
