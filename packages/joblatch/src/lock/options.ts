import type { LockProvider } from '../provider/lock-provider.js';
import type { Runtime } from '../provider/runtime.js';
import type { Duration } from '../provider/values.js';

export interface LocksOptions {
  /** The store. */
  readonly provider: LockProvider;
  /** `lockAtMostFor` of jobs that do not name one. No default: without it each job must. */
  readonly defaultLockAtMostFor?: Duration | undefined;
  /** `lockAtLeastFor` of jobs that do not name one. Default 0. */
  readonly defaultLockAtLeastFor?: Duration | undefined;
  /** `keepAlive` of jobs that do not say. Default false. */
  readonly defaultKeepAlive?: boolean | undefined;
  /** How long `acquire` waits if the call does not say. Default 10 s. */
  readonly defaultWait?: Duration | undefined;
  /** The lease that watchdog and keep-alive renew every third of. Default 30 s. */
  readonly watchdogLease?: Duration | undefined;
  /** How often a waiter looks again, at the latest; jittered between half and all of it. Default 250 ms. */
  readonly pollEvery?: Duration | undefined;
  /** How long any call of the store may take. Default 5 s. */
  readonly storeTimeout?: Duration | undefined;
  /** Clocks, timers and chance. Default: Node's. */
  readonly runtime?: Runtime | undefined;
}

export interface TryAcquireOptions {
  /** A lease that is not renewed: the lock ends after it. Default: none, the watchdog keeps the lock until released. */
  readonly lease?: Duration | undefined;
  /** Keep the key taken until this long after the acquisition, even if released earlier. Default 0. */
  readonly atLeast?: Duration | undefined;
  /** Refused unless this slot (epoch ms) is later than the key's last; claimed with the lock. */
  readonly slot?: number | undefined;
  /** As `slot`, computed by the store's clock: once in every such period, aligned to UTC. 1 s to 31 days. */
  readonly oncePer?: Duration | undefined;
  /** Gives the attempt up; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface AcquireOptions extends TryAcquireOptions {
  /** How long to wait for the key. 0: one attempt. Default 10 s. */
  readonly wait?: Duration | undefined;
}

/** The options of a client, read and checked. */
export interface Settings {
  readonly provider: LockProvider;
  readonly runtime: Runtime;
  readonly atMostMs: number | undefined;
  readonly atLeastMs: number;
  readonly keepAlive: boolean;
  readonly waitMs: number;
  readonly watchdogLeaseMs: number;
  readonly pollMs: number;
  readonly storeTimeoutMs: number;
}
