import type { Runtime } from './runtime.js';

/** What every store can hold, ShedLock's `locked_by` included; one character is left for a mark of the store's. */
const OWNER_MAX = 254;
const RANDOM_DIGITS = 10;

/**
 * An id that no other acquisition has, ever: it is the proof of ownership, so it can not be guessed either
 * (2 × 51 random bits). The readable part says where the holder runs. Made anew for every acquisition, also
 * within one process: a snapshot of a process that is resumed twice must not share ids.
 */
export function createOwnerId(runtime: Runtime): string {
  const random = digits(runtime) + digits(runtime);
  const instance = runtime.instance.replace(/[^\x21-\x7d]/g, '_').slice(-(OWNER_MAX - random.length - 1));
  return `${instance}:${random}`;
}

function digits(runtime: Runtime): string {
  return Math.floor(runtime.random() * 36 ** RANDOM_DIGITS)
    .toString(36)
    .padStart(RANDOM_DIGITS, '0');
}
