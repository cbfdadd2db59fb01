import assert from 'node:assert/strict';
import { type CaseDefinition, define } from './case.js';
import { assertFree, assertState, endsAfter, unchanged } from './records.js';
import { LONG_LEASE_MS } from './scene.js';

/** Giving a grant back, keeping the record, taking it away by force. */
export const releasing: readonly CaseDefinition[] = [
  define('release answers true once, and false when repeated', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.released(taken);
    assertFree(await s.inspect(key));
    await s.notReleased(taken);
    await s.notReleased(taken, { keepMs: LONG_LEASE_MS });
    await s.take(key);
  }),

  define('a repeated release does not touch the next holder', [], async (s) => {
    const key = s.key();
    const first = await s.take(key);
    await s.released(first);
    const next = await s.take(key);
    await unchanged(s, key, async () => {
      await s.notReleased(first);
      await s.notRenewed(first, LONG_LEASE_MS * 2);
    });
    await s.released(next);
  }),

  define('a release by another owner answers false and changes nothing', [], async (s) => {
    const [key, other] = [s.key('mine'), s.key('other')];
    const mine = await s.take(key);
    const stranger = await s.take(other);
    await unchanged(s, key, async () => {
      await s.notReleased({ ...stranger, key });
      await s.notReleased({ ...stranger, key }, { keepMs: LONG_LEASE_MS * 2 });
    });
    await s.refused(key);
    await s.released(mine);
  }),

  define('a key that was never taken is not released, nor kept', [], async (s) => {
    const taken = await s.take(s.key('real'));
    const never = { ...taken, key: s.key('never') };
    await s.notReleased(never, { keepMs: LONG_LEASE_MS });
    await s.take(never.key);
  }),

  define('a released grant is not renewed', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.released(taken);
    await s.notRenewed(taken);
    assertFree(await s.inspect(key));
    await s.take(key);
  }),

  define('a kept record refuses takers until keepMs after the acquisition, then no more', [], async (s) => {
    const key = s.key();
    const keepMs = s.leaseMs * 4;
    const taken = await s.take(key);
    // Half of it passes in the hold: counted from the release, the record would be kept that much longer.
    await s.pass(keepMs / 2);
    await s.released(taken, { keepMs });
    await s.refused(key, { until: taken.sentAt + keepMs });
    await s.passUntil(taken.sentAt + keepMs * 0.75);
    await s.refused(key, { until: taken.sentAt + keepMs });
    await s.passUntil(taken.answeredAt + keepMs + s.unitMs);
    await s.take(key);
  }),

  define('keepMs counts from the acquisition after renewals too', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.pass(s.leaseMs);
    await s.renewed(taken, LONG_LEASE_MS * 2);
    await s.pass(s.leaseMs);
    await s.renewed(taken, LONG_LEASE_MS * 2, { atLeastMs: LONG_LEASE_MS * 3 });
    await s.released(taken, { keepMs: LONG_LEASE_MS });
    await endsAfter(s, key, LONG_LEASE_MS, taken);
    await s.refused(key);
  }),

  define('keepMs may end the hold earlier or later than the lease would have', [], async (s) => {
    const key = s.key();
    const brief = await s.take(key, { leaseMs: LONG_LEASE_MS });
    await s.released(brief, { keepMs: s.leaseMs });
    await s.passUntil(brief.answeredAt + s.leaseMs + s.unitMs);
    const next = await s.take(key, { leaseMs: LONG_LEASE_MS });
    await s.released(next, { keepMs: LONG_LEASE_MS * 4 });
    await endsAfter(s, key, LONG_LEASE_MS * 4, next);
  }),

  define('a key held longer than keepMs is free at once', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.passUntil(taken.answeredAt + s.leaseMs + s.unitMs);
    await s.released(taken, { keepMs: s.leaseMs });
    await s.take(key);
  }),

  define('keepMs 0 frees at once', [], async (s) => {
    const key = s.key();
    await s.released(await s.take(key), { keepMs: 0 });
    await s.take(key);
  }),

  define('neither renewal nor release moves a kept record, not even by its last owner', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.released(taken, { keepMs: LONG_LEASE_MS });
    await unchanged(s, key, async () => {
      await s.notRenewed(taken, LONG_LEASE_MS * 2);
      await s.notRenewed(taken, s.leaseMs, { atLeastMs: LONG_LEASE_MS * 2 });
      await s.notReleased(taken);
      await s.notReleased(taken, { keepMs: LONG_LEASE_MS * 2 });
    });
    assertState(await s.inspect(key), 'kept');
    await s.refused(key);
  }),

  define('force takes the key from its holder, who can neither renew nor release it', [], async (s) => {
    const key = s.key();
    const ousted = await s.take(key);
    assert.equal(await s.forceRelease(key), true, 'Expected true: there was a live grant; found false.');
    assertFree(await s.inspect(key));
    await s.notRenewed(ousted);
    await s.notReleased(ousted, { keepMs: LONG_LEASE_MS });
    const next = await s.take(key);
    await unchanged(s, key, async () => {
      await s.notRenewed(ousted, LONG_LEASE_MS * 2);
      await s.notReleased(ousted);
    });
    await s.released(next);
  }),

  define('force frees a kept record', [], async (s) => {
    const key = s.key();
    await s.released(await s.take(key), { keepMs: LONG_LEASE_MS });
    await s.refused(key);
    assert.equal(await s.forceRelease(key), true, 'Expected true: there was a kept record; found false.');
    await s.take(key);
  }),

  define('force answers false where there is nothing to free', [], async (s) => {
    const key = s.key();
    const forced = async (): Promise<void> =>
      assert.equal(await s.forceRelease(key), false, 'Expected false: the key was free; found true.');
    await forced();
    await s.released(await s.take(key));
    await forced();
    await s.outlast(await s.take(key, { leaseMs: s.leaseMs }));
    await forced();
    await s.take(key);
  }),
];
