import assert from 'node:assert/strict';
import type { LockProvider, ProviderAbilities } from '../../provider/lock-provider.js';
import { createOwnerId, nodeRuntime, type Runtime } from '../../provider/runtime.js';
import type { ContractOptions } from './options.js';

const REAL_LEASE_MS = 100;
const DRIVEN_LEASE_MS = 1_000;
const REAL_UNIT_MS = 5;
const ANSWER_MS = 10_000;

/** What a stage is set up with. */
export interface Setting {
  readonly options: ContractOptions;
  /** Starts every key. */
  readonly prefix: string;
  /** By how much the short lease is longer than usual, on a machine that was too slow for it. */
  readonly slower: number;
  readonly client: LockProvider;
  readonly abilities: ProviderAbilities;
}

/** Clients of one store, keys of one case, a clock: what a case is played with. */
export class Stage {
  readonly options: ContractOptions;
  readonly abilities: ProviderAbilities;
  /** The client that is used unless another one is named. */
  readonly client: LockProvider;
  /** A short lease that the store keeps reliably. */
  readonly leaseMs: number;
  /** How exact a time left can be. */
  readonly unitMs: number;
  readonly runtime: Runtime;
  readonly notes: string[] = [];
  readonly #prefix: string;
  readonly #clients: LockProvider[];
  #driven = 0;
  #fresh = 0;

  constructor({ options, prefix, slower, client, abilities }: Setting) {
    const { limits = {}, clock } = options;
    const shortest = clock === undefined ? REAL_LEASE_MS : DRIVEN_LEASE_MS;
    this.options = options;
    this.#prefix = prefix;
    this.client = client;
    this.#clients = [client];
    this.abilities = abilities;
    this.runtime = options.runtime ?? nodeRuntime;
    this.leaseMs = slower * Math.max(limits.shortestLeaseMs ?? 0, shortest);
    this.unitMs = limits.timeUnitMs ?? (clock === undefined ? REAL_UNIT_MS : 0);
  }

  /** Closes every client. */
  async close(): Promise<void> {
    await Promise.all(this.#clients.map(async (client) => client.close?.()));
  }

  /** Something that a reader of the results may want to see. */
  note(text: string): void {
    this.notes.push(text);
  }

  /** One more client of the store; closed with the scene. */
  async open(opened: LockProvider | Promise<LockProvider> = this.options.open()): Promise<LockProvider> {
    const client = await opened;
    this.#clients.push(client);
    return client;
  }

  /** A key of this case alone. */
  key(label = 'key'): string {
    return this.#prefix + label;
  }

  /** A key that nothing else in this case has. */
  freshKey(): string {
    this.#fresh += 1;
    return this.key(`fresh-${this.#fresh}`);
  }

  owner(): string {
    return createOwnerId(this.runtime);
  }

  /** The case's own clock, in ms: real time, or the sum of what it let pass. */
  now(): number {
    return this.options.clock === undefined ? this.runtime.monotonic() : this.#driven;
  }

  /** Lets at least so many milliseconds pass for the store. */
  async pass(ms: number): Promise<void> {
    const wait = Math.ceil(Math.max(0, ms));
    if (this.options.clock === undefined) return this.sleep(wait);
    await this.options.clock.advance(wait);
    this.#driven += wait;
  }

  async passUntil(instant: number): Promise<void> {
    await this.pass(instant - this.now());
  }

  /** Real time, whatever clock the store has. */
  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.runtime.setTimer(resolve, ms);
    });
  }

  /** Awaits an answer of the provider, but not for ever. */
  async answer<T>(what: string, call: Promise<T>): Promise<T> {
    const limit = this.options.limits?.answerMs ?? ANSWER_MS;
    let cancel = (): void => {};
    const late = new Promise<never>((_, reject) => {
      const giveUp = (): void =>
        reject(
          new assert.AssertionError({
            message: `Expected an answer to ${what} within ${limit} ms, found none.`,
          }),
        );
      cancel = this.runtime.setTimer(giveUp, limit);
    });
    try {
      return await Promise.race([call, late]);
    } finally {
      cancel();
    }
  }
}
