import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig, Pool } from 'pg';
import { CONNECT_MS, GOODBYE_MS } from './store-kind.js';

/** Something that has connections, and a way to end it that never takes long. */
export interface Ending<T> {
  readonly it: T;
  end(): Promise<void>;
}

export function postgresPool(config: ClientConfig): Ending<Pool> {
  const { sockets, stream } = socketsOfOurs();
  // Two: while one waits for the server, another lock of the same run must not wait behind it.
  const pool = new Pool({ ...config, stream, connectionTimeoutMillis: CONNECT_MS, max: 2 });
  pool.on('error', () => {}); // A connection that broke while idle; the next call says what is wrong.
  return { it: pool, end: () => endSoon(() => pool.end(), sockets) };
}

export function postgresClient(config: ClientConfig): Ending<Client> {
  const { sockets, stream } = socketsOfOurs();
  const client = new Client({
    ...config,
    stream,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: CONNECT_MS,
  });
  client.on('error', () => {}); // The query that is under way says it.
  return { it: client, end: () => endSoon(() => client.end(), sockets) };
}

/** pg waits for the server on ending, and a server that says nothing would keep the process from its end. */
function socketsOfOurs(): { sockets: Set<Socket>; stream: () => Socket } {
  const sockets = new Set<Socket>();
  const stream = (): Socket => {
    const socket = new Socket();
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  return { sockets, stream };
}

async function endSoon(end: () => Promise<void>, sockets: ReadonlySet<Socket>): Promise<void> {
  const late = new AbortController();
  await Promise.race([
    end().catch(() => {}),
    sleep(GOODBYE_MS, undefined, { signal: late.signal }).catch(() => {}),
  ]);
  late.abort();
  for (const socket of sockets) socket.destroy();
}
