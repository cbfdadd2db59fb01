import { randomUUID } from 'node:crypto';
import { Verrou } from '@verrou/core';
import { knexStore } from '@verrou/core/drivers/knex';
import { kyselyStore } from '@verrou/core/drivers/kysely';
import advisoryLock from 'advisory-lock';
import { migratePostgres, postgresProvider } from 'joblatch/postgres';
import knex from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { HELD, LEASE_MS, PREFIX } from '../keys.js';
import { createLocks, joblatch } from './joblatch.js';
import { mustBe, recorded } from './recording.js';

const SCHEMA = 'joblatch_bench';

// What somebody would write who knows PostgreSQL, and prepares it.
const UPSERT = {
  name: 'upsert',
  text: `insert into by_hand (name, lock_until, locked_by, token)
values ($1, now() + $3 * interval '1 millisecond', $2, 1)
on conflict (name) do update
set lock_until = excluded.lock_until, locked_by = excluded.locked_by, token = by_hand.token + 1
where by_hand.lock_until <= now()
returning token`,
};
const GIVE_BACK = {
  name: 'give back',
  text: 'update by_hand set lock_until = now() where name = $1 and locked_by = $2 and lock_until > now()',
};
const READ = 'select lock_until > now() as held from shedlock where name = $1';

export async function open(url) {
  // The pool's own limit of connections: 10.
  const settings = { connectionString: url, options: `-c search_path=${SCHEMA}` };
  const pool = new pg.Pool(settings);
  await pool.query(`drop schema if exists ${SCHEMA} cascade; create schema ${SCHEMA};
create table by_hand (name text primary key, lock_until timestamptz not null, locked_by text not null,
  token bigint not null) with (fillfactor = 70)`);
  await migratePostgres({ pool });

  const provider = postgresProvider({ pool });
  const ours = await joblatch(provider);
  const messages = await messagesOf(provider);
  const query = knex({ client: 'pg', connection: settings, searchPath: [SCHEMA] });
  const kysely = new Kysely({ dialect: new PostgresDialect({ pool }) });
  const stores = {
    knex: { driver: knexStore({ connection: query, tableName: 'verrou_knex' }) },
    kysely: { driver: kyselyStore({ connection: kysely, tableName: 'verrou_kysely' }) },
  };
  const verrou = new Verrou({ default: 'knex', stores });
  const createMutex = advisoryLock.default(url);

  // Somebody else's, for those who lose. (In joblatch's table the key is held by joblatch.)
  for (const name of Object.keys(stores))
    mustBe(true, await verrou.use(name).createLock(HELD, '1h').acquireImmediately(), name);
  await pool.query({ ...UPSERT, values: [HELD, 'somebody', 3_600_000] });
  const unlock = await createMutex(HELD).tryLock();

  const refusedByHand = async (key) => {
    mustBe(1, (await pool.query(messages.lose({ key }))).rowCount, 'by hand');
  };
  const byHand = async (key) => {
    const owner = randomUUID();
    const { rows } = await pool.query(messages.acquire({ key, owner }));
    if (!(JSON.parse(Object.values(rows[0])[0])[0] > 0)) throw new Error('by hand: refused');
    const released = await pool.query(messages.release({ key, owner }));
    mustBe('1', Object.values(released.rows[0])[0], 'by hand');
  };
  const prepared = async (key) => {
    const owner = randomUUID();
    const { rows } = await pool.query({ ...UPSERT, values: [key, owner, LEASE_MS] });
    if (!(Number(rows[0].token) > 0)) throw new Error('upsert: refused');
    mustBe(1, (await pool.query({ ...GIVE_BACK, values: [key, owner] })).rowCount, 'upsert');
  };
  const verrouPair = (name) => async (key) => {
    const lock = verrou.use(name).createLock(key, LEASE_MS);
    mustBe(true, await lock.acquireImmediately(), name);
    await lock.release();
  };
  const verrouLoser = (name) => async (key) =>
    mustBe(false, await verrou.use(name).createLock(key, LEASE_MS).acquireImmediately(), name);

  const { rows } = await pool.query(
    "select current_setting('server_version') as version, current_setting('fsync') as fsync",
  );
  return {
    store: `PostgreSQL ${rows[0].version}, fsync ${rows[0].fsync}; a pool of ${pool.options.max}`,
    counter: () => counter(pool),
    explain: (key) => explain(pool, messages.lose({ key })),
    takers: [
      { name: 'the same statements, by hand', kind: 'floor', token: true, run: byHand },
      ...ours.takers,
      { name: 'a prepared upsert, by hand', kind: 'reference', token: true, run: prepared },
      { name: '@verrou/core, Knex', kind: 'peer', token: false, run: verrouPair('knex') },
      { name: '@verrou/core, Kysely', kind: 'peer', token: false, run: verrouPair('kysely') },
      {
        name: 'advisory-lock',
        kind: 'peer',
        token: false,
        // It opens a connection for every attempt.
        alone: true,
        few: true,
        run: async (key) => (await createMutex(key).tryLock())(),
      },
    ],
    losers: [
      {
        name: 'a read by primary key',
        kind: 'floor',
        run: async (key) => mustBe(true, (await pool.query(READ, [key])).rows[0].held, 'read'),
      },
      ...ours.losers,
      { name: 'the same statement, by hand', kind: 'reference', run: refusedByHand },
      {
        name: 'the read, prepared',
        kind: 'reference',
        run: async (key) =>
          mustBe(true, (await pool.query({ name: 'read', text: READ, values: [key] })).rows[0].held, 'read'),
      },
      {
        name: 'a prepared upsert, by hand',
        kind: 'reference',
        run: async (key) =>
          mustBe(
            0,
            (await pool.query({ ...UPSERT, values: [key, randomUUID(), LEASE_MS] })).rowCount,
            'upsert',
          ),
      },
      { name: '@verrou/core, Knex', kind: 'peer', run: verrouLoser('knex') },
      { name: '@verrou/core, Kysely', kind: 'peer', run: verrouLoser('kysely') },
      {
        name: 'advisory-lock',
        kind: 'peer',
        alone: true,
        few: true,
        run: async (key) => mustBe(undefined, await createMutex(key).tryLock(), 'advisory-lock'),
      },
    ],
    async close() {
      await ours.close();
      await unlock();
      await query.destroy();
      await pool.query(`drop schema ${SCHEMA} cascade`);
      await pool.end();
    },
  };
}

