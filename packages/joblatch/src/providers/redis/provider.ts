import { LockOptionsError, LockStoreError } from '../../provider/errors.js';
import type {
  AcquireRequest,
  AcquireResult,
  CallOptions,
  InspectRequest,
  LockProvider,
  LockRecord,
  ProviderAbilities,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from '../../provider/lock-provider.js';
import { Batches } from './batches.js';
import { Gateway, type Line } from './gateway.js';
import { checkOptions, type RedisProviderOptions, type Settings } from './options.js';
import { listNames, readRecords } from './records.js';
import { ACQUIRE, FORCE, INSPECT, PURGE, RELEASE, RENEW } from './scripts.js';

/** Names that are read or purged before the next ones are asked for. */
const PAGE = 10_000;

/**
 * Locks in Redis 5 or later, or in what speaks its language (Valkey). The keys of the locks are those of the Java
 * library ShedLock, so both can guard the same jobs. Nothing is sent before first use.
 *
 * The clock is the server's. Redis replicates after it has answered, and can be told to forget (eviction, FLUSHALL, no
 * data on disk): what that breaks is in docs/redis.md.
 *
 * @throws LockOptionsError for options that can not be right
 */
export function redisProvider(options: RedisProviderOptions): LockProvider {
  return new RedisProvider(checkOptions(options));
}

class RedisProvider implements LockProvider {
  readonly name = 'redis';
  readonly #settings: Settings;
  readonly #gateway: Gateway;
  readonly #batches: Batches;
  readonly #self: string;
  #calls = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#gateway = new Gateway(settings);
    this.#batches = new Batches(settings.client.cluster);
    this.#self = Math.floor(settings.runtime.random() * 2 ** 40).toString(36);
  }

  async abilities(): Promise<ProviderAbilities> {
    const inspect = this.#settings.client.masters !== undefined;
    return { multiProcess: true, serverClock: true, fencing: true, slots: true, inspect };
  }

  acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult> {
    const { key } = request;
    return this.#gateway.call('acquire', key, options, async (line) => {
      const { lock, record } = line.keys.keysOf(key);
      const answer = await line.run(ACQUIRE, [lock, record], this.#termsOf(request));
      const [verdict, ...rest] = answer.split(' ');
      if (verdict === 'ok') {
        const [token, left, compared] = rest;
        if (this.#settings.replicas !== undefined)
          await this.#confirm(line, request, this.#settings.replicas);
        return {
          ok: true,
          token: Number(token),
          leftMs: Number(left),
          ...(compared !== '-' && { slot: Number(compared) }),
        };
      }
      // Not a number: free but for the slot. -1: somebody made it last for ever.
      const left = Number(rest[0]);
      return {
        ok: false,
        reason: verdict === 'slot' ? 'slot' : 'held',
        ...(left >= 0 && { leftMs: left }),
      };
    });
  }

  /** What is not asked for is not sent: most attempts are plain ones. */
  #termsOf({ owner, leaseMs, slot, oncePerMs, claim, minToken }: AcquireRequest): (string | number)[] {
    const terms = [owner, leaseMs, this.#callId()];
    if (slot === undefined && oncePerMs === undefined && minToken === undefined) return terms;
    return [...terms, slot ?? '', oncePerMs ?? '', claim ?? 'acquire', minToken ?? 0];
  }

  async renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]> {
    if (requests.length === 0) return [];
    const key = requests.length === 1 ? requests[0]?.key : undefined;
    return this.#gateway.call('renew', key, options, async (line) => {
      const answers = new Array<RenewResult>(requests.length).fill('unknown');
      const outcomes = await this.#batches.settle(line, requests, async (batch, keys) => {
        const args = batch.flatMap(({ item }) => [item.owner, item.leaseMs, item.atLeastMs ?? 0, item.token]);
        const answer = await line.run(RENEW, keys, args);
        for (const [i, { index }] of batch.entries()) answers[index] = answer[i] === 'k' ? 'ok' : 'lost';
      });
      const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
      if (failed.length === outcomes.length) throw failed[0]?.reason;
      return answers;
    });
  }

  release(request: ReleaseRequest, options?: CallOptions): Promise<boolean> {
    return this.#gateway.call('release', request.key, options, (line) => this.#release(line, request));
  }

  async inspect(request: InspectRequest, options?: CallOptions): Promise<readonly LockRecord[]> {
    const { key, limit = Number.POSITIVE_INFINITY } = request;
    if (limit <= 0) return [];
    if (key !== undefined)
      return this.#gateway.call('inspect', key, options, (line) => this.#read(line, [key]));
    const found: LockRecord[] = [];
    const names = await this.#allNames('inspect', options);
    for (let at = 0, size = 0; at < names.length && found.length < limit; at += size) {
      size = Math.min(PAGE, limit - found.length);
      const page = names.slice(at, at + size);
      found.push(
        ...(await this.#gateway.call('inspect', undefined, options, (line) => this.#read(line, page))),
      );
    }
    return found;
  }

  forceRelease(key: string, options?: CallOptions): Promise<boolean> {
    return this.#gateway.call('forceRelease', key, options, async (line) => {
      const { lock, record } = line.keys.keysOf(key);
      return (await line.run(FORCE, [lock, record], [])) === 'yes';
    });
  }

  /**
   * Redis forgets by itself: a record a day after its lock was free, or when its slot can not be asked for any more. This
   * is for those who do not want to wait, and reads every key of the server.
   */
  async purge({ idleMs }: { readonly idleMs: number }, options?: CallOptions): Promise<number> {
    if (this.#settings.client.masters === undefined) return 0;
    const names = await this.#allNames('purge', options);
    let gone = 0;
    for (let at = 0; at < names.length; at += PAGE) {
      const page = names.slice(at, at + PAGE);
      await this.#gateway.call('purge', undefined, options, async (line) => {
        await this.#batches.all(
          line,
          page.map((key) => ({ key })),
          async (_batch, keys) => {
            const count = Number(await line.run(PURGE, keys, [idleMs]));
            gone += count;
          },
        );
      });
    }
    return gone;
  }

  async close(): Promise<void> {
    this.#gateway.close();
  }

  async #release(line: Line, { key, owner, keepMs = 0, slot }: ReleaseRequest): Promise<boolean> {
    const { lock, record } = line.keys.keysOf(key);
    const done = slot === undefined ? [] : [slot];
    return (await line.run(RELEASE, [lock, record], [owner, this.#callId(), keepMs, ...done])) === 'yes';
  }

  /** Every call has another id, every sending of a call the same one. */
  #callId(): string {
    this.#calls += 1;
    return `${this.#self}.${this.#calls.toString(36)}`;
  }

  async #confirm(
    line: Line,
    { key, owner }: AcquireRequest,
    { count, timeoutMs }: NonNullable<Settings['replicas']>,
  ): Promise<void> {
    // Without it they were refused at the start.
    const confirmed = Number(await this.#settings.client.wait?.(count, timeoutMs));
    if (confirmed >= count) return;
    await this.#release(line, { key, owner });
    throw new LockStoreError(
      `acquire of ${JSON.stringify(key)} failed on Redis: ${confirmed} of ${count} replicas confirmed it within ` +
        `${timeoutMs} ms, so it was given back. Are they connected?`,
      { operation: 'acquire', key },
    );
  }

  /** Many steps, each with the time of a call: a server with millions of keys takes a while. */
  async #allNames(operation: 'inspect' | 'purge', options: CallOptions | undefined): Promise<string[]> {
    const { masters, library } = this.#settings.client;
    if (masters === undefined)
      throw new LockOptionsError(
        `${library} can not list the keys of a cluster. Name the key, or use a cluster client of ioredis or node-redis.`,
      );
    const step = <T>(work: (line: Line) => Promise<T>): Promise<T> =>
      this.#gateway.call(operation, undefined, options, work);
    return listNames(step, await step(() => masters()));
  }

  async #read(line: Line, names: readonly string[]): Promise<readonly LockRecord[]> {
    const found = new Array<LockRecord | undefined>(names.length);
    await this.#batches.all(
      line,
      names.map((key) => ({ key })),
      async (batch, keys) => {
        const answer = await line.run(INSPECT, keys, []);
        const records = readRecords(
          batch.map(({ item }) => item.key),
          answer,
        );
        const byName = new Map(records.map((record) => [record.key, record]));
        for (const { item, index } of batch) found[index] = byName.get(item.key);
      },
    );
    return found.filter((record) => record !== undefined);
  }
}
