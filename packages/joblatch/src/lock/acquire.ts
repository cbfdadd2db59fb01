import { LockNotAcquiredError, LockOptionsError } from '../provider/errors.js';
import type { Refused } from '../provider/lock-provider.js';
import { jittered } from '../provider/runtime.js';
import { checkKey, parseDuration, refuseUnknown, SLOT_MEMORY_MS, show } from '../provider/values.js';
import { type Attempt, isLock, type LockClient, lossOf } from './client.js';
import type { HeldLock } from './held-lock.js';
import type { Lock } from './lock.js';
import type { AcquireOptions, TryAcquireOptions } from './options.js';

const TRY_OPTIONS = [
  'lease',
  'atLeast',
  'slot',
  'oncePer',
  'signal',
] as const satisfies (keyof TryAcquireOptions)[];
const TRY_NAMES: ReadonlySet<string> = new Set(TRY_OPTIONS);
const ACQUIRE_NAMES: ReadonlySet<string> = new Set([...TRY_OPTIONS, 'wait']);

/** The end of a lease is known to the millisecond at best: look a little after it, not a little before. */
const AFTER_LEASE_MS = 2;

export async function tryAcquire(
  client: LockClient,
  key: string,
  options: TryAcquireOptions = {},
): Promise<Lock | undefined> {
  refuseUnknown(options, TRY_NAMES, 'tryAcquire');
  const attempt = readAttempt(client, key, options, 'handle');
  client.refuseWhenStopping(key);
  client.activity.begin();
  try {
    const result = await client.attempt(attempt);
    return isLock(result) ? result : undefined;
  } finally {
    client.activity.end();
  }
}

/** Looks again and again until the key is had, the time is up, or waiting is known to be in vain. */
export async function acquire(
  client: LockClient,
  key: string,
  options: AcquireOptions = {},
  heldBy: Attempt['heldBy'] = 'handle',
): Promise<HeldLock> {
  refuseUnknown(options, ACQUIRE_NAMES, 'acquire');
  const attempt = readAttempt(client, key, options, heldBy);
  const waitMs =
    options.wait === undefined
      ? client.settings.waitMs
      : parseDuration(options.wait, `wait for ${JSON.stringify(key)}`, { min: 0 });
  return client.activity.track(waitFor(client, attempt, waitMs));
}

async function waitFor(client: LockClient, attempt: Attempt, waitMs: number): Promise<HeldLock> {
  const giveUpAt = client.monotonic() + waitMs;
  const first = await tryOnce(client, attempt, waitMs, giveUpAt);
  if (isLock(first)) return first;
  const place = client.lines.join(attempt.key);
  try {
    for (let refused = first; ; ) {
      const restMs = Math.max(0, giveUpAt - client.monotonic());
      const sleepMs = place.isFirst ? Math.min(restMs, untilNextLook(client, refused)) : restMs;
      await client.activity.sleep(sleepMs, attempt.signal, (wake) => {
        place.wake = wake;
      });
      // Whoever has moved up to the front while asleep begins to look from now on.
      const result = await tryOnce(client, attempt, waitMs, giveUpAt);
      if (isLock(result)) return result;
      refused = result;
    }
  } finally {
    place.leave();
  }
}

/** @throws LockNotAcquiredError if waiting on is in vain */
async function tryOnce(
  client: LockClient,
  attempt: Attempt,
  waitMs: number,
  giveUpAt: number,
): Promise<HeldLock | Refused> {
  const { key } = attempt;
  client.refuseWhenStopping(key);
  const result = await client.attempt(attempt);
  if (isLock(result)) return result;
  const { reason, leftMs } = result;
  if (reason === 'held' && client.monotonic() < giveUpAt) return result;
  throw new LockNotAcquiredError(notAcquired(key, waitMs, reason, leftMs), { key, reason, leftMs });
}

/** No longer than the present lease runs, and no longer than a poll, jittered. */
function untilNextLook({ settings: { runtime, pollMs } }: LockClient, { leftMs }: Refused): number {
  const poll = jittered(runtime, pollMs);
  return leftMs === undefined ? poll : Math.min(poll, leftMs + AFTER_LEASE_MS);
}

