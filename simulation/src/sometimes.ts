/** What must have happened at least once in a run of many seeds, or the run has shown nothing about it. */
export const SOMETIMES = [
  // Faults.
  'request dropped with an error',
  'request dropped without a word',
  'reply lost with an error',
  'reply lost without a word',
  'request delayed beyond the time-out',
  'requests of one machine overtook each other',
  'request applied twice',
  'request refused at the door',
  'record locked by somebody else',
  'provider gave up at the signal',
  'link down',
  'process paused',
  'process paused beyond a lease',
  'process paused just after it had sent something',
  'machine suspended',
  'wall clock of a machine set',
  'process killed',
  'process killed while it held',
  'process started again',
  'store restarted',
  'store forgot everything',
  'store forgot a key',
  'clock of the store put forward',
  'clock of the store put back',
  'key released by force',
  'records purged',
  // What became of attempts and runs.
  'granted',
  'granted, and nobody was there any more',
  'granted too late',
  'refused: held',
  'refused: slot',
  'refused: stopping',
  'attempt failed',
  'attempt given up by its signal',
  'waited and got it',
  'waited in vain',
  'run: ran',
  'run: failed',
  'run: lost by deadline',
  'run: lost by renewal',
  'run: lost by cap',
  'run: lost by release',
  'run: nested',
  'run: never ended',
  'slot claimed',
  'slot recorded at the end',
  'slot tried again after a failure',
  'slot too far ahead',
  'slot too old',
  'oncePer granted',
  'kept for its at-least',
  // Holding.
  'renewed',
  'renewal failed and a later one came through',
  'renewal refused',
  'extended',
  'extension failed',
  'release: was held',
  'release: was not held',
  'release failed',
  'released twice',
  'released while a renewal was under way',
  'given back in the background',
  // Ending.
  'stopped while something ran',
  'stopped with the grace over',
  'closed in peace',
] as const;

export type Sometimes = (typeof SOMETIMES)[number];

export class Counters {
  readonly counts = new Map<Sometimes, number>(SOMETIMES.map((name) => [name, 0]));

  hit(name: Sometimes): void {
    this.counts.set(name, (this.counts.get(name) as number) + 1);
  }

  add(other: Counters): void {
    for (const [name, count] of other.counts)
      this.counts.set(name, (this.counts.get(name) as number) + count);
  }

  toObject(): Record<Sometimes, number> {
    return Object.fromEntries(this.counts) as Record<Sometimes, number>;
  }
}
