// The steps of one holder in guard-story.ts: shared with its worker processes, hence plain JavaScript.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLockError } from 'joblatch';

export const LEASE_MS = 50;
/** Who is refused asks again soon; the others, who keep the machine busy too, are to be let through. */
const RETRY_MS = 6;

/** Asks until the key is had. */
export async function hold(provider, key) {
  for (;;) {
    const owner = randomUUID();
    const until = performance.now() + LEASE_MS;
    const { ok, token } = await provider.acquire({ key, owner, leaseMs: LEASE_MS });
    if (ok) return { key, owner, token, until };
    await sleep(2 + Math.random() * RETRY_MS);
  }
}

/** Proves the grant in the transaction, whatever the holder's own clock says: the database is to decide. */
export function guard(provider, { key, owner, token, until }, tx) {
  const leftMs = Math.max(1, until - performance.now());
  return provider.guard({ key, owner, token, leftMs }, tx.transaction);
}

/** How a transaction ended: an error that the database undoes by itself is a rollback, any other one is a fault. */
export async function outcomeOf(database, tx, play) {
  try {
    if (!(await play())) {
      await tx.rollback();
      return 'refused';
    }
  } catch (error) {
    await tx.rollback().catch(() => {});
    return rolledBack(database, error);
  }
  try {
    await tx.commit();
    return 'committed';
  } catch (error) {
    return rolledBack(database, error);
  }
}

function rolledBack(database, error) {
  const cause = isLockError(error, 'STORE') ? error.cause : error;
  if (cause instanceof Error && database.isRolledBack(cause)) return 'undone';
  throw error;
}
