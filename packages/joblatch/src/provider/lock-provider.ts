/**
 * The specification of a store.
 *
 * A store is a handful of atomic verbs; everything else in joblatch composes over them. A provider
 * implements these verbs for one kind of store and knows nothing of handles, waiting or jobs. What wraps a
 * provider is a provider itself, and one contract suite (`joblatch/testing`) checks them all.
 *
 * Three ideas hold for every verb:
 *
 * - **The store's clock decides.** Only durations in milliseconds cross this interface, never an instant of
 *   a host's clock. The one exception is a slot, which is an instant that a *schedule* names.
 * - **A grant is live** from the acquisition until its end, by the store's clock, read when the verb is
 *   executed. A grant whose end has come does not exist for any verb but {@link LockProvider.inspect} and
 *   {@link LockProvider.purge}: it can not be renewed, released or revived, even if nobody took the key since.
 * - **The owner id is the proof.** No other acquisition, past or future, has the same one. Verbs that change
 *   a grant compare key *and* owner *and* that the grant is live, in the same atomic step. So a request that
 *   is applied late, twice or out of order harms nobody.
 *
 * Every verb rejects with a {@link LockStoreError} when the store failed, and with a
 * {@link LockOptionsError} when the request is one that this store can not hold. Being refused is a value.
 */
export interface LockProvider {
  /** A short name of the kind of store, for messages: `'postgres'`, `'memory'`. Never holds credentials. */
  readonly name: string;

  /** What this store can do. May ask the store once (is our column there?); the answer is kept. */
  abilities(options?: CallOptions): Promise<ProviderAbilities>;

  /**
   * One atomic attempt to take a key. Never waits for the holder, nor behind a row lock, an uncommitted
   * insert or a long transaction of anybody else: what can not be decided at once is refused as held. (A store
   * whose only lock is that of the whole file, as SQLite's, waits for it, as long as the signal lets it.)
   *
   * The owner of a live grant who asks again is refused like everybody else.
   *
   * The attempt is refused with `reason: 'slot'` when the requested slot is taken, stale or too far ahead
   * (see {@link AcquireRequest.slot}), else with `reason: 'held'` when a live grant or a kept record exists.
   * A refusal writes nothing to the store.
   *
   * On success the grant ends at *store's now + leaseMs*, and its token is the larger of *last token of the
   * key + 1*, the store's clock in microseconds and `minToken`.
   */
  acquire(request: AcquireRequest, options?: CallOptions): Promise<AcquireResult>;

  /**
   * Moves the end of many grants in one round trip (one a chunk, where a store limits the size of a call).
   *
   * The new end is the latest of *store's now + leaseMs*, *acquired + atLeastMs* and the present end: a
   * renewal never moves an end back, so that one which is applied late can not shorten what a later one gave.
   *
   * Answers come in the order of the requests:
   * `'ok'` it was live, is ours and was renewed; `'lost'` it is not ours or not live any more, finally;
   * `'unknown'` the store could not decide now (a row that someone else has locked): ask again.
   * One answer never depends on another. Rejects only if nothing is known of any.
   */
  renewMany(requests: readonly RenewRequest[], options?: CallOptions): Promise<readonly RenewResult[]>;

  /**
   * Gives a grant back. True if it was live and ours, otherwise false and nothing is changed.
   *
   * The key is free at once, or from *acquired + keepMs* if that is later by the store's clock; till then
   * the record refuses takers though nobody holds it, and neither renewal nor release moves it any more.
   */
  release(request: ReleaseRequest, options?: CallOptions): Promise<boolean>;

  /** Reads records as they are; for people and tools, never for decisions. Sorted by the bytes of the key. */
  inspect(request: InspectRequest, options?: CallOptions): Promise<readonly LockRecord[]>;

  /**
   * Frees a key whoever holds it. True if there was a live grant or a kept record.
   *
   * The token of the key grows, so that whatever the ousted holder still writes with its own is refused by
   * a resource that has seen, or is told, the new one. The slot stays.
   */
  forceRelease(key: string, options?: CallOptions): Promise<boolean>;

  /**
   * Forgets records that have been free for longer than `idleMs` by the store's clock, and says how many (those
   * that a store forgets by itself, it may not count).
   *
   * A record whose slot could still be asked for (one of the last {@link SLOT_MEMORY_MS}) is kept, and so is
   * one whose token lies ahead of the store's clock. So tokens grow all the same afterwards.
   */
  purge(request: { readonly idleMs: number }, options?: CallOptions): Promise<number>;

  /**
   * Proves inside a transaction of the caller's own that a grant is live, and keeps the key for its owner until
   * that transaction ends: so what the transaction writes is committed only if nobody has taken the key since the
   * grant. For stores that are the database of the application too; absent where there is no such thing.
   *
   * True: the grant is ours. Whatever becomes of its lease, every attempt of others is refused until the
   * transaction ends, at once and not after waiting for it, and the owner's renewals go on as before. False: it is
   * not ours any more. The transaction goes on then, and is the caller's to roll back. Of a grant whose end has come,
   * while nobody has taken the key, either may be said: the holder knows its deadline, and asks before and after.
   *
   * What the guard has to wait for, and where the database can, how long a transaction that does nothing may
   * keep the key, is bounded by `leftMs`.
   *
   * @param transaction what the client of the database uses to send statements within the open transaction
   * @throws LockOptionsError if it is not that, or no transaction is open there
   * @throws LockStoreError if the database failed; the transaction may have to be rolled back
   */
  guard?(request: GuardRequest, transaction: object, options?: CallOptions): Promise<boolean>;

