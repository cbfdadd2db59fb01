import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { sqliteProvider } from 'joblatch/sqlite';
import Database from 'libsql';
import { LEASE_MS, PREFIX } from '../keys.js';
import { createLocks, joblatch } from './joblatch.js';
import { mustBe } from './recording.js';

export async function open() {
  const folder = process.env.JOBLATCH_BENCH_SCRATCH;
  const ours = await joblatch(sqliteProvider({ path: join(folder, 'joblatch.db'), driver: 'libsql' }));

  const database = new Database(join(folder, 'by-hand.db'));
  database.exec('pragma synchronous = full');
  database.exec('pragma journal_mode = wal');
  const steps = await stepsOf(database);
  const pair = replay(database, steps.pair);
  const lose = replay(database, steps.lose);
  const read = database.prepare(
    "select lock_until > cast(unixepoch('subsec') * 1000 as integer) as held from shedlock where name = ?",
  );
  const [{ version }] = database.prepare('select sqlite_version() as version').all();

  return {
    store: `SQLite ${version} (libsql), WAL, synchronous = full`,
    takers: [
      {
        name: 'the same statements, by hand',
        kind: 'floor',
        token: true,
        async run(key) {
          const answers = pair({ key, owner: randomUUID() });
          if (!(JSON.parse(Object.values(answers.at(-2)[0])[0])[0] > 0)) throw new Error('by hand: refused');
          mustBe(1, answers.at(-1).length, 'by hand');
        },
      },
      ...ours.takers,
    ],
    losers: [
      {
        name: 'a read by primary key',
        kind: 'floor',
        run: async () => mustBe(1, read.all(steps.held)[0].held, 'read'),
      },
      ...ours.losers,
      {
        name: 'the same statements, by hand',
        kind: 'reference',
        async run() {
          const [[row]] = lose({ key: steps.held, owner: randomUUID() }).slice(-1);
          if (!(JSON.parse(Object.values(row)[0])[0] > 0)) throw new Error('by hand: not held');
        },
      },
    ],
    async close() {
      await ours.close();
      database.close();
    },
  };
}

/** What joblatch does to a handle, with the places of key and owner. */
async function stepsOf(database) {
  let steps = [];
  const watched = {
    exec(sql) {
      steps.push({ exec: sql });
      database.exec(sql);
    },
    prepare(sql) {
      const statement = database.prepare(sql);
      return {
        all(...values) {
          steps.push({ sql, values });
          return statement.all(...values);
        },
      };
    },
    close: () => {},
    get open() {
      return database.open;
    },
    get inTransaction() {
      return database.inTransaction;
    },
  };
  const locks = createLocks({ provider: sqliteProvider({ database: watched }) });
  const key = `${PREFIX}:steps`;
  await (await locks.tryAcquire(key, { lease: LEASE_MS })).release();
  steps = [];
  const lock = await locks.tryAcquire(key, { lease: LEASE_MS });
  await lock.release();
  const pair = steps.map((step) => marked(step, key, lock.owner));

  await locks.tryAcquire(key, { lease: '1h' });
  steps = [];
  mustBe(undefined, await locks.tryAcquire(key, { lease: LEASE_MS }), 'held');
  return { pair, lose: steps.map((step) => marked(step, key)), held: key };
}

const KEY = Symbol('key');
const OWNER = Symbol('owner');

function marked({ exec, sql, values }, key, owner) {
  return {
    exec,
    sql,
    values: values?.map((value) => (value === key ? KEY : value === owner ? OWNER : value)),
  };
}

/** Does the steps with another key and owner; answers the rows of each that has some. */
function replay(database, steps) {
  const prepared = steps.map(({ exec, sql, values }) => ({
    exec,
    values,
    statement: sql && database.prepare(sql),
  }));
  return ({ key, owner }) => {
    const answers = [];
    for (const { exec, statement, values } of prepared) {
      if (exec !== undefined) database.exec(exec);
      else answers.push(statement.all(...values.map((v) => (v === KEY ? key : v === OWNER ? owner : v))));
    }
    return answers;
  };
}
