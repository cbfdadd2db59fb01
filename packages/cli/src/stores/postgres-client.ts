import { Socket } from 'node:net';
import { Client, type ClientConfig, Pool } from 'pg';
import { type Ending, Sockets } from './ending.js';
import { CONNECT_MS } from './store-kind.js';

export function postgresPool(config: ClientConfig): Ending<Pool> {
  const sockets = new Sockets();
  const stream = (): Socket => sockets.add(new Socket());
  // Two: while one waits for the server, another lock of the same run must not wait behind it.
  const pool = new Pool({ ...config, stream, connectionTimeoutMillis: CONNECT_MS, max: 2 });
  pool.on('error', () => {}); // A connection that broke while idle; the next call says what is wrong.
  return { it: pool, end: () => sockets.endSoon(() => pool.end()) };
}

export function postgresClient(config: ClientConfig): Ending<Client> {
  const sockets = new Sockets();
  const stream = (): Socket => sockets.add(new Socket());
  const client = new Client({
    ...config,
    stream,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: CONNECT_MS,
  });
  client.on('error', () => {}); // The query that is under way says it.
  return { it: client, end: () => sockets.endSoon(() => client.end()) };
}
