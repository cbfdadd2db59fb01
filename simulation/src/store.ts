import type {
  AcquireRequest,
  AcquireResult,
  LockProvider,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from 'joblatch';
import { Audit, type Grant, type StoreTime } from './audit.js';
import { insist } from './invariants.js';
import type { Library } from './library.js';
import { START } from './machine.js';
import type { World } from './world.js';

export interface StoreConfig {
  /** How much faster than true time its clocks run. */
  readonly rate: number;
  /** Whether leases end by its wall clock, as in a database, so that setting the clock moves them. */
  readonly endsOnWall: boolean;
}

type Records = Map<
  string,
  {
    readonly until: number;
    readonly slot: number | undefined;
    readonly token: number;
    readonly state: string;
  }
>;

/**
 * The store that all machines share: the library's own memory provider under a clock of its own, with the audit
 * beside it. Each verb is executed in one step, and its answer is known in the same.
 */
export class Store {
  readonly audit = new Audit();
  up = true;
  /** True time of the last thing that may have held somebody up. */
  lastTrouble = 0;
  readonly #world: World;
  readonly #rate: number;
  readonly #endsOnWall: boolean;
  readonly #owners = new Set<string>();
  #wallOffset = 0;
  readonly #records: Records = new Map();
  readonly #engine: LockProvider;

  constructor(world: World, library: Library, { rate, endsOnWall }: StoreConfig) {
    this.#world = world;
    this.#rate = 1 + rate;
    this.#endsOnWall = endsOnWall;
    this.#engine = library.memory.memoryProvider({
      store: this.#records as never,
      runtime: {
        wall: () => this.now().wall,
        monotonic: () => this.now().ends,
        setTimer: () => {
          throw new Error('the store of the simulation has no timers');
        },
        random: () => {
          throw new Error('the store of the simulation takes no chances');
        },
        instance: 'store',
      },
    });
  }

  now(): StoreTime {
    const sinceStart = this.#world.now * this.#rate;
    const wall = START + sinceStart + this.#wallOffset;
    return { ends: this.#endsOnWall ? wall : sinceStart, wall: Math.floor(wall) };
  }

  /** How long, in true time, until an instant of its clock. */
  trueMsUntil(end: number): number {
    return (end - this.now().ends) / this.#rate;
  }

  setClock(byMs: number): void {
    const before = this.now();
    this.#wallOffset += byMs;
    this.lastTrouble = this.#world.now;
    if (!this.#endsOnWall) return;
    // Put forward it ends leases before their holders' clocks say so; put back it lets them last, or begin again.
    for (const { grant } of this.audit.keys.values()) {
      if (grant === undefined || grant.over) continue;
      if (byMs < 0) grant.stretched = true;
      else if (grant.until > before.ends) grant.revoked = 'the clock was put forward';
    }
  }

  forgetAll(): void {
    for (const key of [...this.audit.keys.keys()]) this.forget(key);
  }

  forget(key: string): void {
    this.audit.forget(key);
    this.#records.delete(key);
  }

  /** A new acquisition is about to be asked for. */
  introduce(owner: string): void {
    insist(!this.#owners.has(owner), 'owners', () => `two acquisitions have the owner id ${owner}`);
    this.#owners.add(owner);
  }

  async acquire(request: AcquireRequest): Promise<{ answer: AcquireResult; grant: Grant | undefined }> {
    const now = this.now();
    const answer = await this.#engine.acquire(request);
    return { answer, grant: this.audit.acquired(request, answer, now) };
  }

  async renewMany(requests: readonly RenewRequest[]): Promise<readonly RenewResult[]> {
    const now = this.now();
    const answers = await this.#engine.renewMany(requests);
    requests.forEach((request, i) => {
      this.audit.renewed(request, answers[i] as RenewResult, this.#records.get(request.key)?.until, now);
    });
    return answers;
  }

  async release(request: ReleaseRequest): Promise<boolean> {
    const now = this.now();
    const answer = await this.#engine.release(request);
    this.audit.released(request, answer, this.#records.get(request.key), now);
    return answer;
  }

  async forceRelease(key: string): Promise<void> {
    const now = this.now();
    this.audit.forced(key, await this.#engine.forceRelease(key), now);
  }

  async purge(idleMs: number): Promise<void> {
    const now = this.now();
    const before = new Set(this.#records.keys());
    await this.#engine.purge({ idleMs });
    for (const key of before) if (!this.#records.has(key)) this.audit.purged(key, idleMs, now);
  }
}
