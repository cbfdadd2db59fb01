import { LockOptionsError } from '../../provider/errors.js';
import { adaptGlide, type GlideClient, isGlide } from './client-glide.js';
import { adaptIoredis, type IoredisClient, isIoredis } from './client-ioredis.js';
import { adaptNodeRedis, isNodeRedis, type NodeRedisClient } from './client-node-redis.js';

/** What joblatch takes: a client of ioredis, node-redis (`redis`) or Valkey GLIDE, for one server or a cluster. */
export type RedisClient = IoredisClient | NodeRedisClient | GlideClient;

/** Runs a script by its hash or by its text; keys are prefixed by the client, if it was told so. */
export interface ScriptRunner {
  run(
    by: 'hash' | 'text',
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<unknown>;
}

/** A client, whatever its library. */
export interface ClientAdapter extends ScriptRunner {
  /** For messages. */
  readonly library: string;
  /** Whether scripts may only touch keys of one hash slot. */
  readonly cluster: boolean;
  /**
   * Asks before something is sent whether it would be on its way at once: `'later'` when the client is connecting, and
   * would put it in a queue from which nothing can be taken back; or why it can not be sent at all.
   */
  prepare(): 'ready' | 'later' | { readonly refused: string };
  /** Runs scripts without keys on each server that has keys of its own; undefined where that can not be done. */
  readonly masters: (() => Promise<readonly ScriptRunner[]>) | undefined;
  /** Where the client tells of its state and its errors, if it does. */
  readonly events: ClientEvents | undefined;
  /** Waits until so many replicas have what this connection has written; undefined where that can not be done. */
  readonly wait: ((replicas: number, timeoutMs: number) => Promise<unknown>) | undefined;
}

export interface ClientEvents {
  on(event: string, listener: (error: unknown) => void): unknown;
  off(event: string, listener: (error: unknown) => void): unknown;
}

/**
 * @param who is told in the message
 * @throws LockOptionsError if it is no client that we know
 */
export function adaptClient(client: unknown, who = 'redisProvider'): ClientAdapter {
  if (isIoredis(client)) return adaptIoredis(client);
  if (isNodeRedis(client)) return adaptNodeRedis(client);
  if (isGlide(client)) return adaptGlide(client);
  throw new LockOptionsError(
    `${who}: client is ${client === null ? 'null' : describe(client)}. Accepted: a client of ioredis (5, 6), ` +
      'of redis (node-redis 4 to 6: createClient, createCluster …) or of @valkey/valkey-glide.',
  );
}

function describe(value: unknown): string {
  return typeof value === 'object' ? 'an object without evalsha, evalSha or customCommand' : typeof value;
}
