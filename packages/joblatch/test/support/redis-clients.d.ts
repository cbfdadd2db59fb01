import type { LockProvider } from 'joblatch';
import type { RedisClient, RedisProviderOptions } from 'joblatch/redis';

/** What the tests use of any client, besides giving it to a provider. */
export interface OpenedClient {
  on(event: string, listener: (error: Error) => void): unknown;
  listenerCount(event: string): number;
}

export interface TestClient {
  /** Its name in drivers/. */
  readonly library: string;
  open(url: string, options?: object): Promise<RedisClient & OpenedClient>;
  openCluster(url: string, options?: object): Promise<RedisClient & OpenedClient>;
  close(client: RedisClient): Promise<void> | void;
}

export declare const CLIENTS: Readonly<Record<string, TestClient>>;
export declare const VARIANTS: Readonly<Record<string, TestClient>>;
export declare function openRedis(
  name: string,
  url: string,
  options?: Partial<RedisProviderOptions> & { readonly cluster?: boolean },
): Promise<LockProvider>;
export declare function open(): Promise<LockProvider>;
export declare function moduleUrl(
  client: string,
  url: string,
  options?: { readonly environment?: string; readonly cluster?: 'true' },
): URL;
