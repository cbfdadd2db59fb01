import { AsyncLocalStorage } from 'node:async_hooks';
import { isLock, type LockClient } from '../lock/client.js';
import type { HeldLock } from '../lock/held-lock.js';
import { isLockError, LockError, type LossDetection } from '../provider/errors.js';
import type { Refused } from '../provider/lock-provider.js';
import type { Duration } from '../provider/values.js';
import type { JobDefinition } from './create-job.js';
import type { JobContext, JobFunction, Outcome, Skipped } from './job.js';

/** A run of a job, as seen from inside it. */
interface Run {
  readonly client: LockClient;
  readonly lock: HeldLock;
  readonly context: JobContext;
  /** False once the function has settled: what it left running is outside. */
  active: boolean;
  outer: Run | undefined;
}

const storage = new AsyncLocalStorage<Run>();

function inside<T>(run: Run, fn: () => T): T {
  return storage.run(run, fn);
}

/** The runs around the caller, innermost first, that have not settled. */
function* activeRuns(): Generator<Run, void, undefined> {
  for (let run = storage.getStore(); run !== undefined; run = run.outer) {
    if (run.active) yield run;
  }
}

function innermost(matches: (run: Run) => boolean): Run | undefined {
  for (const run of activeRuns()) {
    if (matches(run)) return run;
  }
  return undefined;
}

/** What a new run is inside of. Runs that have settled are left out: a job that starts itself again kept them all. */
function surroundingRun(): Run | undefined {
  const run = innermost(() => true);
  while (run?.outer?.active === false) run.outer = run.outer.outer;
  return run;
}

/** How the function of a job came to its end. */
type Ending<T> = { readonly value: T } | { readonly error: unknown };

/** Tries a job once: skips it, or takes the key, runs the function, and gives the key back. */
export async function runJob<T>(
  client: LockClient,
  job: JobDefinition,
  fn: JobFunction<T>,
  slot: number | undefined,
): Promise<Outcome<T>> {
  const outer = innermost((run) => run.client === client && run.context.name === job.name && run.lock.held);
  if (outer !== undefined) return runNested(outer, fn);
  if (client.activity.stopping) {
    client.events.emit('refused', { key: job.name, job: true, reason: 'stopping', leftMs: undefined });
    return { status: 'skipped', reason: 'stopping' };
  }
  return client.activity.track(lockAndRun(client, job, fn, slot));
}

async function lockAndRun<T>(
  client: LockClient,
  job: JobDefinition,
  fn: JobFunction<T>,
  slot: number | undefined,
): Promise<Outcome<T>> {
  const lock = await take(client, job, slot);
  if (lock === 'stopping') return { status: 'skipped', reason: 'stopping' };
  if (!isLock(lock)) return skipped(lock);
  const run: Run = {
    client,
    lock,
    context: contextOf(job.name, lock),
    active: true,
    outer: innermost(() => true),
  };
  const { ending, tookMs } = await execute(run, fn, false);
  // What counts is whether the lock was held until the function ended, so it is looked at before it is given back.
  const loss = lossUntilNow(lock);
  const succeeded = 'value' in ending && loss === undefined;
  const doneSlot = job.perSlot === 'at-least-once' && succeeded ? lock.slot : undefined;
  // An error of the release was told to the listeners, and the release is tried again in the background; the
  // caller gets what the function gave.
  await lock.giveBack(doneSlot).catch(() => false);
  return conclude(lock, ending, tookMs, loss);
}

async function take(
  client: LockClient,
  job: JobDefinition,
  slot: number | undefined,
): Promise<HeldLock | Refused | 'stopping'> {
  const renewLeaseMs = job.keepAlive ? Math.min(client.settings.watchdogLeaseMs, job.atMostMs) : undefined;
  try {
    return await client.attempt({
      key: job.name,
      leaseMs: renewLeaseMs === undefined ? job.atMostMs : Math.max(renewLeaseMs, job.atLeastMs),
      renewLeaseMs,
      capMs: renewLeaseMs === undefined ? undefined : job.atMostMs,
      atLeastMs: job.atLeastMs,
      heldBy: 'function',
      slot,
      oncePerMs: slot === undefined ? job.oncePerMs : undefined,
      claim: job.perSlot === 'at-most-once' ? 'acquire' : 'release',
      job: true,
    });
  } catch (error) {
    if (isLockError(error, 'STOPPED')) return 'stopping';
    throw error;
  }
}

function skipped({ reason, leftMs }: Refused): Skipped {
  return leftMs === undefined ? { status: 'skipped', reason } : { status: 'skipped', reason, leftMs };
}