/** The prepared statements that joblatch sends, with the places of key and owner. */
async function messagesOf(provider) {
  const locks = createLocks({ provider });
  const key = `${PREFIX}:messages`;
  let owner;
  const calls = await recorded(pg.Client.prototype, 'query', async () => {
    const lock = await locks.tryAcquire(key, { lease: LEASE_MS });
    owner = lock.owner;
    await lock.release();
  });
  mustBe(2, calls.length, 'messages of a pair');
  const [acquire, release] = calls.map(([query]) => fillable(query, { key, owner }));

  // The second refusal in a row: an application that polls gets many.
  const lost = await recorded(pg.Client.prototype, 'query', async () => {
    for (let i = 0; i < 2; i += 1)
      mustBe(undefined, await locks.tryAcquire(HELD, { lease: LEASE_MS }), 'held');
  });
  return { acquire, release, lose: fillable(lost.at(-1)[0], { key: HELD }) };
}

/** The same statement with other values where those were. */
function fillable({ name, text, values }, parts) {
  const places = Object.entries(parts).map(([part, value]) => [values.indexOf(value), part]);
  return (given) => {
    const filled = [...values];
    for (const [place, part] of places) filled[place] = given[part];
    return { name, text, values: filled };
  };
}

/** Counts what is written to the log, and the transactions that have written something or locked a row. */
async function counter(pool) {
  const look = async () => {
    const { rows } = await pool.query(
      `select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as bytes, txid_snapshot_xmax(txid_current_snapshot()) as xid`,
    );
    return { bytes: Number(rows[0].bytes), xid: Number(rows[0].xid) };
  };
  const before = await look();
  return async () => {
    const after = await look();
    return { 'WAL bytes': after.bytes - before.bytes, 'writing transactions': after.xid - before.xid };
  };
}

async function explain(pool, { text, values }) {
  const { rows } = await pool.query(`explain (analyze, wal, buffers, format json) ${text}`, values);
  const [{ Plan: plan, 'Planning Time': planning, 'Execution Time': execution }] = rows[0]['QUERY PLAN'];
  const locked = [];
  const visit = (node) => {
    if (node['Node Type'] === 'LockRows') locked.push(node['Actual Rows']);
    for (const child of node.Plans ?? []) visit(child);
  };
  visit(plan);
  return (
    `WAL records ${plan['WAL Records']}, WAL bytes ${plan['WAL Bytes']}, rows locked ${locked.join(' + ') || 0}, ` +
    `pages dirtied ${plan['Shared Dirtied Blocks']}; planning ${planning} ms, execution ${execution} ms`
  );
}
