// The MariaDB of guard-story.ts: locks and counters in one database. A worker process imports this with
// ?client=…&url=…&table=…&counters=… and calls open().

import { closeClient, openClient, openMysql } from './mysql-clients.js';

/** Transactions of the application that may be open at the same time; those of others are not to be taken away. */
const CONNECTIONS = 32;

/** Deadlock, a lock that was waited for in vain, a record that was changed since the transaction's first read. */
const ROLLED_BACK = [1213, 1205, 1020];
/** The server closes the connection of a transaction that does nothing for too long. */
const GONE = /closed|ended by timeout|Connection lost|ECONNRESET|EPIPE/;

const isClosed = (error) => error.fatal === true || GONE.test(error.message);

/** Both clients in one shape: mysql2 answers [rows, fields], mariadb rows. */
const rowsOf = (client, answer) => (client.startsWith('mysql2') ? answer[0] : answer);

export function openGuarded({ client, url, table, counters, max = CONNECTIONS }) {
  const pool = openClient(client, url, { connectionLimit: Number(max) });
  const providers = [];
  const ask = async (connection, sql, values) => rowsOf(client, await connection.query(sql, values));
  return {
    async openProvider() {
      const provider = await openMysql(client, url, { table });
      providers.push(provider);
      return provider;
    },
    async begin(isolation) {
      const connection = await (await pool).getConnection();
      await ask(connection, `set transaction isolation level ${isolation}`);
      await ask(connection, 'start transaction');
      const end = async (sql) => {
        try {
          await ask(connection, sql);
        } finally {
          await connection.release();
        }
      };
      return {
        transaction: connection,
        read: async (key) =>
          Number((await ask(connection, `select n from ${counters} where name = ?`, [key]))[0].n),
        write: async (key, n) =>
          void (await ask(connection, `update ${counters} set n = ? where name = ?`, [n, key])),
        stayBusy: async (ms) => void (await ask(connection, 'select sleep(?)', [ms / 1_000])),
        commit: () => end('commit'),
        rollback: () => end('rollback'),
      };
    },
    // Who was stopped for longer than a call may take gets no answer, and rolls back too.
    isRolledBack: (error) =>
      ROLLED_BACK.includes(error.errno) || isClosed(error) || /timeoutMs/.test(error.message),
    isClosed,
    async reset(keys) {
      await ask(await pool, `delete from ${counters}`);
      for (const key of keys) await ask(await pool, `insert into ${counters} (name, n) values (?, 0)`, [key]);
    },
    async total() {
      return Number((await ask(await pool, `select sum(n) as total from ${counters}`))[0].total);
    },
    async close() {
      await Promise.all([closeClient(client, await pool), ...providers.map((each) => each.close())]);
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
