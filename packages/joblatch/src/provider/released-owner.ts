/**
 * A released owner is kept in the record with this in front: its proof is void, and people still see who was last.
 * Owner ids leave room for it.
 */
export const RELEASED_MARK = '~';

/** Tells a released owner from a holder. */
export function splitOwner(lockedBy: string): { readonly owner: string; readonly released: boolean } {
  const released = lockedBy.startsWith(RELEASED_MARK);
  return { owner: released ? lockedBy.slice(RELEASED_MARK.length) : lockedBy, released };
}
