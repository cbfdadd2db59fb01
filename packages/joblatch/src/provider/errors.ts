const BRAND = Symbol.for('joblatch.LockError');

/** What went wrong, for programs. Messages are for people and may change. */
export type LockErrorCode = 'NOT_ACQUIRED' | 'LOST' | 'STORE' | 'OPTIONS' | 'NOT_LOCKED' | 'STOPPED';

export interface LockErrorOptions {
  readonly key?: string | undefined;
  readonly cause?: unknown;
}

/** The base of every error that joblatch raises itself. */
export class LockError extends Error {
  readonly code: LockErrorCode;
  /** The key in question, where there is one. */
  readonly key: string | undefined;

  constructor(code: LockErrorCode, message: string, options: LockErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.key = options.key;
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/** Waited for a key as long as was allowed, and did not get it. */
export class LockNotAcquiredError extends LockError {
  readonly reason: 'held' | 'slot';
  /** How long the present lease still runs, where the store could tell. */
  readonly leftMs: number | undefined;

  constructor(
    message: string,
    options: LockErrorOptions & { readonly reason: 'held' | 'slot'; readonly leftMs?: number | undefined },
  ) {
    super('NOT_ACQUIRED', message, options);
    this.reason = options.reason;
    this.leftMs = options.leftMs;
  }
}

/**
 * How a holder found out that it can not be sure of its key any more.
 *
 * - `renewal`: the store said that the grant is not ours or not live;
 * - `deadline`: the lease ran out, by this host's monotonic clock, before it was renewed;
 * - `cap`: a job with keep-alive reached its `lockAtMostFor`;
 * - `release`: the store said at the release that the grant was gone;
 * - `guard`: the store said so inside a transaction that was to be guarded.
 */
export type LossDetection = 'renewal' | 'deadline' | 'cap' | 'release' | 'guard';

/** The holder can no longer be sure that it holds the key. */
export class LockLostError extends LockError {
  readonly detectedBy: LossDetection;
  /** What the function returned, when it finished in spite of the loss (`withLock`). */
  readonly result: unknown;

  constructor(
    message: string,
    options: LockErrorOptions & { readonly detectedBy: LossDetection; readonly result?: unknown },
  ) {
    super('LOST', message, options);
    this.detectedBy = options.detectedBy;
    this.result = options.result;
  }
}

/** The verb of the provider that failed; `fencedSet` is a function of its own. */
export type StoreOperation =
  | 'connect'
  | 'acquire'
  | 'renew'
  | 'release'
  | 'guard'
  | 'fencedSet'
  | 'inspect'
  | 'forceRelease'
  | 'purge'
  | 'migrate';

/** The store failed, did not answer in time, or answered too late. Nothing was acquired. */
export class LockStoreError extends LockError {
  readonly operation: StoreOperation;

  constructor(message: string, options: LockErrorOptions & { readonly operation: StoreOperation }) {
    super('STORE', message, options);
    this.operation = options.operation;
  }
}

/** A request that can not be right: thrown where it is made, before anything happens. */
export class LockOptionsError extends LockError {
  constructor(message: string, options: LockErrorOptions = {}) {
    super('OPTIONS', message, options);
  }
}

interface ErrorOfCode {
  NOT_ACQUIRED: LockNotAcquiredError;
  LOST: LockLostError;
  STORE: LockStoreError;
  OPTIONS: LockOptionsError;
  NOT_LOCKED: LockError;
  STOPPED: LockError;
}

/** Recognises joblatch's errors, also those of another copy of the package. */
export function isLockError(error: unknown): error is LockError;
export function isLockError<C extends LockErrorCode>(error: unknown, code: C): error is ErrorOfCode[C];
export function isLockError(error: unknown, code?: LockErrorCode): boolean {
  if (!(error instanceof Error) || !(BRAND in error)) return false;
  return code === undefined || ('code' in error && error.code === code);
}
