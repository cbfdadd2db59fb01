import type {
  AcquireRequest,
  AcquireResult,
  CallOptions,
  LockProvider,
  ProviderAbilities,
  ReleaseRequest,
  RenewRequest,
  RenewResult,
} from 'joblatch';
import type { Grant } from './audit.js';
import type { Machine } from './machine.js';
import type { Random } from './random.js';
import type { Counters } from './sometimes.js';
import type { Store } from './store.js';
import type { World } from './world.js';

/** How often what goes wrong, for each request. */
export interface Weather {
  readonly fastMs: number;
  readonly slow: number;
  readonly slowMs: number;
  readonly drop: number;
  readonly lose: number;
  /** Of what is lost, how much is lost without a word. */
  readonly silent: number;
  readonly locked: number;
  readonly twice: number;
  /** The process freezes just when it has sent something, for up to so long. */
  readonly freeze: number;
  readonly freezeMs: number;
}

export const CALM: Weather = {
  fastMs: 4,
  slow: 0,
  slowMs: 0,
  drop: 0,
  lose: 0,
  silent: 0,
  locked: 0,
  twice: 0,
  freeze: 0,
  freezeMs: 0,
};

/** The longest that a request and its answer take if nothing goes wrong. */
export const ROUND_TRIP_MS = 2 * CALM.fastMs;

/** What the process is told of its calls, before the library hears of it. */
export interface Wire {
  sending(verb: Verb): void;
  granted(request: AcquireRequest, grant: Grant, outwardMs: number): void;
  answeredAcquire(
    request: AcquireRequest,
    answer: AcquireResult,
    grant: Grant | undefined,
    sentAt: number,
  ): void;
  sendingRenewal(requests: readonly RenewRequest[]): void;
  renewalIsOver(
    requests: readonly RenewRequest[],
    answers: readonly RenewResult[] | undefined,
    sentAt: number,
  ): void;
  sendingRelease(request: ReleaseRequest): void;
  answeredRelease(request: ReleaseRequest, wasHeld: boolean, sentAt: number): void;
  readonly timeoutMs: number;
  trace(text: () => string): void;
}

export type Verb = 'acquire' | 'renew' | 'release';

/** The way from one process to the store, with everything that happens to messages there. */
export class Network implements LockProvider {
  readonly name = 'simulated';
  weather: Weather;
  down: 'refusing' | 'silent' | undefined;
  /** True time of the last thing that may have held somebody up. */
  lastTrouble = 0;
  /** Of those, the last that may have made a release fail. */
  lastReleaseTrouble = 0;
  calls = 0;
  readonly #world: World;
  readonly #store: Store;
  readonly #machine: Machine;
  readonly #chance: Random;
  readonly #counters: Counters;
  readonly #wire: Wire;
  #lastArrival = 0;

  constructor(
    world: World,
    store: Store,
    machine: Machine,
    chance: Random,
    counters: Counters,
    weather: Weather,
    wire: Wire,
  ) {
    this.#world = world;
    this.#store = store;
    this.#machine = machine;
    this.#chance = chance;
    this.#counters = counters;
    this.weather = weather;
    this.#wire = wire;
  }

  heal(): void {
    this.down = undefined;
    this.weather = CALM;
  }

  async abilities(): Promise<ProviderAbilities> {
    return { multiProcess: true, serverClock: true, fencing: true, slots: true, inspect: false };
  }

  acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult> {
    const sentAt = this.#machine.monotonic();
    this.#store.introduce(request.owner);
    this.#wire.trace(() => `asks for ${request.key} for ${request.leaseMs} ms${slotOf(request)}`);
    let granted: Grant | undefined;
    return this.#call<AcquireResult>('acquire', options, {
      execute: async (outwardMs) => {
        const { answer, grant } = await this.#store.acquire(request);
        granted = grant;
        if (grant !== undefined) this.#wire.granted(request, grant, outwardMs);
        return answer;
      },
      locked: () => ({ ok: false, reason: 'held' }),
      settled: (answer) => {
        if (answer !== undefined) this.#wire.answeredAcquire(request, answer, granted, sentAt);
      },
    });
  }

  renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]> {
    const sentAt = this.#machine.monotonic();
    this.#wire.sendingRenewal(requests);
    this.#wire.trace(
      () => `renews ${requests.map(({ key, leaseMs }) => `${key} for ${leaseMs} ms`).join(', ')}`,
    );
    return this.#call<readonly RenewResult[]>('renew', options, {
      execute: () => this.#store.renewMany(requests),
      locked: async () => {
        const spared = this.#chance.int(0, requests.length - 1);
        const others = requests.filter((_, i) => i !== spared);
        const answers = others.length === 0 ? [] : await this.#store.renewMany(others);
        return [...answers.slice(0, spared), 'unknown', ...answers.slice(spared)];
      },
      settled: (answers) => this.#wire.renewalIsOver(requests, answers, sentAt),
    });
  }

  release(request: ReleaseRequest, options?: CallOptions): Promise<boolean> {
    const sentAt = this.#machine.monotonic();
    this.#wire.sendingRelease(request);
    this.#wire.trace(
      () => `releases ${request.key}${request.keepMs ? `, to be kept for ${request.keepMs} ms` : ''}`,
    );
    return this.#call<boolean>('release', options, {
      execute: () => this.#store.release(request),
      settled: (wasHeld) => {
        if (wasHeld !== undefined) this.#wire.answeredRelease(request, wasHeld, sentAt);
      },
    });
  }

  async inspect(): Promise<never[]> {
    return [];
  }

  async forceRelease(): Promise<boolean> {
    throw new Error('no process of the simulation forces a release');
  }

  async purge(): Promise<number> {
    throw new Error('no process of the simulation purges');
  }

  trouble(ms: number, verb?: Verb): void {
    const until = this.#world.now + ms;
    this.lastTrouble = Math.max(this.lastTrouble, until);
    if (verb === undefined || verb === 'release')
      this.lastReleaseTrouble = Math.max(this.lastReleaseTrouble, until);
  }

  #latency(verb: Verb): number {
    const { fastMs, slow, slowMs } = this.weather;
    if (!this.#chance.chance(slow)) return this.#chance.ms(0.25, fastMs);
    const ms = this.#chance.ms(fastMs, slowMs);
    this.trouble(ms, verb);
    return ms;
  }

  #call<T>(verb: Verb, options: CallOptions | undefined, call: Call<T>): Promise<T> {
    this.calls += 1;
    try {
      this.#wire.sending(verb);
    } catch {
      // It is kept, and ends the seed after this step. As an error here it would be tried again, in the same step, for ever.
      return new Promise(() => {});
    }
    return new Promise<T>((resolve, reject) => {
      let open = true;
      const settle = (answer: T | undefined, end: () => void): void => {
        if (!open) return;
        open = false;
        call.settled(answer);
        end();
      };
      const enter = (ms: number, answer: T | undefined, end: () => void): void => {
        this.#world.after(ms, () => this.#machine.enter(() => settle(answer, end)));
      };
      /** The answer will not come: an error says so, or nothing does. */
      const lose = (what: 'request dropped' | 'reply lost'): void => {
        const silent = this.down === 'silent' || this.#chance.chance(this.weather.silent);
        this.#counters.hit(silent ? `${what} without a word` : `${what} with an error`);
        const ms = this.#chance.ms(0.25, 300);
        this.trouble(silent ? 2 * this.#wire.timeoutMs : ms, verb);
        if (!silent) enter(ms, undefined, () => reject(new Error('the connection was reset')));
      };

      if (this.down === 'refusing') {
        this.#counters.hit('request refused at the door');
        enter(0.5, undefined, () => reject(new Error('connect ECONNREFUSED')));
        return;
      }
      if (this.#chance.chance(this.weather.freeze)) {
        this.#counters.hit('process paused just after it had sent something');
        this.#machine.pause(this.#chance.ms(1, this.weather.freezeMs));
      }
      const outwardMs = this.#latency(verb);
      const arrival = this.#world.now + outwardMs;
      if (arrival < this.#lastArrival) this.#counters.hit('requests of one machine overtook each other');
      this.#lastArrival = Math.max(this.#lastArrival, arrival);
      if (outwardMs > this.#wire.timeoutMs) this.#counters.hit('request delayed beyond the time-out');
      const arrive = this.#world.at(arrival, () => {
        if (this.down || !this.#store.up || this.#chance.chance(this.weather.drop))
          return lose('request dropped');
        this.#execute(verb, call, outwardMs, (answer) => {
          if (this.down || !this.#store.up || this.#chance.chance(this.weather.lose))
            return lose('reply lost');
          enter(this.#latency(verb), answer, () => resolve(answer));
        });
      });
      // Some providers stop when they are told that nobody waits; what they have sent can not be called back.
      if (this.#chance.chance(0.3)) {
        options?.signal?.addEventListener('abort', () => {
          if (!open) return;
          this.#counters.hit('provider gave up at the signal');
          if (this.#world.now < arrival && this.#chance.chance(0.5)) this.#world.cancel(arrive);
          settle(undefined, () => reject(options.signal?.reason));
        });
      }
    });
  }

  #execute<T>(verb: Verb, call: Call<T>, outwardMs: number, reply: (answer: T) => void): void {
    if (call.locked !== undefined && this.#chance.chance(this.weather.locked)) {
      this.#counters.hit('record locked by somebody else');
      this.trouble(0, verb);
      void Promise.resolve(call.locked()).then(reply);
      return;
    }
    void call.execute(outwardMs).then(reply);
    // A driver that resends what it has no answer to. Not an acquire: it would be refused by its own grant.
    if (verb !== 'acquire' && this.#chance.chance(this.weather.twice)) {
      this.#world.after(this.#chance.ms(0, 5_000), () => {
        if (!this.#store.up) return;
        this.#counters.hit('request applied twice');
        void call.execute(outwardMs);
      });
    }
  }
}

interface Call<T> {
  /** Executes at the store, in this step. */
  execute(outwardMs: number): Promise<T>;
  /** What the store says when somebody else has the record locked; undefined: it waits for it. */
  locked?: () => T | Promise<T>;
  /** The library is about to hear of it: of the answer, or of an error. */
  settled(answer: T | undefined): void;
}

function slotOf({ slot, oncePerMs }: AcquireRequest): string {
  if (slot !== undefined) return `, slot ${slot}`;
  return oncePerMs === undefined ? '' : `, once per ${oncePerMs} ms`;
}
