import { mysqlProvider } from 'joblatch/mysql';
import { describe, expect, test } from 'vitest';
import { type ClientName, closeClient, openClient, openMysql, sourceOf } from '../support/mysql-clients.js';
import { describeWithMariadb, home } from '../support/mysql-server.ts';
import { ODD_KEY, playsTheMysqlStory } from '../support/mysql-story.ts';

/** Of each value something else. */
const breaking = (field: unknown, next: () => unknown): unknown => {
  next();
  return { broken: typeof field };
};

const MYSQL2_OPTIONS: Readonly<Record<string, Record<string, unknown>>> = {
  'nothing special': {},
  dateStrings: { dateStrings: true },
  rowsAsArray: { rowsAsArray: true },
  namedPlaceholders: { namedPlaceholders: true },
  nestTables: { nestTables: true },
  'nestTables with a separator': { nestTables: '_' },
  'typeCast: false': { typeCast: false },
  'typeCast that breaks values': { typeCast: breaking },
  'big numbers as strings': { supportBigNumbers: true, bigNumberStrings: true },
  decimalNumbers: { decimalNumbers: true },
  timezone: { timezone: '-08:00' },
  'charset latin1': { charset: 'latin1' },
  'charset gbk': { charset: 'gbk' },
  'flags -FOUND_ROWS': { flags: ['-FOUND_ROWS'] },
  multipleStatements: { multipleStatements: true },
  jsonStrings: { jsonStrings: true },
  stringifyObjects: { stringifyObjects: true },
  compress: { compress: true },
  disableEval: { disableEval: true },
  'disableEval and a typeCast': { disableEval: true, typeCast: breaking },
  'maxPreparedStatements: 1': { maxPreparedStatements: 1 },
  'all at once': {
    dateStrings: true,
    rowsAsArray: true,
    namedPlaceholders: true,
    nestTables: true,
    typeCast: breaking,
    supportBigNumbers: true,
    bigNumberStrings: true,
    flags: ['-FOUND_ROWS'],
    stringifyObjects: true,
  },
};

const quiet = { network: () => {}, query: () => {}, error: () => {}, warning: () => {} };

const MARIADB_OPTIONS: Readonly<Record<string, Record<string, unknown>>> = {
  'nothing special': {},
  bigIntAsNumber: { bigIntAsNumber: true },
  'bigIntAsNumber: false': { bigIntAsNumber: false },
  insertIdAsNumber: { insertIdAsNumber: true },
  decimalAsNumber: { decimalAsNumber: true },
  'checkNumberRange with numbers': {
    checkNumberRange: true,
    bigIntAsNumber: true,
    insertIdAsNumber: true,
    decimalAsNumber: true,
  },
  'big numbers as strings': { supportBigNumbers: true, bigNumberStrings: true },
  rowsAsArray: { rowsAsArray: true },
  metaAsArray: { metaAsArray: true },
  nestTables: { nestTables: true },
  'nestTables with a separator': { nestTables: '_' },
  namedPlaceholders: { namedPlaceholders: true },
  dateStrings: { dateStrings: true },
  timezone: { timezone: '-08:00' },
  'timezone auto': { timezone: 'auto' },
  'typeCast that breaks values': { typeCast: breaking },
  'foundRows: false': { foundRows: false },
  'charset latin1': { charset: 'latin1' },
  'charset gbk': { charset: 'gbk' },
  'autoJsonMap: false': { autoJsonMap: false },
  jsonStrings: { jsonStrings: true },
  queryTimeout: { queryTimeout: 5_000 },
  'prepareCacheLength: 0': { prepareCacheLength: 0 },
  'prepareCacheLength: 1': { prepareCacheLength: 1 },
  'pipelining: false': { pipelining: false },
  compress: { compress: true },
  multipleStatements: { multipleStatements: true },
  'checkDuplicate: false': { checkDuplicate: false },
  'metaEnumerable, trace and logged parameters': { metaEnumerable: true, trace: true, logParam: true },
  'a logger': { logger: quiet },
  'sessionVariables and no reset': { resetAfterUse: false, sessionVariables: { sql_mode: 'ANSI' } },
  resetAfterUse: { resetAfterUse: true, minDelayValidation: 0 },
  'all at once': {
    bigIntAsNumber: true,
    insertIdAsNumber: true,
    rowsAsArray: true,
    metaAsArray: true,
    nestTables: true,
    namedPlaceholders: true,
    typeCast: breaking,
    foundRows: false,
  },
};

