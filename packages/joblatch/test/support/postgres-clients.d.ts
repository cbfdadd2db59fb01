import type { LockProvider } from 'joblatch';
import type {
  PgClient,
  Pglite,
  PgPool,
  PgPoolClient,
  PgQuery,
  PostgresClients,
  PostgresJs,
  PostgresProviderOptions,
} from 'joblatch/postgres';

export type ClientName = 'pg Pool' | 'pg Client' | 'postgres.js';

/** What the tests themselves use of pg. */
export interface PgRows {
  query(sql: string, values?: readonly unknown[]): Promise<{ readonly rows: Record<string, unknown>[] }>;
}

export interface TestPoolClient extends PgRows, PgPoolClient {
  query(
    sql: string | PgQuery,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: Record<string, unknown>[] }>;
}

export interface TestClients {
  'pg Pool': Omit<PgPool, 'connect'> &
    PgRows & {
      connect(): Promise<TestPoolClient>;
      end(): Promise<void>;
      readonly totalCount: number;
      readonly idleCount: number;
      readonly waitingCount: number;
      listenerCount(event: string): number;
    };
  'pg Client': Omit<PgClient, 'query'> &
    TestPoolClient & { end(): Promise<void>; listenerCount(event: string): number };
  'postgres.js': PostgresJs & {
    end(options?: object): Promise<void>;
    begin<T>(work: (sql: PostgresJs) => Promise<T>): Promise<T>;
    begin<T>(how: string, work: (sql: PostgresJs) => Promise<T>): Promise<T>;
    reserve(): Promise<PostgresJs & { release(): void }>;
  };
}

export interface OpenOptions extends PostgresProviderOptions {
  readonly clientOptions?: object;
}

export declare const CLIENT_NAMES: readonly ClientName[];
export declare function openClient<N extends ClientName>(
  name: N,
  url: string,
  options?: object,
): Promise<TestClients[N]>;
export declare function closeClient<N extends ClientName>(name: N, client: TestClients[N]): Promise<void>;
export declare function sourceOf<N extends ClientName>(name: N, client: TestClients[N]): PostgresClients;
export declare function openPostgres(
  name: ClientName,
  url: string,
  options?: OpenOptions,
): Promise<LockProvider>;
export declare function openPglite(): Promise<
  Pglite & {
    close(): Promise<void>;
    query(sql: string): Promise<{ rows: object[] }>;
    transaction<T>(work: (tx: Pglite & { rollback(): Promise<void> }) => Promise<T>): Promise<T>;
  }
>;
export declare function open(): Promise<LockProvider>;
export declare function moduleUrl(client: ClientName, url: string, table: string): URL;
export declare const noClients: string | undefined;