function notAcquired(
  key: string,
  waitMs: number,
  reason: 'held' | 'slot',
  leftMs: number | undefined,
): string {
  const name = JSON.stringify(key);
  if (reason === 'slot')
    return `${name} was not acquired: its slot is taken, or is too old or too far ahead.`;
  const left = leftMs === undefined ? '' : ` Its present lease runs for another ${Math.ceil(leftMs)} ms.`;
  return `${name} was not acquired within ${waitMs} ms: somebody else holds it.${left}`;
}

function readAttempt(
  client: LockClient,
  key: string,
  options: TryAcquireOptions,
  heldBy: Attempt['heldBy'],
): Attempt {
  checkKey(key);
  const name = JSON.stringify(key);
  if (options.signal !== undefined && typeof options.signal?.throwIfAborted !== 'function') {
    throw new LockOptionsError(`signal of ${name} is ${show(options.signal)}. Accepted: an AbortSignal.`, {
      key,
    });
  }
  const { watchdogLeaseMs } = client.settings;
  const fixedMs = options.lease === undefined ? undefined : parseDuration(options.lease, `lease of ${name}`);
  const atLeastMs =
    options.atLeast === undefined ? 0 : parseDuration(options.atLeast, `atLeast of ${name}`, { min: 0 });
  if (fixedMs !== undefined && atLeastMs > fixedMs) {
    throw new LockOptionsError(
      `atLeast (${atLeastMs} ms) of ${name} is longer than its lease (${fixedMs} ms).`,
      { key },
    );
  }
  return {
    key,
    leaseMs: fixedMs ?? Math.max(watchdogLeaseMs, atLeastMs),
    renewLeaseMs: fixedMs === undefined ? watchdogLeaseMs : undefined,
    capMs: undefined,
    atLeastMs,
    heldBy,
    ...readSlot(name, options),
    signal: options.signal,
    job: false,
  };
}

const SHORTEST_PERIOD_MS = 1_000;
/** The year 1973; the seconds of any day that a schedule can mean are less. */
const EARLIEST_SLOT_MS = 1e11;

/** The slot of an attempt: named, or one in every period. */
export function readSlot(
  name: string,
  options: { readonly slot?: unknown; readonly oncePer?: unknown },
): { readonly slot: number | undefined; readonly oncePerMs: number | undefined } {
  const { slot, oncePer } = options;
  if (slot !== undefined && oncePer !== undefined) {
    throw new LockOptionsError(`${name} names both a slot and oncePer; a slot comes from one of them.`);
  }
  if (slot !== undefined) checkSlot(name, slot);
  return {
    slot: slot as number | undefined,
    oncePerMs:
      oncePer === undefined
        ? undefined
        : parseDuration(oncePer, `oncePer of ${name}`, { min: SHORTEST_PERIOD_MS, max: SLOT_MEMORY_MS }),
  };
}

/** @throws LockOptionsError */
export function checkSlot(name: string, slot: unknown): number {
  if (Number.isSafeInteger(slot)) {
    if ((slot as number) >= EARLIEST_SLOT_MS) return slot as number;
    throw new LockOptionsError(
      `slot of ${name} is ${show(slot)}, in ${new Date(slot as number).getUTCFullYear()}. Accepted: epoch milliseconds; these look like seconds.`,
    );
  }
  throw new LockOptionsError(
    `slot of ${name} is ${show(slot)}. Accepted: epoch milliseconds, a whole number.`,
  );
}

export async function withLock<T>(
  client: LockClient,
  key: string,
  options: AcquireOptions,
  fn: (lock: Lock) => T | PromiseLike<T>,
): Promise<T> {
  return client.activity.track(runWithLock(client, key, options, fn));
}

async function runWithLock<T>(
  client: LockClient,
  key: string,
  options: AcquireOptions,
  fn: (lock: Lock) => T | PromiseLike<T>,
): Promise<T> {
  const lock = await acquire(client, key, options, 'function');
  let result: T;
  try {
    result = await fn(lock);
  } catch (error) {
    // A failing release was told to the listeners; the caller sees the function's error.
    await lock.release().catch(() => false);
    throw error;
  }
  lock.noticeLoss();
  await lock.release().catch(() => false);
  const loss = lossOf(lock, result);
  if (loss !== undefined) throw loss;
  return result;
}
