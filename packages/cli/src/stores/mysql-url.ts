import { userInfo } from 'node:os';
import type { ConnectionOptions } from 'node:tls';
import { UsageError } from '../errors.js';
import { hideSecret } from '../redact.js';
import { DRIVERS, type DriverName } from './mysql-driver.js';
import { readSsl, SSL_PARAMETERS } from './ssl.js';
import { parseStoreUrl } from './url.js';

export const MYSQL_FORM = 'mariadb://USER@HOST:PORT/DATABASE';

const PARAMETERS = ['table', 'schema', 'sessionTimeZone', 'driver', 'socket', ...SSL_PARAMETERS] as const;
const PORT = 3_306;

export interface MysqlTarget {
  /** As the scheme has it: what the server is said to be, where it is not asked. */
  readonly server: 'mariadb' | 'mysql';
  /** Undefined: the one that is installed. */
  readonly driver: DriverName | undefined;
  readonly host: string;
  readonly port: number;
  /** The path of a socket, instead of host and port. */
  readonly socket: string | undefined;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  readonly tls: ConnectionOptions | undefined;
  readonly table: { readonly table?: string; readonly schema?: string };
  readonly zone: { readonly sessionTimeZone?: string };
}

/** @throws UsageError */
export function readMysqlUrl(url: string, env: NodeJS.ProcessEnv = process.env): MysqlTarget {
  const { scheme, user, password, hosts, path, params } = parseStoreUrl(url, MYSQL_FORM, PARAMETERS);
  if (hosts.length > 1)
    throw new UsageError(
      `A MariaDB or MySQL store has one host, and ${hosts.length} were given: locks are in one place. Accepted: ${MYSQL_FORM}.`,
    );
  if (path.length > 1 || (path.length === 0 && !params.has('schema')))
    throw new UsageError(
      `A MariaDB or MySQL store has one database after the host, and ${path.length === 0 ? 'none was' : `${path.length} were`} given. Accepted: ${MYSQL_FORM}.`,
    );
  // Read, and so hidden, even when the URL has its own: it could turn up in a message all the same.
  const fromEnvironment = passwordOf(env);
  return {
    server: scheme === 'mysql' ? 'mysql' : 'mariadb',
    driver: readDriver(params.get('driver')),
    // What is not said, comes from where the programs of the server have it from.
    host: hosts[0]?.host ?? (env.MYSQL_HOST || 'localhost'),
    port: hosts[0]?.port ?? readPort(env.MYSQL_TCP_PORT || undefined),
    socket: params.get('socket'),
    user: user ?? ourName(),
    password: password ?? fromEnvironment,
    database: path[0],
    tls: readSsl(params) || undefined,
    table: {
      ...(params.has('table') && { table: params.get('table') as string }),
      ...(params.has('schema') && { schema: params.get('schema') as string }),
    },
    zone: readZone(params.get('sessionTimeZone')),
  };
}

function readDriver(name: string | undefined): DriverName | undefined {
  const known = DRIVERS.find((driver) => driver === name);
  if (name === undefined || known !== undefined) return known;
  throw new UsageError(
    `driver is ${JSON.stringify(name)}. Accepted: ${DRIVERS.join(', ')}, or nothing for the one that is installed.`,
  );
}

function readZone(text: string | undefined): MysqlTarget['zone'] {
  if (text === undefined) return {};
  // In a query a plus is a blank, and nobody writes %2B01:00.
  const zone = text.replace(/^ (?=\d)/, '+');
  if (/^[\w+:/-]+$/.test(zone)) return { sessionTimeZone: zone };
  throw new UsageError(
    `sessionTimeZone is ${JSON.stringify(text)}. Accepted: an offset such as +01:00, or a name such as Europe/Prague.`,
  );
}

function readPort(text: string | undefined): number {
  if (text === undefined) return PORT;
  if (/^\d{1,5}$/.test(text) && Number(text) > 0) return Number(text);
  throw new UsageError(`MYSQL_TCP_PORT is ${JSON.stringify(text)}. Accepted: the number of a port.`);
}

function passwordOf({ MYSQL_PWD: password }: NodeJS.ProcessEnv): string | undefined {
  if (!password) return undefined;
  hideSecret(password);
  return password;
}

/** The user of this process; undefined if the system has no name for it. */
function ourName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}
