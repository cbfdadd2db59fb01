import type { LockProvider } from 'joblatch';
import type { MysqlClients, MysqlConnection, MysqlPool, MysqlProviderOptions } from 'joblatch/mysql';

export type ClientName =
  | 'mysql2 pool'
  | 'mysql2 pool with callbacks'
  | 'mysql2 connection'
  | 'mariadb pool'
  | 'mariadb connection';

/** What the tests themselves use of a connection of mysql2. */
export interface TestConnection extends MysqlConnection {
  // biome-ignore lint/suspicious/noExplicitAny: rows of any statement
  query(sql: any, values?: readonly unknown[]): Promise<[any, unknown]>;
  release(): void;
  end(): Promise<void>;
}

export interface TestPool extends MysqlPool {
  // biome-ignore lint/suspicious/noExplicitAny: rows of any statement
  query(sql: string, values?: readonly unknown[]): Promise<[any, unknown]>;
  getConnection(): Promise<TestConnection>;
  end(): Promise<void>;
}

export interface ClientOptions {
  /** A statement that each new connection runs first. */
  readonly setUp?: string | undefined;
  readonly [option: string]: unknown;
}

export interface OpenOptions extends MysqlProviderOptions {
  readonly clientOptions?: ClientOptions;
}

export declare const CLIENT_NAMES: readonly ClientName[];
export declare function openClient(
  name: 'mysql2 pool',
  url: string,
  options?: ClientOptions,
): Promise<TestPool>;
export declare function openClient(
  name: 'mysql2 connection',
  url: string,
  options?: ClientOptions,
): Promise<TestConnection>;
export declare function openClient(name: ClientName, url: string, options?: ClientOptions): Promise<object>;
export declare function closeClient(name: ClientName, client: object): Promise<void>;
export declare function sourceOf(name: ClientName, client: object): MysqlClients;
export declare function openMysql(
  name: ClientName,
  url: string,
  options?: OpenOptions,
): Promise<LockProvider>;
export declare function open(): Promise<LockProvider>;
export declare function moduleUrl(
  client: ClientName,
  url: string,
  table: string,
  setUps?: readonly string[],
): URL;
export declare const noClients: string | undefined;
