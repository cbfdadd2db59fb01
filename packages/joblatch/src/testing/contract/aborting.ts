import assert from 'node:assert/strict';
import { getEventListeners, setMaxListeners } from 'node:events';
import { isLockError } from '../../provider/errors.js';
import { type CaseDefinition, define } from './case.js';
import { LONG_LEASE_MS, pick, type Scene, type Taken } from './scene.js';
import { show } from './show.js';

/** How long a command that nobody waits for any more may still be on its way. */
const SETTLE_MS = 2_000;

/** When the abort comes, from before the call to some time after it. */
const MOMENTS: Readonly<Record<string, (s: Scene) => Promise<void> | undefined>> = {
  'at once': () => undefined,
  'a moment later': () => Promise.resolve(),
  'a millisecond later': (s) => s.sleep(1),
};

/** Calls that their caller gave up: they reject or answer, and leave nothing that can not be given back. */
export const aborting: readonly CaseDefinition[] = [
  define(
    'a call whose signal was aborted before it rejects or answers, and the store can be used',
    [],
    async (s) => {
      const signal = AbortSignal.abort(new Error('given up before the call'));
      await leavesUsable(s, async () => signal);
    },
  ),

  ...Object.entries(MOMENTS).map(([moment, wait]) =>
    define(`a call that is aborted ${moment} rejects or answers, and the store can be used`, [], (s) =>
      leavesUsable(s, async () => {
        const controller = new AbortController();
        const pending = wait(s);
        if (pending === undefined) queueMicrotask(() => controller.abort(new Error('given up at once')));
        else void pending.then(() => controller.abort(new Error('given up in flight')));
        return controller.signal;
      }),
    ),
  ),

  define('a signal that outlives its calls collects no listeners', [], async (s) => {
    const { signal } = new AbortController();
    // Found by counting, not by a warning on the console.
    setMaxListeners(0, signal);
    const key = s.key();
    for (let i = 0; i < 20; i += 1) {
      const owner = s.owner();
      const result = await s.answer(
        'acquire',
        s.client.acquire({ key, owner, leaseMs: LONG_LEASE_MS }, { signal }),
      );
      assert.ok(result.ok, `Expected ${show(key)} to be granted, found it refused.`);
      await s.answer('release', s.client.release({ key, owner }, { signal }));
    }
    const listeners = getEventListeners(signal, 'abort').length;
    assert.ok(
      listeners <= 1,
      `Expected the listeners of a signal to be removed, found ${listeners} left of 40 calls.`,
    );
  }),
];

async function leavesUsable(s: Scene, makeSignal: () => Promise<AbortSignal>): Promise<void> {
  const [key, held] = [s.key('wanted'), s.key('held')];
  const owner = s.owner();
  const signal = await makeSignal();
  await settles('acquire', s, s.client.acquire({ key, owner, leaseMs: LONG_LEASE_MS }, { signal }));
  // Whether it was granted is open. Given back, it is free: at once, or when the command has arrived.
  await freed(s, key, owner);

  const taken = await s.take(held);
  const renew = await makeSignal();
  await settles(
    'renewMany',
    s,
    s.client.renewMany([{ ...pick(taken), leaseMs: LONG_LEASE_MS }], { signal: renew }),
  );
  await s.renewed(taken, LONG_LEASE_MS);
  const release = await makeSignal();
  await settles('release', s, s.client.release({ key: held, owner: taken.owner }, { signal: release }));
  await freed(s, held, taken.owner);
  const other = await makeSignal();
  await settles('inspect', s, s.client.inspect({ key: held }, { signal: other }));
  await settles('forceRelease', s, s.client.forceRelease(s.key('free'), { signal: other }));
  await settles('purge', s, s.client.purge({ idleMs: LONG_LEASE_MS * 1_000 }, { signal: other }));
}

/** It answers or rejects, within the time every call has; what it rejects with is an error. */
async function settles(what: string, s: Scene, call: Promise<unknown>): Promise<void> {
  const error = await s.answer(
    `${what}, aborted`,
    call.then(
      () => undefined,
      (reason: unknown) => ({ reason }),
    ),
  );
  if (error === undefined) return;
  const { reason } = error;
  assert.ok(
    reason instanceof Error,
    `Expected an aborted ${what} to reject with an error, found ${show(reason)}.`,
  );
  assert.ok(
    !isLockError(reason, 'OPTIONS'),
    `Expected an aborted ${what} not to blame the options: ${reason.message}`,
  );
}

async function freed(s: Scene, key: string, owner: string): Promise<void> {
  const giveUpAt = s.runtime.monotonic() + SETTLE_MS;
  for (;;) {
    await s.answer(`release of ${show(key)}`, s.client.release({ key, owner }));
    const result: Taken | { readonly reason: string } = await s.attempt(key);
    if ('owner' in result) return s.released(result);
    assert.ok(
      s.runtime.monotonic() < giveUpAt,
      `Expected ${show(key)} to be free after the aborted grant was given back, found it ${result.reason}.`,
    );
    await s.sleep(20);
  }
}
