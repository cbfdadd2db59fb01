import type { ClientAdapter } from './client.js';

/** What joblatch uses of Valkey GLIDE: `GlideClient`, `GlideClusterClient`. */
export interface GlideClient {
  customCommand(args: string[]): Promise<unknown>;
  close(errorMessage?: string): void;
}

export function isGlide(client: unknown): client is GlideClient {
  return typeof ((client ?? {}) as Partial<GlideClient>).customCommand === 'function';
}

export function adaptGlide(client: GlideClient): ClientAdapter {
  // Only the client of a cluster knows of sharded channels.
  const cluster = 'pubsubShardChannels' in client;
  const adapter: ClientAdapter = {
    library: 'Valkey GLIDE',
    cluster,
    run: (by, script, keys, args) =>
      client.customCommand([
        by === 'hash' ? 'EVALSHA' : 'EVAL',
        script,
        String(keys.length),
        ...keys,
        ...args,
      ]),
    // It connects before it is handed out, and says nothing of its state; commands fail by its own time-out.
    prepare: () => 'ready',
    // A cursor is only good for the server that gave it, and which server a command without keys goes to can
    // not be said without the addresses of all of them.
    masters: cluster ? undefined : () => Promise.resolve([adapter]),
    events: undefined,
    wait: cluster
      ? undefined
      : (replicas, timeoutMs) => client.customCommand(['WAIT', String(replicas), String(timeoutMs)]),
  };
  return adapter;
}