const SET_UPS: Readonly<Record<string, string>> = {
  ANSI_QUOTES: "set sql_mode = 'ANSI_QUOTES'",
  NO_BACKSLASH_ESCAPES: "set sql_mode = 'NO_BACKSLASH_ESCAPES'",
  PIPES_AS_CONCAT: "set sql_mode = 'PIPES_AS_CONCAT'",
  TRADITIONAL: "set sql_mode = 'TRADITIONAL'",
  ORACLE: "set sql_mode = 'ORACLE'",
  'many modes':
    "set sql_mode = 'ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT'",
  TIME_ROUND_FRACTIONAL: "set sql_mode = 'TIME_ROUND_FRACTIONAL'",
  sql_safe_updates: 'set sql_safe_updates = 1',
  'sql_select_limit and group_concat_max_len': 'set sql_select_limit = 1, group_concat_max_len = 4',
  character_set_results: 'set character_set_results = latin1',
  'character_set_results null': 'set character_set_results = null',
  'names latin1 and another collation': 'set names latin1 collate latin1_german2_ci',
  'names utf8mb4, binary': 'set names utf8mb4 collate utf8mb4_bin',
  innodb_lock_wait_timeout: 'set innodb_lock_wait_timeout = 50, lock_wait_timeout = 50',
  max_statement_time: 'set max_statement_time = 5',
  'time_zone and timestamp': "set time_zone = '+05:30'",
  completion_type: "set completion_type = 'CHAIN'",
  'div_precision_increment and optimizer_switch':
    "set div_precision_increment = 0, optimizer_switch = 'derived_merge=on,derived_with_keys=off,materialization=off'",
  auto_increment: 'set auto_increment_increment = 7, auto_increment_offset = 3, sql_auto_is_null = 1',
  'old mode': "set old_mode = 'UTF8_IS_UTF8MB3,ZERO_DATE_TIME_CAST'",
  query_cache: 'set session query_cache_type = 0',
  'tx read uncommitted': "set tx_isolation = 'READ-UNCOMMITTED'",
};

const WITH_SET_UP: readonly ClientName[] = ['mysql2 pool', 'mariadb pool'];

const REFUSALS: Readonly<Record<string, string>> = {
  'autocommit off': 'set autocommit = 0',
  'a transaction open': 'start transaction',
};

const refusal = {
  code: 'STORE',
  message: expect.stringMatching(/open transaction, or autocommit is off.*pool of connections/),
};

describeWithMariadb('MariaDB: options of clients that change what they answer', (server) => {
  const at = home(server);

  describe('mysql2 pool', () => {
    for (const prepare of [true, false]) {
      test.each(Object.entries(MYSQL2_OPTIONS))(`%s, prepare: ${prepare}`, async (_what, clientOptions) => {
        await playsTheMysqlStory(at, { client: 'mysql2 pool', clientOptions, prepare });
      });
    }
  });

  test.each(['nothing special', 'typeCast that breaks values', 'nestTables', 'all at once'])(
    'mysql2 pool with callbacks: %s',
    async (what) => {
      const clientOptions = MYSQL2_OPTIONS[what] ?? {};
      await playsTheMysqlStory(at, { client: 'mysql2 pool with callbacks', clientOptions });
    },
  );

  describe('mariadb pool', () => {
    for (const prepare of [true, false]) {
      test.each(Object.entries(MARIADB_OPTIONS))(`%s, prepare: ${prepare}`, async (_what, clientOptions) => {
        await playsTheMysqlStory(at, { client: 'mariadb pool', clientOptions, prepare });
      });
    }
  });

  test.each(['mysql2 connection', 'mariadb connection'] as const)('%s', async (client) => {
    const all = client === 'mysql2 connection' ? MYSQL2_OPTIONS : MARIADB_OPTIONS;
    for (const prepare of [true, false]) {
      await playsTheMysqlStory(at, { client, clientOptions: all['all at once'] ?? {}, prepare });
    }
  });
});

