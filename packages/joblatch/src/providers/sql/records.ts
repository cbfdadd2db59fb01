import type { LockRecord } from '../../provider/lock-provider.js';
import { splitOwner } from '../../provider/released-owner.js';

/** A record as a statement answers it. */
export interface RecordRow {
  readonly key: string;
  readonly owner: string | null;
  readonly token: number | null;
  readonly slot: number | null;
  /** Until it is free, in milliseconds; null or less than 0 if it is. */
  readonly left: number | null;
  readonly ago: number | null;
}

export function toRecord(row: RecordRow): LockRecord {
  const { owner, released } = splitOwner(row.owner ?? '');
  const leftMs = Math.max(0, Math.ceil(row.left ?? 0));
  return {
    key: row.key,
    state: leftMs === 0 ? 'free' : released ? 'kept' : 'held',
    leftMs,
    ...(owner !== '' && { owner }),
    ...(row.token !== null && { token: row.token }),
    ...(row.slot !== null && { slot: row.slot }),
    // Negative after the clock was set back.
    ...(row.ago !== null && { acquiredAgoMs: Math.max(0, row.ago) }),
  };
}
