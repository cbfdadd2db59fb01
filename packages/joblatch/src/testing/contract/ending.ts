import { isLockError } from '../../provider/errors.js';
import { type CaseDefinition, define } from './case.js';
import { endsAfter, unchanged } from './records.js';
import { LONG_LEASE_MS } from './scene.js';

const DAY_MS = 86_400_000;

/** When a grant ends, and what is left of it then. */
export const ending: readonly CaseDefinition[] = [
  define('a lease frees itself when it has run out, and not before', [], async (s) => {
    const key = s.key();
    const first = await s.take(key, { leaseMs: s.leaseMs });
    await s.passUntil(first.liveUntil - s.leaseMs / 2);
    await s.refused(key, { until: first.liveUntil });
    await s.outlast(first);
    const next = await s.take(key);
    // Nothing of the first one sticks to the record of the next.
    await endsAfter(s, key, LONG_LEASE_MS, next);
    await s.refused(key);
    await s.released(next);
  }),

  define(
    'a grant whose end has just come does not exist any more, to the millisecond',
    ['clock'],
    async (s) => {
      const key = s.key();
      const first = await s.take(key, { leaseMs: 1_000 });
      await s.pass(999);
      await s.refused(key);
      await s.pass(1);
      await s.notRenewed(first);
      await s.notReleased(first);
      await s.take(key);
    },
  ),

  define('an expired grant is not renewed, though nobody took the key since', [], async (s) => {
    const key = s.key();
    const gone = await s.take(key, { leaseMs: s.leaseMs });
    await s.outlast(gone);
    await s.notRenewed(gone);
    await s.notRenewed(gone, LONG_LEASE_MS, { atLeastMs: LONG_LEASE_MS });
    await s.take(key);
  }),

  define('an expired grant is not released, and nothing is kept of it', [], async (s) => {
    const key = s.key();
    const gone = await s.take(key, { leaseMs: s.leaseMs });
    await s.outlast(gone);
    await s.notReleased(gone, { keepMs: LONG_LEASE_MS });
    await s.take(key);
  }),

  define(
    'when the key has passed to another, its old holder neither renews nor releases it',
    [],
    async (s) => {
      const key = s.key();
      const old = await s.take(key, { leaseMs: s.leaseMs });
      await s.outlast(old);
      const next = await s.take(key);
      await unchanged(s, key, async () => {
        await s.notReleased(old);
        await s.notReleased(old, { keepMs: LONG_LEASE_MS * 2 });
        await s.notRenewed(old, LONG_LEASE_MS * 2);
        await s.notRenewed(old, s.leaseMs, { atLeastMs: LONG_LEASE_MS * 2 });
      });
      await s.refused(key);
      await s.released(next);
    },
  ),

  define('the same through another client', [], async (s) => {
    const key = s.key();
    const old = await s.take(key, { leaseMs: s.leaseMs }, await s.open());
    await s.outlast(old);
    const next = await s.take(key);
    await unchanged(s, key, async () => {
      await s.notReleased(old);
      await s.notRenewed(old, LONG_LEASE_MS * 2);
    });
    await s.released(next);
  }),

  define('a lease of thirty days is kept whole, renewed and given back', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key, { leaseMs: 30 * DAY_MS });
    await endsAfter(s, key, 30 * DAY_MS, taken);
    await s.refused(key);
    await s.renewed(taken, 31 * DAY_MS);
    await s.refused(key);
    await s.released(taken);
    await s.take(key);
  }),

  define('a lease of ten years is kept whole, or refused clearly', [], async (s) => {
    const key = s.key();
    const leaseMs = 3_652 * DAY_MS;
    try {
      const taken = await s.take(key, { leaseMs });
      await endsAfter(s, key, leaseMs, taken);
      await s.refused(key);
      await s.released(taken);
    } catch (error) {
      if (!isLockError(error, 'OPTIONS')) throw error;
      s.note(`ten years are refused: ${error.message}`);
    }
    await s.take(key);
  }),
];
