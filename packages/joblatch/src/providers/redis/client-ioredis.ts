import type { ClientAdapter, ClientEvents, ScriptRunner } from './client.js';

/** What joblatch uses of ioredis: `Redis`, `Cluster`. */
export interface IoredisClient {
  readonly status: string;
  evalsha(sha: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>;
  eval(lua: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>;
  on(event: string, listener: (error: unknown) => void): unknown;
  off(event: string, listener: (error: unknown) => void): unknown;
}

/** What only some have, or what their types do not show. */
interface Details extends IoredisClient {
  readonly isCluster?: boolean;
  readonly mode?: string;
  readonly options?: { readonly enableAutoPipelining?: boolean; readonly lazyConnect?: boolean };
  connect(): Promise<unknown>;
  nodes?(role: 'master'): readonly IoredisClient[];
  pipeline(commands: readonly (readonly unknown[])[]): {
    exec(): Promise<readonly [Error | null, unknown][] | null>;
  };
  wait(replicas: number, timeoutMs: number): Promise<unknown>;
}

export function isIoredis(client: unknown): client is IoredisClient {
  const { evalsha, status } = (client ?? {}) as Partial<IoredisClient>;
  return typeof evalsha === 'function' && typeof status === 'string';
}

export function adaptIoredis(client: IoredisClient): ClientAdapter {
  const details = client as Details;
  const cluster = details.isCluster === true;
  return {
    library: 'ioredis',
    cluster,
    run: runnerOf(client).run,
    prepare() {
      // Of a cluster 'subscriber' says nothing about the connections that we use.
      if (details.mode === 'subscriber' && !cluster)
        return {
          refused: 'it is in subscriber mode. Give joblatch a client of its own (client.duplicate()).',
        };
      switch (client.status) {
        case 'ready':
          return 'ready';
        case 'monitoring':
          return { refused: 'it is monitoring. Give joblatch a client of its own (client.duplicate()).' };
        case 'end':
          return { refused: 'it is closed. Give a client that is open until joblatch has ended.' };
        case 'wait':
          // With lazyConnect the first command connects. What comes of it, the events tell.
          details.connect().catch(() => undefined);
          return 'later';
        default:
          return 'later';
      }
    },
    masters() {
      const nodes = cluster ? (details.nodes?.('master') ?? []) : [client];
      return Promise.resolve(nodes.map(runnerOf));
    },
    events: client as ClientEvents,
    wait: cluster ? undefined : (replicas, timeoutMs) => details.wait(replicas, timeoutMs),
  };
}

function runnerOf(client: IoredisClient): ScriptRunner {
  const { isCluster, options, pipeline } = client as Details;
  return {
    async run(by, script, keys, args) {
      const command = by === 'hash' ? 'evalsha' : 'eval';
      // Before 5.10 auto-pipelining in a cluster takes the first argument for the key, so here the hash of the
      // script, and may group commands of several servers. A pipeline of our own goes by the keys.
      if (isCluster && options?.enableAutoPipelining) {
        const all = pipeline.call(client, [[command, script, keys.length, ...keys, ...args]]);
        const [error, reply] = (await all.exec())?.[0] ?? [new Error('the pipeline was not executed')];
        if (error) throw error;
        return reply;
      }
      return client[command](script, keys.length, ...keys, ...args);
    },
  };
}
