/** What all our keys begin with, so that they can be removed. */
export const PREFIX = 'joblatch-bench';
/** Held by somebody while losers try. */
export const HELD = `${PREFIX}:held`;
export const HELD_FOR_MS = 3_600_000;
export const LEASE_MS = 30_000;