  /** Closes what the provider itself opened; never a client that it was given. */
  close?(): Promise<void>;
}

/** What a provider declares, and the contract suite holds it to. Later abilities join as optional members. */
export interface ProviderAbilities {
  /** Several processes can share the store. */
  readonly multiProcess: boolean;
  /** Ends are decided by a clock of the store, not of the host that asks. */
  readonly serverClock: boolean;
  /** Tokens grow for ever, as {@link LockProvider.acquire} says. Without it they only mostly do. */
  readonly fencing: boolean;
  /** Slots are kept. Without it a request that names a slot is refused with a `LockOptionsError`. */
  readonly slots: boolean;
  /** {@link LockProvider.inspect} lists every record. Without it a single key can still be read. */
  readonly inspect: boolean;
}

export interface CallOptions {
  /** Aborted when nobody waits for the answer any more. The provider stops as soon as it can. */
  readonly signal?: AbortSignal | undefined;
}

export interface AcquireRequest {
  /** Compared byte for byte. Checked by the caller (`checkKey`); a store with a narrower limit refuses. */
  readonly key: string;
  /** At most 255 ASCII characters; see `createOwnerId`. */
  readonly owner: string;
  /** A whole number of milliseconds, from 1 to ten years. */
  readonly leaseMs: number;
  /**
   * The instant that the schedule meant, in epoch milliseconds. Refused with `'slot'` if it is not later
   * than the last recorded slot of the key, if it lies more than {@link SLOT_AHEAD_MS} in the store's future
   * (a fast clock must not silence the others), or if it is as old as {@link SLOT_MEMORY_MS} (what may have
   * been forgotten can not be claimed again). Not together with `oncePerMs`.
   */
  readonly slot?: number | undefined;
  /**
   * Like `slot`, with the slot computed by the store: floor(store's now in ms ÷ oncePerMs) × oncePerMs.
   * From 1 s to 31 days. The caller sees to it that not both are given.
   */
  readonly oncePerMs?: number | undefined;
  /**
   * When the slot is recorded: `'acquire'` (default), atomically with the grant; or `'release'`, only when a
   * release names it, until then it is merely compared.
   */
  readonly claim?: 'acquire' | 'release' | undefined;
  /** The token must be at least this; for quorums. */
  readonly minToken?: number | undefined;
}

export type AcquireResult = Granted | Refused;

export interface Granted {
  readonly ok: true;
  /** A positive safe integer. */
  readonly token: number;
  /** How long the grant runs, as the store sees it; never more than was asked for. */
  readonly leftMs: number;
  /** The slot that was compared, named or computed, if there was one. */
  readonly slot?: number | undefined;
}

export interface Refused {
  readonly ok: false;
  /** `'slot'`: waiting does not help, the slot will never be had. `'held'`: somebody has the key now. */
  readonly reason: 'held' | 'slot';
  /** How long the present lease still runs, where the store can tell it in the same round trip. */
  readonly leftMs?: number | undefined;
}

export interface RenewRequest {
  readonly key: string;
  readonly owner: string;
  /** For wrappers that know a grant by it, such as a quorum. The owner is the proof, here too. */
  readonly token: number;
  readonly leaseMs: number;
  /** The end is never earlier than this long after the acquisition. */
  readonly atLeastMs?: number | undefined;
}

export type RenewResult = 'ok' | 'lost' | 'unknown';

export interface ReleaseRequest {
  readonly key: string;
  readonly owner: string;
  /** Keep the record until this long after the acquisition. 0 or absent: free at once. */
  readonly keepMs?: number | undefined;
  /** Record this slot as done, if it is later than the last one. */
  readonly slot?: number | undefined;
}

export interface GuardRequest {
  readonly key: string;
  readonly owner: string;
  /** By which a store may find the grant. The owner is the proof, here too. */
  readonly token: number;
  /** How long the holder may still act, as it was confirmed last. */
  readonly leftMs: number;
}

export interface InspectRequest {
  /** Only this key. Absent: all of them. */
  readonly key?: string | undefined;
  /** Not more than this many records. */
  readonly limit?: number | undefined;
}

export interface LockRecord {
  readonly key: string;
  /** `'held'`: live grant, shown with its token (and slot) where the store has these; `'kept'`: given back, but refused until its end (at least); `'free'`: can be taken. A free key may as well have no record. */
  readonly state: 'held' | 'kept' | 'free';
  /** Who has it, or had it last, where the store remembers. */
  readonly owner?: string | undefined;
  readonly token?: number | undefined;
  /** The last recorded slot. */
  readonly slot?: number | undefined;
  /** How long until the key is free; 0 when it is. */
  readonly leftMs: number;
  /** How long ago it was acquired last. */
  readonly acquiredAgoMs?: number | undefined;
}

export { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from './values.js';
