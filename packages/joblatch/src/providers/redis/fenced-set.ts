import { LockOptionsError, LockStoreError } from '../../provider/errors.js';
import { nodeRuntime } from '../../provider/runtime.js';
import { type Duration, parseDuration, refuseUnknown, show } from '../../provider/values.js';
import { adaptClient, type RedisClient } from './client.js';
import { Gateway, type GatewaySettings } from './gateway.js';
import { besideKey } from './keys.js';
import { FENCED_SET } from './scripts.js';

export interface FencedSetOptions {
  /** The key as you would give it to the client, which may put a prefix of its own in front. */
  readonly key: string;
  readonly value: string;
  /** The token of the lock: `lock.token`, or that of a job. */
  readonly token: number;
  /** How long the value lives. Default: for ever. */
  readonly ttl?: Duration | undefined;
  /**
   * How long after the last write the greatest token is remembered. A holder that is paused for longer than this, and than
   * nobody has written, is not recognised any more. Default: 31 days.
   */
  readonly tokenTtl?: Duration | undefined;
  /** Gives the call up. It may have been applied all the same. */
  readonly signal?: AbortSignal | undefined;
}

const OPTIONS = new Set(['key', 'value', 'token', 'ttl', 'tokenTtl', 'signal']);
const DEFAULT_TOKEN_TTL = '31d';
const TIMEOUT_MS = 5_000;
/** What the key of the greatest token ends with; in a cluster something may follow. */
const TOKEN_MARK = ':fence';

/**
 * Writes a value if nobody with a greater fencing token has written that key before: `SET` for holders of a lock, of
 * whom one may have been paused until another had the lock.
 *
 * The same holder may write as often as it likes. Whoever writes the key in another way is not seen.
 *
 * @returns true: it is written. False: a newer holder wrote there before, and nothing was changed
 * @throws LockOptionsError for options that can not be right
 * @throws LockStoreError if Redis failed or did not answer within 5 s; the value may have been written
 */
export async function fencedSet(client: RedisClient, options: FencedSetOptions): Promise<boolean> {
  const { key, value, token, life, tokenLife } = check(options);
  const line = lineOf(client);
  const gateway = line.open();
  try {
    const answer = await gateway.call('fencedSet', key, options, ({ keys, run }) => {
      const { companion } = besideKey(keys.clientPrefix, key, key + TOKEN_MARK);
      const args = [token, tokenLife, value, ...(life === undefined ? [] : [life])];
      return run(FENCED_SET, [key, companion], args);
    });
    if (answer === 'odd') throw notAToken(key);
    return answer === 'written';
  } finally {
    line.leave();
  }
}

/** The way to one client, as long as anybody is on it: we listen to a client of the application no longer than that. */
class SharedLine {
  readonly #settings: GatewaySettings;
  #gateway: Gateway | undefined;
  #clientPrefix: string | undefined;
  #users = 0;

  constructor(client: RedisClient) {
    this.#settings = {
      client: adaptClient(client, 'fencedSet'),
      // Not used: the names are those of the application.
      names: { keyPrefix: '', environment: '' },
      timeoutMs: TIMEOUT_MS,
      onError: undefined,
      runtime: nodeRuntime,
    };
  }

  open(): Gateway {
    this.#users += 1;
    this.#gateway ??= new Gateway(this.#settings, this.#clientPrefix);
    return this.#gateway;
  }

  leave(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#clientPrefix = this.#gateway?.clientPrefix;
    this.#gateway?.close();
    this.#gateway = undefined;
  }
}

const lines = new WeakMap<RedisClient, SharedLine>();

function lineOf(client: RedisClient): SharedLine {
  const known = lines.get(client);
  if (known !== undefined) return known;
  const line = new SharedLine(client);
  lines.set(client, line);
  return line;
}

function check(options: FencedSetOptions) {
  refuseUnknown(options, OPTIONS, 'fencedSet');
  const { key, value, token, ttl, tokenTtl = DEFAULT_TOKEN_TTL } = options;
  if (typeof key !== 'string' || key === '' || !key.isWellFormed())
    throw refuse(`key is ${show(key)}`, 'a non-empty, well-formed string');
  if (typeof value !== 'string') throw refuse(`value is ${show(value)}`, 'a string');
  if (!Number.isSafeInteger(token) || token < 1)
    throw refuse(`token is ${show(token)}`, 'the token of a lock, a positive whole number');
  return {
    key,
    value,
    token,
    life: ttl === undefined ? undefined : parseDuration(ttl, 'fencedSet: ttl'),
    tokenLife: parseDuration(tokenTtl, 'fencedSet: tokenTtl'),
  };
}

function refuse(found: string, accepted: string): LockOptionsError {
  return new LockOptionsError(`fencedSet: ${found}. Accepted: ${accepted}.`);
}

function notAToken(key: string): LockStoreError {
  return new LockStoreError(
    `fencedSet of ${JSON.stringify(key)} failed: the key ${JSON.stringify(key + TOKEN_MARK)} (or one that begins so) holds something else ` +
      'than a token. Remove it, or write to another key.',
    { operation: 'fencedSet', key },
  );
}
