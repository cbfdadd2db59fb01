import { type CallSignal, GaveUp, signalOf } from '../../provider/abandoning.js';
import type { StoreOperation } from '../../provider/errors.js';
import type { CallOptions } from '../../provider/lock-provider.js';
import type { ScriptRunner } from './client.js';
import {
  asStoreError,
  ClientRefused,
  isUnknownScript,
  isWrongType,
  NotConnected,
  withoutSecrets,
} from './errors.js';
import { KeySpace } from './keys.js';
import type { Settings } from './options.js';
import { ECHO, type Script, TYPES } from './scripts.js';

/** What one call of the provider may do. */
export interface Line {
  readonly keys: KeySpace;
  /** Runs a script; on one server of a cluster, if that is named. */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    on?: ScriptRunner,
  ): Promise<string>;
}

export type GatewaySettings = Omit<Settings, 'replicas'>;

/** Events after which it is worth asking the client again. */
const STATE_EVENTS = ['ready', 'end', 'error'];
const PROBE = 'joblatch';

/** The one way to the client: bounds every call, waits for the connection, knows scripts and prefixes. */
export class Gateway {
  readonly #settings: GatewaySettings;
  readonly #pending = new Set<(why: unknown) => void>();
  readonly #waiting = new Set<() => void>();
  #keys: KeySpace | undefined;
  #listening = false;
  #closed = false;
  #lastError: unknown;

  /** @param clientPrefix what the client puts in front of keys, if that is known */
  constructor(settings: GatewaySettings, clientPrefix?: string) {
    this.#settings = settings;
    if (clientPrefix !== undefined) this.#keys = new KeySpace(clientPrefix, settings.names);
  }

  get clientPrefix(): string | undefined {
    return this.#keys?.clientPrefix;
  }

