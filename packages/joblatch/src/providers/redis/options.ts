import { LockOptionsError } from '../../provider/errors.js';
import { nodeRuntime, type Runtime } from '../../provider/runtime.js';
import { refuseUnknown } from '../../provider/values.js';
import { adaptClient, type ClientAdapter, type RedisClient } from './client.js';
import type { KeyNames } from './keys.js';

export interface RedisProviderOptions {
  /**
   * A client of ioredis, node-redis or Valkey GLIDE that the application has; never closed by joblatch. It may be shared
   * with other commands, but not with such that block (BLPOP, WAIT), subscribe or are in a transaction.
   */
  readonly client: RedisClient;
  /** What keys start with, as in ShedLock. Default `'job-lock'`. */
  readonly keyPrefix?: string;
  /** What separates fleets on one server, as in ShedLock. Default `'default'`. */
  readonly environment?: string;
  /**
   * How long a call that has no signal waits for the client to be connected and for the answer, in milliseconds;
   * then it rejects with a `LockStoreError`. A call with a signal waits until that aborts. Default 5,000.
   */
  readonly timeoutMs?: number;
  /**
   * A grant counts only if so many replicas have confirmed it within the time (WAIT); otherwise it is given back, and the
   * attempt fails with a `LockStoreError`. Makes losing a lock in a failover less likely, not impossible. Not
   * for clusters and pools. Default: the primary alone decides.
   */
  readonly replicas?: { readonly count: number; readonly timeoutMs: number };
  /**
   * Told of the errors that the client emits (a connection lost, refused), from first use until `close()`. Without it
   * they are swallowed: calls fail with what is wrong anyway.
   */
  readonly onError?: (error: Error) => void;
  /** Timers and chance. Default: Node's. */
  readonly runtime?: Runtime;
}

export interface Settings {
  readonly client: ClientAdapter;
  readonly names: KeyNames;
  readonly timeoutMs: number;
  readonly replicas: { readonly count: number; readonly timeoutMs: number } | undefined;
  readonly onError: ((error: Error) => void) | undefined;
  readonly runtime: Runtime;
}

const OPTIONS = new Set([
  'client',
  'keyPrefix',
  'environment',
  'timeoutMs',
  'replicas',
  'onError',
  'runtime',
]);
const DEFAULT_TIMEOUT_MS = 5_000;

export function checkOptions(options: RedisProviderOptions): Settings {
  refuseUnknown(options, OPTIONS, 'redisProvider');
  const { keyPrefix = 'job-lock', environment = 'default', timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  checkName('keyPrefix', keyPrefix);
  checkName('environment', environment);
  // What keeps a lock and its record in one hash slot rests on it; see keys.ts.
  if (/\{[^}]*$/.test(keyPrefix))
    throw refuse(`keyPrefix is ${JSON.stringify(keyPrefix)}`, 'a hash tag that is closed, or no brace');
  if (/[{}]/.test(environment))
    throw refuse(`environment is ${JSON.stringify(environment)}`, 'a name without braces');
  if (typeof timeoutMs !== 'number' || !(timeoutMs > 0 && timeoutMs < Number.POSITIVE_INFINITY))
    throw refuse(`timeoutMs is ${String(timeoutMs)}`, 'milliseconds, more than 0');
  const client = adaptClient(options.client);
  return {
    client,
    names: { keyPrefix, environment },
    timeoutMs,
    replicas: checkReplicas(options.replicas, client),
    onError: options.onError,
    runtime: options.runtime ?? nodeRuntime,
  };
}

function checkName(option: string, value: unknown): void {
  if (typeof value === 'string' && value !== '' && !value.includes('\0') && value.isWellFormed()) return;
  throw refuse(`${option} is ${JSON.stringify(value)}`, 'a non-empty, well-formed string without NUL');
}

function checkReplicas(
  replicas: RedisProviderOptions['replicas'],
  client: ClientAdapter,
): Settings['replicas'] {
  if (replicas === undefined) return undefined;
  const { count, timeoutMs } = replicas;
  // WAIT with a time-out of 0 would block the connection for ever.
  if (!Number.isSafeInteger(count) || count < 1 || !Number.isSafeInteger(timeoutMs) || timeoutMs < 1)
    throw refuse(
      `replicas is ${JSON.stringify(replicas)}`,
      '{ count, timeoutMs }, both whole numbers from 1 up',
    );
  if (client.wait === undefined)
    throw refuse(
      `replicas was given with a client of ${client.library} for several connections`,
      'replicas with a client of one connection',
    );
  return { count, timeoutMs };
}

function refuse(found: string, accepted: string): LockOptionsError {
  return new LockOptionsError(`redisProvider: ${found}. Accepted: ${accepted}.`);
}
