import { LockOptionsError } from '../../provider/errors.js';
import {
  type AcquireRequest,
  type AcquireResult,
  type LockProvider,
  type LockRecord,
  type ProviderAbilities,
  type RenewRequest,
  type RenewResult,
  SLOT_AHEAD_MS,
  SLOT_MEMORY_MS,
} from '../../provider/lock-provider.js';
import { nodeRuntime, type Runtime } from '../../provider/runtime.js';
import { refuseUnknown } from '../../provider/values.js';
import type { MemoryRecord, MemoryStore } from './store.js';

export interface MemoryProviderOptions {
  /** Share the records with other memory providers of this process. Default: records of its own. */
  readonly store?: MemoryStore | undefined;
  /** Say `true` to have it with NODE_ENV=production too, where it is refused: it excludes no other process. */
  readonly allowInProduction?: boolean | undefined;
  /** Default: Node's clocks. */
  readonly runtime?: Runtime | undefined;
}

const OPTION_NAMES: ReadonlySet<string> = new Set<keyof MemoryProviderOptions>([
  'store',
  'allowInProduction',
  'runtime',
]);

/**
 * Locks within one process: for tests and for trying things out. Other processes have locks of their own,
 * so it is refused with NODE_ENV=production unless that is said to be meant.
 *
 * Its clock is the runtime's: the monotonic one for ends, the wall clock for slots and tokens.
 *
 * @throws LockOptionsError in production
 */
export function memoryProvider(options: MemoryProviderOptions = {}): LockProvider {
  refuseUnknown(options, OPTION_NAMES, 'memoryProvider');
  if (process.env.NODE_ENV === 'production' && options.allowInProduction !== true) {
    throw new LockOptionsError(
      'memoryProvider() excludes nobody but this process, and NODE_ENV is "production". ' +
        'Use a store that the instances share, or say memoryProvider({ allowInProduction: true }) if one process is all there is.',
    );
  }
  return new MemoryProvider(options.store ?? new Map(), options.runtime ?? nodeRuntime);
}

class MemoryProvider implements LockProvider {
  readonly name = 'memory';
  readonly #records: MemoryStore;
  readonly #runtime: Runtime;

  constructor(records: MemoryStore, runtime: Runtime) {
    this.#records = records;
    this.#runtime = runtime;
  }

  async abilities(): Promise<ProviderAbilities> {
    return { multiProcess: false, serverClock: false, fencing: true, slots: true, inspect: true };
  }

  async acquire(request: AcquireRequest): Promise<AcquireResult> {
    const { key, owner, leaseMs, claim = 'acquire', minToken = 0 } = request;
    const now = this.#runtime.monotonic();
    const wall = this.#runtime.wall();
    const last = this.#records.get(key);
    const leftMs = last !== undefined && last.until > now ? Math.ceil(last.until - now) : undefined;
    const slot = request.oncePerMs === undefined ? request.slot : floorTo(wall, request.oncePerMs);
    if (slot !== undefined && !isSlotFree(slot, last?.slot, wall))
      return { ok: false, reason: 'slot', leftMs };
    if (leftMs !== undefined) return { ok: false, reason: 'held', leftMs };

    const token = Math.max((last?.token ?? 0) + 1, Math.floor(wall * 1000), minToken);
    this.#records.set(key, {
      owner,
      token,
      acquiredAt: now,
      until: now + leaseMs,
      state: 'granted',
      slot: claim === 'acquire' ? later(slot, last?.slot) : last?.slot,
    });
    return { ok: true, token, leftMs: leaseMs, slot };
  }

  async renewMany(requests: readonly RenewRequest[]): Promise<readonly RenewResult[]> {
    const now = this.#runtime.monotonic();
    return requests.map(({ key, owner, leaseMs, atLeastMs = 0 }) => {
      const record = this.#live(key, owner, now);
      if (record === undefined) return 'lost';
      const until = Math.max(record.until, now + leaseMs, record.acquiredAt + atLeastMs);
      this.#records.set(key, { ...record, until });
      return 'ok';
    });
  }

  async release(request: Parameters<LockProvider['release']>[0]): Promise<boolean> {
    const { key, owner, keepMs = 0, slot } = request;
    const now = this.#runtime.monotonic();
    const record = this.#live(key, owner, now);
    if (record === undefined) return false;
    const until = Math.max(now, record.acquiredAt + keepMs);
    this.#records.set(key, { ...record, until, state: 'released', slot: later(slot, record.slot) });
    return true;
  }

  async inspect(request: Parameters<LockProvider['inspect']>[0]): Promise<readonly LockRecord[]> {
    const now = this.#runtime.monotonic();
    const keys = request.key === undefined ? [...this.#records.keys()].sort(byBytes) : [request.key];
    const records = keys.slice(0, request.limit).map((key) => describe(key, this.#records.get(key), now));
    return records.filter((record) => record !== undefined);
  }

  async forceRelease(key: string): Promise<boolean> {
    const now = this.#runtime.monotonic();
    const record = this.#records.get(key);
    if (record === undefined || record.until <= now) return false;
    const token = Math.max(record.token + 1, Math.floor(this.#runtime.wall() * 1000));
    this.#records.set(key, { ...record, token, until: now, state: 'released' });
    return true;
  }

  async purge({ idleMs }: { readonly idleMs: number }): Promise<number> {
    const idleSince = this.#runtime.monotonic() - idleMs;
    const wall = this.#runtime.wall();
    const forgettable = wall - SLOT_MEMORY_MS;
    const before = this.#records.size;
    for (const [key, { until, slot, token }] of this.#records) {
      const isNeeded = (slot !== undefined && slot > forgettable) || token > wall * 1000;
      if (until < idleSince && !isNeeded) this.#records.delete(key);
    }
    return before - this.#records.size;
  }

  #live(key: string, owner: string, now: number): MemoryRecord | undefined {
    const record = this.#records.get(key);
    return record?.state === 'granted' && record.owner === owner && record.until > now ? record : undefined;
  }
}

function isSlotFree(slot: number, last: number | undefined, wall: number): boolean {
  return slot > wall - SLOT_MEMORY_MS && slot <= wall + SLOT_AHEAD_MS && (last === undefined || slot > last);
}

function later(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a;
}

function floorTo(value: number, step: number): number {
  return Math.floor(value / step) * step;
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function describe(key: string, record: MemoryRecord | undefined, now: number): LockRecord | undefined {
  if (record === undefined) return undefined;
  const { owner, token, slot, acquiredAt, until } = record;
  const state = until <= now ? 'free' : record.state === 'granted' ? 'held' : 'kept';
  return {
    key,
    state,
    owner,
    token,
    slot,
    leftMs: Math.max(0, until - now),
    acquiredAgoMs: now - acquiredAt,
  };
}
