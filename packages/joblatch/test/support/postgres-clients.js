// Clients of PostgreSQL, each opened as an application would. A worker process imports this with
// ?client=…&url=…&table=… and calls open().

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { postgresProvider } from 'joblatch/postgres';

const drivers = new URL('../../../../drivers/', import.meta.url);
const require = createRequire(drivers);

/** Rarely used connections should not take those of others away: a test opens several pools. */
const CONNECTIONS = 4;

/** How long a call that has no signal may take: a test of a store that is away need not wait longer. */
const TIMEOUT_MS = 2_000;

const CLIENTS = {
  'pg Pool': {
    open: async (url, options = {}) => {
      const { Pool } = require('pg');
      return new Pool({ connectionString: url, max: CONNECTIONS, ...options });
    },
    source: (pool) => ({ pool }),
    close: (pool) => {
      // It is at an end before its connections are: one that a later test kills until then is nobody's business.
      pool.on('error', () => {});
      return pool.end();
    },
  },
  'pg Client': {
    open: async (url, options = {}) => {
      const { Client } = require('pg');
      const client = new Client({ connectionString: url, ...options });
      await client.connect();
      return client;
    },
    source: (client) => ({ client }),
    close: (client) => client.end(),
  },
  'postgres.js': {
    open: async (url, options = {}) =>
      require('postgres')(url, { max: CONNECTIONS, onnotice: () => {}, ...options }),
    source: (sql) => ({ sql }),
    close: (sql) => sql.end({ timeout: 1 }),
  },
};

export const CLIENT_NAMES = Object.keys(CLIENTS);

/** Opens a client; it is the caller's to close, by `closeClient`. */
export const openClient = (name, url, options) => CLIENTS[name].open(url, options);
export const closeClient = (name, client) => CLIENTS[name].close(client);

/** What `postgresProvider` and `migratePostgres` are told of the client. */
export const sourceOf = (name, client) => CLIENTS[name].source(client);

/** A provider with a client of its own, which is closed with it. */
export async function openPostgres(name, url, { clientOptions, ...options } = {}) {
  const client = await openClient(name, url, clientOptions);
  const provider = postgresProvider({ timeoutMs: TIMEOUT_MS, ...sourceOf(name, client), ...options });
  const close = provider.close.bind(provider);
  provider.close = async () => {
    await close();
    await closeClient(name, client).catch(() => {});
  };
  return provider;
}

/** A database in this process; it takes seconds to make one. */
export async function openPglite() {
  const { PGlite } = require('@electric-sql/pglite');
  return PGlite.create();
}

/** What `import(url)` gives to a worker. */
export function open() {
  const { searchParams } = new URL(import.meta.url);
  return openPostgres(searchParams.get('client'), searchParams.get('url'), {
    table: searchParams.get('table'),
  });
}

/** The URL of this module for one client and table. */
export function moduleUrl(client, url, table) {
  const module = new URL(import.meta.url);
  module.search = new URLSearchParams({ client, url, table }).toString();
  return module;
}

/** Why the clients can not be had, if so. */
export const noClients = existsSync(new URL('node_modules/pg', drivers))
  ? undefined
  : 'drivers/node_modules/pg is not there; npm run drivers installs it';
