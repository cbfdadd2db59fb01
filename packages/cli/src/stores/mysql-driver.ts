import type { MysqlPoolConnection } from 'joblatch/mysql';
import { NoStoreError } from '../errors.js';
import type { MysqlOptions } from './mysql-client.js';

/** In the order in which they are tried. */
export const DRIVERS = ['mysql2', 'mariadb'] as const;
export type DriverName = (typeof DRIVERS)[number];

/** What is used of a connection of either. */
export interface DriverConnection {
  readonly threadId: number | null;
  query(sql: string): Promise<unknown>;
  execute(sql: string, values: readonly (string | null)[]): Promise<unknown>;
  end(): Promise<void>;
  destroy(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** What is used of a pool of either; the rest is between the library and the driver. */
export interface DriverPool {
  getConnection(): Promise<MysqlPoolConnection>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

export interface Driver {
  createPool(options: MysqlOptions): DriverPool;
  createConnection(options: MysqlOptions): Promise<DriverConnection>;
}

const MODULES: Readonly<Record<DriverName, () => Promise<unknown>>> = {
  mysql2: () => import('mysql2/promise'),
  mariadb: () => import('mariadb'),
};

/**
 * Neither comes with the command: who has no such server needs none, and who has one may have chosen already.
 *
 * @throws NoStoreError if it is not installed
 */
export async function loadDriver(wanted: DriverName | undefined): Promise<[DriverName, Driver]> {
  const names = wanted === undefined ? DRIVERS : [wanted];
  for (const name of names) {
    try {
      return [name, unwrap(await MODULES[name]())];
    } catch (error) {
      if (!isMissing(error, name)) throw error;
    }
  }
  throw new NoStoreError(
    `MariaDB and MySQL need the driver ${names.join(' or ')}, which is not installed beside @joblatch/cli. ` +
      `Install it where the command is: npm install --global ${names[0]}, or without --global in the same project.`,
  );
}

function unwrap(module: unknown): Driver {
  const { default: whole, createPool } = module as {
    readonly default?: Driver;
    readonly createPool?: unknown;
  };
  return createPool === undefined ? (whole as Driver) : (module as Driver);
}

/** Not there at all: one that is there and broken says so itself. */
function isMissing(error: unknown, name: DriverName): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    error.code === 'ERR_MODULE_NOT_FOUND' &&
    error.message.includes(`'${name}'`)
  );
}
