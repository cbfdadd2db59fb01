// Clients of MariaDB and MySQL, each opened as an application would. A worker process imports this with
// ?client=…&url=…&table=… and calls open().

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { mysqlProvider } from 'joblatch/mysql';

const drivers = new URL('../../../../drivers/', import.meta.url);
const require = createRequire(drivers);

/** Rarely used connections should not take those of others away: a test opens several pools. */
const CONNECTIONS = 4;

/** How long a call that has no signal may take: a test of a store that is away need not wait longer. */
const TIMEOUT_MS = 2_000;

/** What both clients understand of a URL; variables are set by each session as it begins. */
const fromUrl = (url) => {
  const { hostname, port, username, password, pathname } = new URL(url);
  return { host: hostname, port: Number(port), user: username, password, database: pathname.slice(1) };
};

/** Statements that each new connection runs first, as applications set their sessions up. */
const settingUp = (pool, sql) => {
  if (sql === undefined) return;
  pool.on('connection', (connection) => connection.query(sql));
};

const CLIENTS = {
  'mysql2 pool': {
    open: async (url, { setUp, ...options } = {}) => {
      const pool = require('mysql2/promise').createPool({
        ...fromUrl(url),
        connectionLimit: CONNECTIONS,
        ...options,
      });
      settingUp(pool.pool, setUp);
      return pool;
    },
    source: (pool) => ({ pool }),
    close: (pool) => pool.end(),
  },
  'mysql2 pool with callbacks': {
    open: async (url, { setUp, ...options } = {}) => {
      const pool = require('mysql2').createPool({
        ...fromUrl(url),
        connectionLimit: CONNECTIONS,
        ...options,
      });
      settingUp(pool, setUp);
      return pool;
    },
    source: (pool) => ({ pool }),
    close: (pool) => pool.promise().end(),
  },
  'mysql2 connection': {
    open: async (url, { setUp, ...options } = {}) => {
      const connection = await require('mysql2/promise').createConnection({ ...fromUrl(url), ...options });
      if (setUp !== undefined) await connection.query(setUp);
      return connection;
    },
    source: (connection) => ({ connection }),
    close: (connection) => connection.end(),
  },
  'mariadb pool': {
    open: async (url, { setUp, ...options } = {}) =>
      require('mariadb').createPool({
        ...fromUrl(url),
        connectionLimit: CONNECTIONS,
        acquireTimeout: TIMEOUT_MS,
        ...(setUp !== undefined && { initSql: setUp }),
        ...options,
      }),
    source: (pool) => ({ pool }),
    close: (pool) => pool.end(),
  },
  'mariadb connection': {
    open: async (url, { setUp, ...options } = {}) =>
      require('mariadb').createConnection({
        ...fromUrl(url),
        ...(setUp !== undefined && { initSql: setUp }),
        ...options,
      }),
    source: (connection) => ({ connection }),
    close: (connection) => connection.end(),
  },
};

export const CLIENT_NAMES = Object.keys(CLIENTS);

/** Opens a client; it is the caller's to close, by `closeClient`. */
export const openClient = (name, url, options) => CLIENTS[name].open(url, options);
export const closeClient = (name, client) => CLIENTS[name].close(client);

/** What `mysqlProvider` and `migrateMysql` are told of the client. */
export const sourceOf = (name, client) => CLIENTS[name].source(client);

/** A provider with a client of its own, which is closed with it. */
export async function openMysql(name, url, { clientOptions, ...options } = {}) {
  const client = await openClient(name, url, clientOptions);
  const provider = mysqlProvider({ timeoutMs: TIMEOUT_MS, ...sourceOf(name, client), ...options });
  const close = provider.close.bind(provider);
  provider.close = async () => {
    await close();
    await closeClient(name, client).catch(() => {});
  };
  return provider;
}

/** What `import(url)` gives to a worker; of several ways to set sessions up each process has one. */
export function open() {
  const { searchParams } = new URL(import.meta.url);
  const setUps = searchParams.getAll('setUp');
  return openMysql(searchParams.get('client'), searchParams.get('url'), {
    table: searchParams.get('table'),
    clientOptions: { setUp: setUps[process.pid % setUps.length] },
  });
}

/** The URL of this module for one client and table. */
export function moduleUrl(client, url, table, setUps = []) {
  const module = new URL(import.meta.url);
  module.search = new URLSearchParams({ client, url, table }).toString();
  for (const setUp of setUps) module.searchParams.append('setUp', setUp);
  return module;
}

/** Why the clients can not be had, if so. */
export const noClients = existsSync(new URL('node_modules/mysql2', drivers))
  ? undefined
  : 'drivers/node_modules/mysql2 is not there; npm run drivers installs it';
