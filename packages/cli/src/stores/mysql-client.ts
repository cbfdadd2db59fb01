import { connect, isIP, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import type { MysqlPool } from 'joblatch/mysql';
import { type Ending, Sockets } from './ending.js';
import { type DriverName, type DriverPool, loadDriver } from './mysql-driver.js';
import type { MysqlTarget } from './mysql-url.js';
import { CONNECT_MS } from './store-kind.js';

/** What both drivers understand, and what one of them has besides. */
export interface MysqlOptions {
  readonly host: string;
  readonly port: number;
  readonly socketPath?: string;
  readonly user?: string;
  readonly password?: string;
  readonly database?: string;
  readonly ssl?: ConnectionOptions & { readonly verifyIdentity?: boolean };
  readonly connectTimeout: number;
  readonly stream: () => Socket;
  readonly connectionLimit?: number;
  readonly acquireTimeout?: number;
  readonly minimumIdle?: number;
}

export async function mysqlPool(target: MysqlTarget): Promise<Ending<MysqlPool>> {
  const [name, driver] = await loadDriver(target.driver);
  const sockets = new Sockets();
  const pool = driver.createPool({
    ...optionsFor(name, target, sockets),
    // Two: while one waits for the server, another lock of the same run must not wait behind it.
    connectionLimit: 2,
    ...(name === 'mariadb' && { acquireTimeout: CONNECT_MS, minimumIdle: 1 }),
  });
  const end = (): Promise<void> => sockets.endSoon(() => pool.end());
  return { it: name === 'mariadb' ? telling(pool) : pool, end };
}

/** The pool of mariadb says that there is no connection, and has the reason inside. */
function telling(pool: DriverPool): MysqlPool {
  pool.on('error', () => {}); // A connection that could not be made; who waits for it is told.
  return {
    async getConnection() {
      try {
        return await pool.getConnection();
      } catch (error) {
        throw reasonOf(error);
      }
    },
  };
}

function reasonOf(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof Error ? reasonOf(error.cause) : error;
}

/** A connection of which only texts are asked. */
export interface MysqlSession {
  /** The number that the other end gave the connection when it was made. */
  readonly promisedId: number | null;
  readonly driver: DriverName;
  /** The only column of each row, whose texts are JSON. */
  ask<T>(sql: string, values?: readonly (string | null)[]): Promise<T[]>;
  /** The rows of statements that can not make JSON, such as `show`. */
  show(sql: string): Promise<Readonly<Record<string, unknown>>[]>;
}

export async function mysqlSession(target: MysqlTarget): Promise<Ending<MysqlSession>> {
  const [name, driver] = await loadDriver(target.driver);
  const sockets = new Sockets();
  const making = driver.createConnection(optionsFor(name, target, sockets));
  try {
    const connection = await soon(making);
    connection.on('error', () => {}); // The query that is under way says it.
    const rows = async (answer: Promise<unknown>): Promise<Record<string, unknown>[]> => {
      const result = await soon(answer);
      // mysql2 answers `[rows, fields]`, mariadb `rows`.
      return (name === 'mysql2' ? (result as unknown[])[0] : result) as Record<string, unknown>[];
    };
    const session: MysqlSession = {
      promisedId: connection.threadId,
      driver: name,
      ask: async <T>(sql: string, values?: readonly (string | null)[]) => {
        const found = await rows(
          values === undefined ? connection.query(sql) : connection.execute(sql, values),
        );
        return found.map((row) => JSON.parse(String(Object.values(row)[0])) as T);
      },
      show: (sql) => rows(connection.query(sql)),
    };
    return { it: session, end: () => sockets.endSoon(() => connection.end()) };
  } catch (error) {
    making.catch(() => {});
    await sockets.endSoon(async () => {});
    throw error;
  }
}

async function soon<T>(answer: Promise<T>): Promise<T> {
  const late = new AbortController();
  const silence = sleep(CONNECT_MS, undefined, { signal: late.signal }).then(() => {
    throw new Error(`no answer within ${CONNECT_MS}ms`);
  });
  silence.catch(() => {});
  try {
    return await Promise.race([answer, silence]);
  } finally {
    late.abort();
  }
}

function optionsFor(name: DriverName, target: MysqlTarget, sockets: Sockets): MysqlOptions {
  const { host, port, socket: socketPath, user, password, database, tls } = target;
  return {
    host,
    port,
    ...(socketPath !== undefined && { socketPath }),
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(database !== undefined && { database }),
    ...(tls !== undefined && { ssl: sslFor(name, tls) }),
    connectTimeout: CONNECT_MS,
    stream: () => sockets.add(socketPath === undefined ? connectTo(host, port) : connect(socketPath)),
  };
}

function connectTo(host: string, port: number): Socket {
  const socket = connect({ host, port, noDelay: true, keepAlive: true });
  // Whom the certificate must name, Node takes from here, where it has put a name, but no address. Both drivers hand it
  // nothing else, and then it would have to be one for "localhost".
  return isIP(host) === 0 ? socket : Object.assign(socket, { _host: host });
}

/** mysql2 does not ask whose a certificate is unless it is told to. */
function sslFor(name: DriverName, tls: ConnectionOptions): NonNullable<MysqlOptions['ssl']> {
  if (name !== 'mysql2') return { ...tls };
  const { checkServerIdentity, ...options } = tls;
  return {
    ...options,
    verifyIdentity: options.rejectUnauthorized !== false && checkServerIdentity === undefined,
  };
}
