import { createJob, type DefaultNames } from './jobs/create-job.js';
import type { JobFunction, JobOptions, SlotContext } from './jobs/job.js';
import { acquire, tryAcquire, withLock } from './lock/acquire.js';
import { LockClient } from './lock/client.js';
import type { Lock } from './lock/lock.js';
import type { AcquireOptions, LocksOptions, Settings } from './lock/options.js';
import type { Locks } from './locks.js';
import { LockOptionsError } from './provider/errors.js';
import { nodeRuntime } from './provider/runtime.js';
import { type Duration, parseDuration, refuseUnknown, show } from './provider/values.js';

export type * from './jobs/job.js';
export { assertLocked, currentJob, extendActiveLock } from './jobs/run-job.js';
export type { LockEventName, LockEvents, LockListener } from './lock/events.js';
export type { Lock } from './lock/lock.js';
export type { AcquireOptions, LocksOptions, TryAcquireOptions } from './lock/options.js';
export type { Locks } from './locks.js';
export {
  isLockError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockNotAcquiredError,
  LockOptionsError,
  LockStoreError,
  type LossDetection,
  type StoreOperation,
} from './provider/errors.js';
export type * from './provider/lock-provider.js';
export { createOwnerId, nodeRuntime, type Runtime } from './provider/runtime.js';
export { checkKey, type Duration, parseDuration, SLOT_AHEAD_MS, SLOT_MEMORY_MS } from './provider/values.js';

const DEFAULT_GRACE_MS = 30_000;

/**
 * Makes a client: locks and jobs over one store. Nothing is contacted before first use.
 *
 * @throws LockOptionsError
 */
export function createLocks(options: LocksOptions): Locks {
  const settings = readSettings(options);
  const client = new LockClient(settings);
  const defaultNames: DefaultNames = new Set();

  const stop = async (options: StopOptions = {}): Promise<void> => {
    refuseUnknown(options, STOP_NAMES, 'stop');
    const { grace } = options;
    const graceMs =
      grace === undefined ? DEFAULT_GRACE_MS : parseDuration(grace, 'grace of stop', { min: 0 });
    await client.stop(graceMs);
  };
  const close = async (options?: StopOptions): Promise<void> => {
    await stop(options);
    await settings.provider.close?.();
  };
  return {
    provider: settings.provider,
    tryAcquire: (key, options) => tryAcquire(client, key, options),
    acquire: (key, options) => acquire(client, key, options),
    withLock: async <T>(key: string, ...rest: WithLockArguments<T>) =>
      withLock<T>(client, key, ...split(rest)),
    // With `oncePer` the context has a slot, which the type of the method says and that of the function can not.
    job: <T>(options: JobOptions, fn: JobFunction<T, SlotContext>) =>
      createJob(client, defaultNames, options, fn as JobFunction<T>),
    on: (event, listener) => client.events.on(event, listener),
    stop,
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

interface StopOptions {
  readonly grace?: Duration | undefined;
}

const STOP_NAMES: ReadonlySet<string> = new Set<keyof StopOptions>(['grace']);

type LockedFunction<T> = (lock: Lock) => T | PromiseLike<T>;
type WithLockArguments<T> = [LockedFunction<T>] | [AcquireOptions, LockedFunction<T>];

function split<T>(rest: WithLockArguments<T>): [AcquireOptions, LockedFunction<T>] {
  const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
  if (typeof fn !== 'function') {
    throw new LockOptionsError(`withLock(key, options?, fn) takes a function, not ${show(fn)}.`);
  }
  return [options, fn];
}

const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_LEASE_MS = 30_000;
const DEFAULT_POLL_MS = 250;
const DEFAULT_STORE_TIMEOUT_MS = 5_000;

const OPTION_NAMES: ReadonlySet<string> = new Set<keyof LocksOptions>([
  'provider',
  'defaultLockAtMostFor',
  'defaultLockAtLeastFor',
  'defaultKeepAlive',
  'defaultWait',
  'watchdogLease',
  'pollEvery',
  'storeTimeout',
  'runtime',
]);

function readSettings(options: LocksOptions): Settings {
  refuseUnknown(options, OPTION_NAMES, 'createLocks');
  if (typeof options.provider?.acquire !== 'function') {
    throw new LockOptionsError(
      'createLocks({ provider }) needs a provider, for instance sqliteProvider({ path }) from "joblatch/sqlite".',
    );
  }
  const read = (name: keyof LocksOptions, fallback: number, min = 1): number =>
    options[name] === undefined ? fallback : parseDuration(options[name], `${name} of createLocks`, { min });
  return {
    provider: options.provider,
    runtime: options.runtime ?? nodeRuntime,
    atMostMs: options.defaultLockAtMostFor === undefined ? undefined : read('defaultLockAtMostFor', 0),
    atLeastMs: read('defaultLockAtLeastFor', 0, 0),
    keepAlive: options.defaultKeepAlive ?? false,
    waitMs: read('defaultWait', DEFAULT_WAIT_MS, 0),
    watchdogLeaseMs: read('watchdogLease', DEFAULT_LEASE_MS),
    pollMs: read('pollEvery', DEFAULT_POLL_MS),
    storeTimeoutMs: read('storeTimeout', DEFAULT_STORE_TIMEOUT_MS),
  };
}