  /** Does `work` when the client can send, and lets the caller go when his signal aborts or the time is over. */
  call<T>(
    operation: StoreOperation,
    key: string | undefined,
    options: CallOptions | undefined,
    work: (line: Line) => Promise<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void =>
        reject(asStoreError(error, { operation, key, library: this.#settings.client.library }));
      const signal = signalOf(options);
      if (this.#closed) fail(closed());
      else if (signal?.aborted) fail(new GaveUp(signal.reason));
      else this.#bounded(signal, work, resolve, fail);
    });
  }

  close(): void {
    this.#closed = true;
    for (const giveUp of this.#pending) giveUp(closed());
    this.#stopListening();
  }

  /**
   * What the caller gave up is not sent any more. What was sent can not be taken back: a grant that comes of
   * it is given back by whoever called, who knows the owner.
   */
  #bounded<T>(
    signal: CallSignal | undefined,
    work: (line: Line) => Promise<T>,
    resolve: (value: T) => void,
    reject: (why: unknown) => void,
  ): void {
    const { runtime, timeoutMs } = this.#settings;
    this.#listen();
    const call = new Call();
    const startedAt = runtime.monotonic();
    const settle = (): void => {
      this.#pending.delete(giveUp);
      cancelTimer?.();
      signal?.removeEventListener('abort', stop);
    };
    const giveUp = (why: unknown): void => {
      settle();
      call.end();
      reject(why);
    };
    const stop = (): void => {
      const waitedMs = runtime.monotonic() - startedAt;
      if (call.waiting) giveUp(new NotConnected(this.#lastError, waitedMs));
      else giveUp(new GaveUp(signal?.reason, waitedMs));
    };
    const cancelTimer = signal === undefined ? runtime.setTimer(stop, timeoutMs) : undefined;
    signal?.addEventListener('abort', stop);
    this.#pending.add(giveUp);
    this.#start(call, work).then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(error);
      },
    );
  }

  #start<T>(call: Call, work: (line: Line) => Promise<T>): Promise<T> {
    const keys = this.#keys;
    if (keys === undefined) return this.#learnKeys(call).then(() => this.#start(call, work));
    return work({ keys, run: (script, names, args, on) => this.#run(call, script, names, args, on) });
  }

  /**
   * Clients put a prefix in front of keys (ioredis, node-redis 6) and tell of it in different ways, or not at all.
   * What the server gets is certain; hash slots and patterns are made of that.
   */
  async #learnKeys(call: Call): Promise<void> {
    const seen = await this.#run(call, ECHO, [PROBE], []);
    const prefix = seen.slice(0, -PROBE.length);
    if (!seen.endsWith(PROBE) || prefix.includes('\uFFFD') || /\{[^}]*$/.test(prefix)) {
      throw new ClientRefused(
        `it turns the key "${PROBE}" into ${JSON.stringify(seen)}. Accepted: a prefix of well-formed text, without a brace that stays open`,
      );
    }
    this.#keys = new KeySpace(prefix, this.#settings.names);
  }

  async #run(
    call: Call,
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    on: ScriptRunner = this.#settings.client,
  ): Promise<string> {
    while (!this.#isReady(call)) await this.#nextEvent(call);
    const texts = args.map(String);
    for (let by: 'hash' | 'text' = 'hash'; ; by = 'text') {
      try {
        return textOf(await on.run(by, by === 'hash' ? script.sha : script.lua, keys, texts));
      } catch (error) {
        if (call.ended) throw error;
        // Nothing was executed. EVAL leaves it with the server, for the next time.
        if (by === 'hash' && isUnknownScript(error)) continue;
        throw isWrongType(error) && script !== TYPES ? await this.#wrongType(call, keys) : error;
      }
    }
  }

  async #wrongType(call: Call, keys: readonly string[]): Promise<Error> {
    const types = (await this.#run(call, TYPES, keys, [])).split(' ');
    const index = types.findIndex((type) => type !== 'string' && type !== 'none');
    return new Error(
      `the key ${JSON.stringify(keys[index])} holds a ${types[index]}, not a lock. Remove it, or give another keyPrefix or environment`,
    );
  }

  /** Nothing is left to the queue of a client: it would be executed after its caller has long gone. */
  #isReady(call: Call): boolean {
    if (call.ended) throw new GaveUp(undefined);
    const state = this.#settings.client.prepare();
    if (state !== 'ready' && state !== 'later') throw new ClientRefused(state.refused);
    return state === 'ready';
  }

  /** Resolves when the client may have changed its state, or the call has ended. */
  #nextEvent(call: Call): Promise<void> {
    call.waiting = true;
    return new Promise((resolve) => {
      const wake = (): void => {
        call.waiting = false;
        this.#waiting.delete(wake);
        resolve();
      };
      this.#waiting.add(wake);
      call.onEnd = wake;
    });
  }

  /**
   * One listener an event, however many wait. And an EventEmitter whose `error` nobody listens to throws, which would
   * be the end of the process.
   */
  #listen(): void {
    if (this.#listening) return;
    this.#listening = true;
    const { events } = this.#settings.client;
    events?.on('error', this.#onError);
    for (const event of STATE_EVENTS) events?.on(event, this.#onState);
  }

  #stopListening(): void {
    if (!this.#listening) return;
    this.#listening = false;
    const { events } = this.#settings.client;
    events?.off('error', this.#onError);
    for (const event of STATE_EVENTS) events?.off(event, this.#onState);
  }

  readonly #onState = (): void => {
    for (const wake of this.#waiting) wake();
  };

  readonly #onError = (error: unknown): void => {
    this.#lastError = error;
    const told = withoutSecrets(error);
    try {
      this.#settings.onError?.(told instanceof Error ? told : new Error(String(told)));
    } catch {
      // A listener that throws changes nothing.
    }
  };
}

/** One call as it goes on. */
class Call {
  ended = false;
  /** For the client to be connected. */
  waiting = false;
  onEnd: (() => void) | undefined;

  end(): void {
    this.ended = true;
    this.onEnd?.();
  }
}

function closed(): Error {
  return new Error('the provider was closed.');
}

/** Told to by a type mapping or a decoder, a client answers bytes. */
function textOf(reply: unknown): string {
  const text = reply instanceof Uint8Array ? Buffer.from(reply).toString() : reply;
  if (typeof text !== 'string') throw new Error(`the script was answered by ${typeof reply}, not by a text.`);
  if (text === 'QUEUED')
    throw new ClientRefused('it has a transaction open (MULTI). Give joblatch a client of its own');
  return text;
}
