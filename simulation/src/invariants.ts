/** What must hold at every step, by name. A violation says which of these was broken. */
export const INVARIANTS = {
  exclusion: 'At most one live grant of a key exists in the store, and at most one holder believes in his.',
  'held-is-true':
    'Who reads `held` and sees true has a live grant in the store, for as long as `leftMs` says.',
  'no-false-loss':
    'Nobody loses what he has: a loss follows from a deadline, a refused renewal or release, or a stop.',
  'told-of-loss':
    'A holder learns of a loss as soon as his process runs: the signal aborts, and one event tells it.',
  'kept-alive':
    'A holder whose process runs and who reaches the store does not lose his lock for want of a renewal.',
  owners: 'No two acquisitions have the same owner id.',
  fencing:
    'Each grant of a key has a greater token than all before: the last one + 1 or the clock of the store.',
  slots:
    'A slot is claimed once, only forwards, not a minute ahead of the store, and recorded only if it was done.',
  'never-revive': 'What has ended can be neither renewed nor released, and renewals end with the release.',
  'renewal-end': 'A renewal ends the lease at the latest of what was asked for, at-least and the end it had.',
  'at-least': 'The key stays taken until at-least after the acquisition, and not longer.',
  'at-most': 'No lock is held, or asked for, beyond lockAtMostFor, unless it was extended.',
  'free-is-free': 'A key that nobody has is not refused, and a refusal says truly why and for how long.',
  'fail-closed':
    'Without the word of the store nobody holds anything; failures are errors, and errors have a cause.',
  'handed-back': 'A grant that nobody holds is given back as soon as the store can be reached.',
  bounded: 'Every call settles within its limit, whatever the store does.',
  waiting: 'A waiter gets a free key within its poll.',
  nesting: 'A nested run stands under an outer one that has not ended and is held.',
  'job-is-locked': 'A job runs under its lock until its promise settles, and the lock is given back then.',
  outcome: 'An outcome, and the result of a call, claims no more than the truth, and no less.',
  events: 'Listeners are told of each thing once, and of nothing that did not happen.',
  drain: 'A client that is stopped starts nothing, holds nothing and calls the store no more.',
  leaks: 'At the end no timer, no listener, no waiter and no rejected promise is left.',
  restraint: 'The store is not called more often than there is reason to.',
} as const;

export type Invariant = keyof typeof INVARIANTS;

export class Violation extends Error {
  readonly invariant: Invariant;

  constructor(invariant: Invariant, message: string) {
    super(message);
    this.name = 'Violation';
    this.invariant = invariant;
  }
}

let first: Violation | undefined;

/**
 * Throws unless the condition holds, and keeps what it threw first: it may be thrown inside of the library, which
 * takes it for an error of the store or of a listener.
 */
export function insist(condition: boolean, invariant: Invariant, message: () => string): asserts condition {
  if (condition) return;
  const violation = new Violation(invariant, message());
  first ??= violation;
  throw violation;
}

/** What was violated first since it was asked for last. */
export function takeViolation(): Violation | undefined {
  const violation = first;
  first = undefined;
  return violation;
}