/** The same name again inside its own run: the store is not asked, the lock is the outer one's. */
async function runNested<T>(outer: Run, fn: JobFunction<T>): Promise<Outcome<T>> {
  const { lock } = outer;
  const { ending, tookMs } = await execute({ ...outer, active: true, outer: surroundingRun() }, fn, true);
  // The outer run may not have waited for this one: then it gave the lock away under it.
  const loss = lossUntilNow(lock);
  return conclude(lock, ending, tookMs, loss);
}

/** Runs until the promise settles, not merely until the function returns. */
async function execute<T>(
  run: Run,
  fn: JobFunction<T>,
  nested: boolean,
): Promise<{ readonly ending: Ending<T>; readonly tookMs: number }> {
  const { client, lock } = run;
  const { key, token, slot } = lock;
  client.events.emit('started', { key, token, slot, nested });
  const startedAt = client.monotonic();
  const ending = await inside(run, () => settle(fn, run.context));
  run.active = false;
  const tookMs = Math.round(client.monotonic() - startedAt);
  const result = 'error' in ending ? 'failure' : 'success';
  client.events.emit('finished', {
    key,
    token,
    tookMs,
    nested,
    result,
    ...('error' in ending ? ending : {}),
  });
  return { ending, tookMs };
}

async function settle<T>(fn: JobFunction<T>, context: JobContext): Promise<Ending<T>> {
  try {
    return { value: await fn(context) };
  } catch (error) {
    return { error };
  }
}

/** How the lock was lost, or given away, if it is not held now. */
function lossUntilNow(lock: HeldLock): LossDetection | undefined {
  if (lock.noticeLoss()) return lock.lostBy;
  return lock.held ? undefined : 'release';
}

/** @param loss until the function ended; the release may have found another one since */
function conclude<T>(
  { token, lostBy }: HeldLock,
  ending: Ending<T>,
  tookMs: number,
  loss: LossDetection | undefined,
): Outcome<T> {
  const detectedBy = loss ?? lostBy;
  if (detectedBy !== undefined) return { status: 'lost', detectedBy, token, tookMs, ...ending };
  if ('error' in ending) throw ending.error;
  return { status: 'ran', value: ending.value, token, tookMs };
}

function contextOf(name: string, lock: HeldLock): JobContext {
  return {
    name,
    token: lock.token,
    lock,
    slot: lock.slot,
    get signal() {
      return lock.signal;
    },
    assertHeld: () => lock.assertHeld(),
  };
}

let allPass = false;

/**
 * Throws unless the caller runs inside a job (of that name), with its lock held. For functions that must never
 * run unlocked, whoever calls them.
 *
 * @throws LockError NOT_LOCKED outside a job
 * @throws LockLostError inside one that has lost its lock
 */
export function assertLocked(name?: string): void {
  if (allPass) return;
  const run = innermost((candidate) => name === undefined || candidate.context.name === name);
  if (run === undefined) {
    const what = name === undefined ? 'a job' : `the job ${JSON.stringify(name)}`;
    const message = `This runs outside ${what}: it was called directly, or the job has ended.`;
    throw new LockError('NOT_LOCKED', message, { key: name });
  }
  run.lock.assertHeld();
}

/**
 * The context of the job that the caller runs in (of that name), with its signal and token; undefined outside.
 * For functions that are called without it, such as decorated methods.
 */
export function currentJob(name?: string): JobContext | undefined {
  return innermost((run) => name === undefined || run.context.name === name)?.context;
}

/** For tests of functions that call {@link assertLocked}: with true it always passes, until false is said. */
export function letAssertLockedPass(pass: boolean): void {
  allPass = pass;
}

/**
 * Prolongs the innermost lock of the current async context: it may be held for `atMost` from now (with keep-alive
 * this moves the cap). May be called any number of times. What was allowed already stays.
 *
 * @param atLeast the new `lockAtLeastFor`, counted from the acquisition as ever
 * @throws LockError NOT_LOCKED outside a job
 * @throws LockLostError if the lock is lost
 * @throws LockStoreError if the store failed; the lock is then held as long as before
 */
export async function extendActiveLock(atMost: Duration, atLeast?: Duration): Promise<void> {
  const run = innermost(() => true);
  if (run === undefined) {
    throw new LockError(
      'NOT_LOCKED',
      'There is no lock to extend: this runs outside a job, or the job has ended.',
    );
  }
  await run.lock.extend(atMost, { atLeast });
}
