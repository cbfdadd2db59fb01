import assert from 'node:assert/strict';
import { isLockError } from '../../provider/errors.js';
import type { LockProvider } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import { LONG_LEASE_MS, pick, type Scene } from './scene.js';
import { show } from './show.js';

/** "At once", on a machine that has other things to do. */
const AT_ONCE_MS = 2_000;
/** How long a client may take to reach a store that has come back. */
const RECOVERY_MS = 10_000;

/** A store that others get in the way of, or that is away for a while. */
export const troubles: readonly CaseDefinition[] = [
  define(
    'behind the lock of somebody else an attempt is refused at once, and does not wait',
    ['obstruct'],
    async (s) => {
      const key = s.key();
      await s.released(await s.take(key));
      await obstructed(s, key, async () => {
        const asked = s.runtime.monotonic();
        await s.refused(key);
        const waited = s.runtime.monotonic() - asked;
        assert.ok(
          waited < AT_ONCE_MS,
          `Expected a refusal within ${AT_ONCE_MS} ms, found it after ${waited} ms.`,
        );
      });
      await s.take(key);
    },
  ),

  define(
    'behind the lock of somebody else a grant is not lost: renewed, or to be asked for again',
    ['obstruct'],
    async (s) => {
      const taken = await s.take(s.key());
      await obstructed(s, taken.key, async () => {
        const asked = s.runtime.monotonic();
        const answer = await orStoreError(
          s,
          'renewMany',
          s.client.renewMany([{ ...pick(taken), leaseMs: LONG_LEASE_MS }]),
        );
        const found = answer?.[0] ?? 'unknown';
        assert.ok(found !== 'lost', "Expected 'ok', 'unknown' or a LockStoreError, found 'lost'.");
        const waited = s.runtime.monotonic() - asked;
        assert.ok(
          waited < AT_ONCE_MS,
          `Expected an answer within ${AT_ONCE_MS} ms, found it after ${waited} ms.`,
        );
      });
      await s.renewed(taken, LONG_LEASE_MS);
      await s.refused(taken.key);
      await s.released(taken);
    },
  ),

  define(
    'a store that is away fails every verb with a LockStoreError, and works when it is back',
    ['interrupt'],
    async (s) => {
      const key = s.key();
      const taken = await s.take(s.key('held'));
      const restore = (await s.options.interrupt?.()) ?? (() => {});
      try {
        const attempt = { key, owner: s.owner(), leaseMs: LONG_LEASE_MS };
        await failsWith(s, 'acquire', (client) => client.acquire(attempt));
        await failsWith(s, 'renewMany', (client) =>
          client.renewMany([{ ...pick(taken), leaseMs: LONG_LEASE_MS }]),
        );
        await failsWith(s, 'release', (client) => client.release(pick(taken)));
        await failsWith(s, 'inspect', (client) => client.inspect({ key }));
        await failsWith(s, 'forceRelease', (client) => client.forceRelease(key));
        await failsWith(s, 'purge', (client) => client.purge({ idleMs: LONG_LEASE_MS * 1_000 }));
      } finally {
        await restore();
      }
      const giveUpAt = s.runtime.monotonic() + RECOVERY_MS;
      const again = s.freshKey();
      for (;;) {
        const attempt = s.client.acquire({ key: again, owner: s.owner(), leaseMs: LONG_LEASE_MS });
        // A grant whose reply was lost on the way may be in the way of the next attempt: that is an answer too.
        if ((await orStoreError(s, 'acquire', attempt)) !== undefined) break;
        assert.ok(
          s.runtime.monotonic() < giveUpAt,
          `Expected the store to answer again within ${RECOVERY_MS} ms.`,
        );
        await s.sleep(50);
      }
      await s.refused(again);
      await s.released(await s.take(s.freshKey()));
    },
  ),
];

async function obstructed(s: Scene, key: string, play: () => Promise<void>): Promise<void> {
  const clear = (await s.options.obstruct?.(key)) ?? (() => {});
  try {
    await play();
  } finally {
    await clear();
  }
}

async function failsWith(
  s: Scene,
  verb: string,
  call: (client: LockProvider) => Promise<unknown>,
): Promise<void> {
  const answer = await orStoreError(s, verb, call(s.client));
  assert.equal(answer, undefined, `Expected ${verb} to reject with a LockStoreError, found ${show(answer)}.`);
}

/** The answer, or nothing if the store failed as it may. */
async function orStoreError<T>(s: Scene, verb: string, call: Promise<T>): Promise<T | undefined> {
  try {
    return await s.answer(verb, call);
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    assert.ok(
      isLockError(error, 'STORE'),
      `Expected ${verb} to reject with a LockStoreError, found ${String(error)}.`,
    );
    return undefined;
  }
}