describeWithMariadb('MariaDB: sessions that an application has set up', (server) => {
  const at = home(server);

  for (const client of WITH_SET_UP) {
    for (const prepare of [true, false]) {
      test.each(Object.entries(SET_UPS))(`${client}, prepare: ${prepare}: %s`, async (_what, setUp) => {
        await playsTheMysqlStory(at, { client, clientOptions: { setUp }, prepare });
      });
    }
  }

  test.each(WITH_SET_UP)(
    '%s: names with quotes and backslashes, which a client may escape wrongly',
    async (client) => {
      const table = 'it\'s \\ "odd" `t` ü';
      const { pathname } = new URL(at.url);
      const setUp = "set sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'";
      for (const schema of [undefined, pathname.slice(1)]) {
        const provider = await openMysql(client, at.url, {
          table,
          ...(schema !== undefined && { schema }),
          autoMigrate: true,
          prepare: false,
          clientOptions: { setUp },
        });
        expect(await provider.abilities()).toMatchObject({ fencing: true, slots: true });
        const grant = { key: ODD_KEY, owner: 'o', leaseMs: 60_000 };
        expect(await provider.acquire(grant)).toMatchObject({ ok: true });
        expect(await provider.release(grant)).toBe(true);
        await provider.close?.();
      }
      await at.console.query(`drop table \`${table.replaceAll('`', '``')}\``);
    },
  );

  describe.each([...WITH_SET_UP, 'mysql2 connection', 'mariadb connection'] as const)('%s', (client) => {
    // The pool of mariadb ends one before it lends the connection again.
    const refusals = Object.entries(REFUSALS).filter(
      ([what]) => client !== 'mariadb pool' || what === 'autocommit off',
    );
    test.each(refusals)('%s: refused, and nothing is written', async (_what, setUp) => {
      const table = await at.madeTable();
      for (const prepare of [true, false]) {
        const provider = await openMysql(client, at.url, { table, prepare, clientOptions: { setUp } });
        const grant = { key: 'k', owner: 'o', leaseMs: 60_000 };
        await expect(provider.acquire(grant)).rejects.toMatchObject(refusal);
        await provider.close?.();
      }
      const [rows] = await at.console.query(`select * from ${table}`);
      expect(rows).toEqual([]);
    });
  });

  test.each(['mysql2 connection', 'mariadb connection'] as const)(
    '%s: each verb is refused in a transaction, and changes nothing even if that is committed',
    async (client) => {
      const table = await at.madeTable();
      const connection = (await openClient(client, at.url)) as { query(sql: string): Promise<unknown> };
      const provider = mysqlProvider({ ...sourceOf(client, connection), table });
      const grant = { key: 'held', owner: 'o', leaseMs: 60_000 };
      const held = await provider.acquire(grant);
      await provider.acquire({ ...grant, key: 'free' });
      await provider.release({ key: 'free', owner: 'o' });
      const before = await at.console.query(`select * from ${table} order by name`);
      const verbs: Readonly<Record<string, () => Promise<unknown>>> = {
        acquire: () => provider.acquire({ ...grant, key: 'new' }),
        'acquire of a free record': () => provider.acquire({ ...grant, key: 'free' }),
        'acquire of a held one': () => provider.acquire({ ...grant, owner: 'p' }),
        renewMany: () =>
          provider.renewMany([{ ...grant, token: held.ok ? held.token : 0, leaseMs: 120_000 }]),
        release: () => provider.release(grant),
        forceRelease: () => provider.forceRelease('held'),
        purge: () => provider.purge({ idleMs: 0 }),
      };
      for (const begin of ['start transaction', 'set autocommit = 0']) {
        for (const [what, verb] of Object.entries(verbs)) {
          await connection.query(begin);
          await expect(verb(), `${begin}: ${what}`).rejects.toMatchObject(refusal);
          await connection.query('commit');
          await connection.query('set autocommit = 1');
          expect((await at.console.query(`select * from ${table} order by name`))[0]).toEqual(before[0]);
        }
      }
      expect(await provider.release(grant)).toBe(true);
      await provider.close?.();
      await closeClient(client, connection);
    },
  );
});
