// The PostgreSQL of guard-story.ts: locks and counters in one database. A worker process imports this with
// ?url=…&table=…&counters=… and calls open().

import { createRequire } from 'node:module';
import { postgresProvider } from 'joblatch/postgres';

const require = createRequire(new URL('../../../../drivers/', import.meta.url));
const { Pool } = require('pg');

/** Transactions of the application that may be open at the same time; those of others are not to be taken away. */
const CONNECTIONS = 32;

/** Gave way to another transaction (class 40), or waited for a lock in vain. */
const ROLLED_BACK = /^(40|55P03)/;
/** A transaction that sat idle: as the server says it, and as pg does afterwards. */
const IDLE = '25P03';
const GONE = /Connection terminated|not queryable|Client has encountered a connection error/;

const isClosed = (error) => error.code === IDLE || GONE.test(error.message);

export function openGuarded({ url, table, counters, max = CONNECTIONS }) {
  const pool = new Pool({ connectionString: url, max });
  pool.on('error', () => {});
  const providers = [];
  return {
    async openProvider() {
      const own = new Pool({ connectionString: url, max: 4 });
      own.on('error', () => {});
      providers.push(own);
      return postgresProvider({ pool: own, table });
    },
    async begin(isolation) {
      const client = await pool.connect();
      let broken = false;
      client.on('error', () => {
        broken = true;
      });
      const send = async (sql, values) => {
        try {
          return (await client.query(sql, values)).rows;
        } catch (error) {
          broken ||= isClosed(error);
          throw error;
        }
      };
      const end = async (sql) => {
        try {
          await send(sql);
        } catch (error) {
          broken = true;
          throw error;
        } finally {
          client.removeAllListeners('error');
          client.on('error', () => {});
          client.release(broken);
        }
      };
      await send(`begin isolation level ${isolation}`);
      return {
        transaction: client,
        read: async (key) => Number((await send(`select n from ${counters} where name = $1`, [key]))[0].n),
        write: async (key, n) => void (await send(`update ${counters} set n = $2 where name = $1`, [key, n])),
        stayBusy: async (ms) => void (await send('select pg_sleep($1)', [ms / 1_000])),
        commit: () => end('commit'),
        rollback: () => end('rollback'),
      };
    },
    isRolledBack: (error) => ROLLED_BACK.test(error.code ?? '') || isClosed(error),
    isClosed,
    async reset(keys) {
      await pool.query(`delete from ${counters}`);
      for (const key of keys) await pool.query(`insert into ${counters} (name, n) values ($1, 0)`, [key]);
    },
    async total() {
      return Number((await pool.query(`select sum(n) as total from ${counters}`)).rows[0].total);
    },
    async close() {
      await Promise.all([pool, ...providers].map((each) => each.end()));
    },
  };
}

/** What `import(url)` gives to a worker. */
export function open() {
  const { searchParams } = new URL(import.meta.url);
  return openGuarded({ ...Object.fromEntries(searchParams), max: 2 });
}

export function guardedModule(options) {
  const module = new URL(import.meta.url);
  module.search = new URLSearchParams(options).toString();
  return module.href;
}
