import assert from 'node:assert/strict';
import type {
  AcquireRequest,
  Granted,
  LockProvider,
  LockRecord,
  Refused,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from '../../provider/lock-provider.js';
import type { ContractOptions } from './options.js';
import { checkSane } from './sane.js';
import { show } from './show.js';
import { Stage } from './stage.js';

/** The machine was too slow to tell: what was asked about had ended when the answer came. */
export class TooSlowError extends Error {}

/** A grant, with what the case knows of its times. The store's acquisition lies between the two instants. */
export interface Taken {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  readonly granted: Granted;
  readonly client: LockProvider;
  readonly sentAt: number;
  readonly answeredAt: number;
  /** Live for certain before this. */
  liveUntil: number;
  /** Over for certain from this on. */
  overBy: number;
}

/** Longer than any case takes, however slow the machine. */
export const LONG_LEASE_MS = 600_000;

/** `'unknown'` is an answer that asks for patience, but not for ever. */
const UNKNOWN_MAX = 50;

/**
 * The verbs of a provider as a case calls them: each bounds the wait for its answer and holds the answer to
 * what every answer must keep.
 *
 * What the machine's speed decides is never asserted: that a lease is live is claimed only up to
 * *sent + lease*, that it is over only from *answered + lease* on.
 */
export class Scene extends Stage {
  readonly #taken: Taken[] = [];

  static async open(options: ContractOptions, prefix: string, slower: number): Promise<Scene> {
    const client = await options.open();
    try {
      return new Scene({ options, prefix, slower, client, abilities: await client.abilities() });
    } catch (error) {
      await client.close?.();
      throw error;
    }
  }

  /** Gives back what is still held and closes every client. */
  override async close(): Promise<void> {
    const giveBack = async ({ client, key, owner }: Taken): Promise<unknown> =>
      this.answer(`release of ${show(key)}`, client.release({ key, owner }));
    // Whether a release succeeds is a matter of the cases, not of tidying up.
    await Promise.allSettled(this.#taken.map(giveBack));
    await super.close();
  }

  /** Lets the lease of a grant run out. */
  async outlast(taken: Taken): Promise<void> {
    await this.passUntil(taken.overBy);
  }

  /** One attempt; its answer is sane, whatever it is. */
  async attempt(
    key: string,
    request: Partial<AcquireRequest> = {},
    client: LockProvider = this.client,
  ): Promise<Taken | Refused> {
    const full = { key, owner: this.owner(), leaseMs: LONG_LEASE_MS, ...request };
    const sentAt = this.now();
    const result = await this.answer(`acquire of ${show(key)}`, client.acquire(full));
    const answeredAt = this.now();
    checkSane(result, full);
    if (!result.ok) return result;
    const taken: Taken = {
      key,
      owner: full.owner,
      token: result.token,
      granted: result,
      client,
      sentAt,
      answeredAt,
      liveUntil: sentAt + full.leaseMs,
      overBy: answeredAt + full.leaseMs + this.unitMs,
    };
    this.#taken.push(taken);
    return taken;
  }

  /** Must be granted. */
  async take(key: string, request?: Partial<AcquireRequest>, client?: LockProvider): Promise<Taken> {
    const result = await this.attempt(key, request, client);
    if ('owner' in result) return result;
    throw new assert.AssertionError({
      message: `Expected ${show(key)} to be granted, found it refused: ${show(result)}.`,
    });
  }

  /** Must be refused, as long as `until` has not come for certain. */
  async refused(
    key: string,
    expected: {
      readonly reason?: 'held' | 'slot';
      readonly request?: Partial<AcquireRequest>;
      readonly client?: LockProvider;
      readonly until?: number;
    } = {},
  ): Promise<Refused> {
    const { reason = 'held', request, client, until = Number.POSITIVE_INFINITY } = expected;
    const result = await this.attempt(key, request, client);
    if ('owner' in result) {
      if (this.now() >= until) throw new TooSlowError(`Could not ask about ${show(key)} before it was free.`);
      throw new assert.AssertionError({
        message: `Expected ${show(key)} to be refused (${reason}), found it granted with token ${result.token}.`,
      });
    }
    if (result.reason !== reason && this.now() < until) {
      assert.equal(
        result.reason,
        reason,
        `Expected ${show(key)} to be refused as '${reason}', found '${result.reason}'.`,
      );
    }
    return result;
  }

  /** Renews one grant, asking again as long as the store can not tell. */
  async renew(
    taken: Taken,
    leaseMs: number,
    more: { readonly atLeastMs?: number } = {},
  ): Promise<RenewResult> {
    const sentAt = this.now();
    const [result] = await this.renewMany([{ ...pick(taken), leaseMs, ...more }], taken.client);
    if (result === 'ok') {
      const least = more.atLeastMs ?? 0;
      taken.liveUntil = Math.max(taken.liveUntil, sentAt + leaseMs, taken.sentAt + least);
      taken.overBy = Math.max(
        taken.overBy,
        this.now() + leaseMs + this.unitMs,
        taken.answeredAt + least + this.unitMs,
      );
    }
    return result as RenewResult;
  }

  async renewed(taken: Taken, leaseMs: number, more?: { readonly atLeastMs?: number }): Promise<void> {
    const result = await this.renew(taken, leaseMs, more);
    if (result === 'ok') return;
    if (this.now() >= taken.liveUntil) throw new TooSlowError(`Could not renew ${show(taken.key)} in time.`);
    assert.equal(
      result,
      'ok',
      `Expected the live grant of ${show(taken.key)} to be renewed, found '${result}'.`,
    );
  }

  async notRenewed(
    taken: Taken,
    leaseMs: number = LONG_LEASE_MS,
    more?: { readonly atLeastMs?: number },
  ): Promise<void> {
    const result = await this.renew(taken, leaseMs, more);
    assert.equal(
      result,
      'lost',
      `Expected renewing ${show(taken.key)}, which is not held, to answer 'lost', found '${result}'.`,
    );
  }

  /** One call a round; what came back `'unknown'` is asked for again. */
  async renewMany(
    requests: readonly RenewRequest[],
    client: LockProvider = this.client,
  ): Promise<readonly RenewResult[]> {
    const results: RenewResult[] = requests.map(() => 'unknown');
    let open = requests.map((_, index) => index);
    for (let round = 0; open.length > 0; round += 1) {
      assert.ok(
        round < UNKNOWN_MAX,
        `Expected an answer to renewMany, found 'unknown' ${UNKNOWN_MAX} times.`,
      );
      if (round > 0) await this.sleep(10);
      const asked = open.map((index) => requests[index] as RenewRequest);
      const answers = await this.answer(`renewMany of ${asked.length}`, client.renewMany(asked));
      assert.equal(
        answers.length,
        asked.length,
        `Expected as many answers as requests, ${asked.length}, found ${answers.length}.`,
      );
      open.forEach((index, i) => {
        const answer = answers[i] as RenewResult;
        assert.ok(
          answer === 'ok' || answer === 'lost' || answer === 'unknown',
          `Expected 'ok', 'lost' or 'unknown', found ${show(answer)}.`,
        );
        results[index] = answer;
      });
      open = open.filter((index) => results[index] === 'unknown');
    }
    return results;
  }

  async release(taken: Taken, more: Partial<ReleaseRequest> = {}): Promise<boolean> {
    const { key, owner, client } = taken;
    const result = await this.answer(`release of ${show(key)}`, client.release({ key, owner, ...more }));
    assert.equal(typeof result, 'boolean', `Expected true or false from release, found ${show(result)}.`);
    return result;
  }

  async released(taken: Taken, more?: Partial<ReleaseRequest>): Promise<void> {
    if (await this.release(taken, more)) return;
    if (this.now() >= taken.liveUntil)
      throw new TooSlowError(`Could not release ${show(taken.key)} in time.`);
    assert.fail(`Expected release of the live grant of ${show(taken.key)} to answer true, found false.`);
  }

  async notReleased(taken: Taken, more?: Partial<ReleaseRequest>): Promise<void> {
    const result = await this.release(taken, more);
    assert.equal(
      result,
      false,
      `Expected release of ${show(taken.key)}, not held, to answer false, found true.`,
    );
  }

  async forceRelease(key: string, client: LockProvider = this.client): Promise<boolean> {
    return this.answer(`forceRelease of ${show(key)}`, client.forceRelease(key));
  }

  /** The record of a key; `undefined` where the store keeps none of a free one. */
  async inspect(key: string, client: LockProvider = this.client): Promise<LockRecord | undefined> {
    const records = await this.answer(`inspect of ${show(key)}`, client.inspect({ key }));
    assert.ok(records.length <= 1, `Expected one record of ${show(key)} at most, found ${records.length}.`);
    const record = records[0];
    if (record !== undefined) {
      assert.equal(
        record.key,
        key,
        `Expected the record of ${show(key)}, found that of ${show(record.key)}.`,
      );
    }
    return record;
  }
}

/** What renewing needs of a grant. */
export function pick({ key, owner, token }: Taken): { key: string; owner: string; token: number } {
  return { key, owner, token };
}
