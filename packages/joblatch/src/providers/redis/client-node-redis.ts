import type { ClientAdapter, ClientEvents, ScriptRunner } from './client.js';

/** What joblatch uses of node-redis: what `createClient`, `createCluster`, `createClientPool` and `createSentinel` make. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  evalSha(sha: string, options: ScriptArguments): Promise<unknown>;
  eval(lua: string, options: ScriptArguments): Promise<unknown>;
  on(event: string, listener: (error: unknown) => void): unknown;
  off(event: string, listener: (error: unknown) => void): unknown;
}

interface ScriptArguments {
  // Arrays that can be written to, as the types of node-redis want it.
  keys: string[];
  arguments: string[];
}

/** What only some have, or what their types do not show. */
interface Details extends NodeRedisClient {
  readonly isReady?: boolean;
  readonly options?: { readonly legacyMode?: boolean } | undefined;
  /** Version 4 in its legacy mode: the methods that answer by promise. */
  readonly v4?: NodeRedisClient;
  readonly masters?: readonly unknown[];
  nodeClient?(node: unknown): NodeRedisClient | Promise<NodeRedisClient>;
  /** A pool: each command goes to another connection. */
  readonly totalClients?: number;
  wait?(replicas: number, timeoutMs: number): Promise<unknown>;
  /** Version 4 alone shows it. */
  readonly commandsExecutor?: unknown;
  sendCommand(firstKey: string, isReadonly: boolean, args: readonly string[]): Promise<unknown>;
}

export function isNodeRedis(client: unknown): client is NodeRedisClient {
  const { evalSha, isOpen } = (client ?? {}) as Partial<NodeRedisClient>;
  return typeof evalSha === 'function' && typeof isOpen === 'boolean';
}

export function adaptNodeRedis(client: NodeRedisClient): ClientAdapter {
  const details = client as Details;
  // The methods of the client itself then answer by callback. (Without the legacy mode `v4` throws.)
  const promising = details.options?.legacyMode === true ? (details.v4 ?? client) : client;
  const cluster = typeof details.nodeClient === 'function';
  const oneConnection = !cluster && details.totalClients === undefined && details.isReady !== undefined;
  return {
    library: 'node-redis',
    cluster,
    run: (cluster && details.commandsExecutor !== undefined ? clusterOf4(details) : runnerOf(promising)).run,
    prepare() {
      // We do not connect it: who opens a connection has to close it, or the process does not end.
      if (!client.isOpen)
        return {
          refused: 'it is not connected, or was closed. Do: await client.connect(), before it is used.',
        };
      // A cluster or a pool does not always say.
      return details.isReady === false ? 'later' : 'ready';
    },
    async masters() {
      if (!cluster) return [runnerOf(promising)];
      const nodes = await Promise.all((details.masters ?? []).map((node) => details.nodeClient?.(node)));
      return nodes.filter((node) => node !== undefined).map(runnerOf);
    },
    events: client as ClientEvents,
    wait: oneConnection ? (promising as Details).wait?.bind(promising) : undefined,
  };
}

function runnerOf(client: NodeRedisClient): ScriptRunner {
  return {
    run(by, script, keys, args) {
      const options = { keys: [...keys], arguments: [...args] };
      return by === 'hash' ? client.evalSha(script, options) : client.eval(script, options);
    },
  };
}

/**
 * Version 4 takes no key from a script's arguments, so in a cluster each script goes to some node, is sent on to
 * another by chance, and fails when that was too often. Told the key, it finds the node that has it.
 */
function clusterOf4(client: Details): ScriptRunner {
  return {
    run: (by, script, keys, args) =>
      client.sendCommand(keys[0] as string, false, [
        by === 'hash' ? 'EVALSHA' : 'EVAL',
        script,
        String(keys.length),
        ...keys,
        ...args,
      ]),
  };
}
