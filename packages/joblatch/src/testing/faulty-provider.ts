import { signalOf } from '../provider/abandoning.js';
import { LockStoreError, type StoreOperation } from '../provider/errors.js';
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
} from '../provider/lock-provider.js';
import { nodeRuntime, type Runtime } from '../provider/runtime.js';
import type { Fault } from './fault.js';
import { injectFault } from './inject-fault.js';

/** A verb of the provider that can be made to fail. */
export type FaultyVerb =
  | 'abilities'
  | 'acquire'
  | 'renewMany'
  | 'release'
  | 'guard'
  | 'inspect'
  | 'forceRelease'
  | 'purge';

export interface FaultyProviderOptions {
  /** For delays, and for faults that happen with a probability. Default: Node's. */
  readonly runtime?: Runtime | undefined;
}

/** A provider whose calls fail as the test says: a broken network in front of a store that works. */
export interface FaultyProvider extends LockProvider {
  /** Lets the next call of a verb fail, or the next few; faults that were set earlier come first. */
  failNext(verb: FaultyVerb, fault: Fault, times?: number): void;
  /**
   * Lets every call of these verbs fail with this probability, from 0 to 1, as long as nothing set by
   * `failNext` is waiting. Returns a function that ends it. Of several the first that hits counts.
   */
  failWith(verbs: FaultyVerb | readonly FaultyVerb[], probability: number, fault: Fault): () => void;
  /** Ends all faults that are set; calls under way end as their fault says. */
  heal(): void;
  /** How many calls of a verb there were. */
  calls(verb: FaultyVerb): number;
  /** How many of them met a fault. */
  faults(verb: FaultyVerb): number;
}

/**
 * Wraps a provider with faults; without any it is the provider itself.
 *
 * ```ts
 * const provider = faultyProvider(memoryProvider());
 * provider.failNext('acquire', fault.replyLost()); // granted, but the caller sees an error
 * provider.failWith(['acquire', 'renewMany', 'release'], 0.1, fault.error());
 * ```
 */
export function faultyProvider(inner: LockProvider, options: FaultyProviderOptions = {}): FaultyProvider {
  return new Faulty(inner, options.runtime ?? nodeRuntime);
}

interface Rule {
  readonly verbs: readonly FaultyVerb[];
  readonly probability: number;
  readonly fault: Fault;
}

const OPERATIONS: Readonly<Record<FaultyVerb, StoreOperation>> = {
  abilities: 'connect',
  acquire: 'acquire',
  renewMany: 'renew',
  release: 'release',
  guard: 'guard',
  inspect: 'inspect',
  forceRelease: 'forceRelease',
  purge: 'purge',
};

class Faulty implements FaultyProvider {
  readonly name: string;
  readonly #inner: LockProvider;
  readonly #runtime: Runtime;
  readonly #next = new Map<FaultyVerb, Fault[]>();
  readonly #rules = new Set<Rule>();
  readonly #calls = new Map<FaultyVerb, number>();
  readonly #faults = new Map<FaultyVerb, number>();

  constructor(inner: LockProvider, runtime: Runtime) {
    this.name = inner.name;
    this.#inner = inner;
    this.#runtime = runtime;
    const guard = inner.guard?.bind(inner);
    if (guard) {
      this.guard = async (request, transaction, callOptions) =>
        this.#call('guard', callOptions, (o) => guard(request, transaction, o));
    }
  }

  failNext(verb: FaultyVerb, fault: Fault, times = 1): void {
    const waiting = this.#next.get(verb) ?? [];
    for (let i = 0; i < times; i += 1) waiting.push(fault);
    this.#next.set(verb, waiting);
  }

  failWith(verbs: FaultyVerb | readonly FaultyVerb[], probability: number, fault: Fault): () => void {
    const rule = { verbs: typeof verbs === 'string' ? [verbs] : verbs, probability, fault };
    this.#rules.add(rule);
    return () => void this.#rules.delete(rule);
  }

  heal(): void {
    this.#next.clear();
    this.#rules.clear();
  }

  calls(verb: FaultyVerb): number {
    return this.#calls.get(verb) ?? 0;
  }

  faults(verb: FaultyVerb): number {
    return this.#faults.get(verb) ?? 0;
  }

  async abilities(options?: CallOptions): Promise<ProviderAbilities> {
    return this.#call('abilities', options, (o) => this.#inner.abilities(o));
  }

  async acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult> {
    return this.#call('acquire', options, (o) => this.#inner.acquire(request, o));
  }

  async renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]> {
    return this.#call('renewMany', options, (o) => this.#inner.renewMany(requests, o));
  }

  async release(request: ReleaseRequest, options?: CallOptions): Promise<boolean> {
    return this.#call('release', options, (o) => this.#inner.release(request, o));
  }

  async inspect(request: InspectRequest, options?: CallOptions): Promise<readonly LockRecord[]> {
    return this.#call('inspect', options, (o) => this.#inner.inspect(request, o));
  }

  async forceRelease(key: string, options?: CallOptions): Promise<boolean> {
    return this.#call('forceRelease', options, (o) => this.#inner.forceRelease(key, o));
  }

  async purge(request: { readonly idleMs: number }, options?: CallOptions): Promise<number> {
    return this.#call('purge', options, (o) => this.#inner.purge(request, o));
  }

  /** Absent where it is absent inside. */
  readonly guard?: NonNullable<LockProvider['guard']>;

  async close(): Promise<void> {
    await this.#inner.close?.();
  }

  #call<T>(
    verb: FaultyVerb,
    options: CallOptions | undefined,
    effect: (options?: CallOptions) => Promise<T>,
  ): Promise<T> {
    this.#calls.set(verb, this.calls(verb) + 1);
    const fault = this.#pick(verb);
    if (fault === undefined) return effect(options);
    this.#faults.set(verb, this.faults(verb) + 1);
    const defaultError = (): Error =>
      new LockStoreError(`A fault was injected into ${verb}.`, { operation: OPERATIONS[verb] });
    return injectFault(this.#runtime, fault, signalOf(options), defaultError, () => effect());
  }

  #pick(verb: FaultyVerb): Fault | undefined {
    const next = this.#next.get(verb)?.shift();
    if (next !== undefined) return next;
    for (const { verbs, probability, fault } of this.#rules) {
      if (verbs.includes(verb) && this.#runtime.random() < probability) return fault;
    }
    return undefined;
  }
}
