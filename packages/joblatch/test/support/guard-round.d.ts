import type { LockProvider } from 'joblatch';
import type { GuardedDatabase, GuardedTransaction } from './guard-story.ts';

export interface Holding {
  readonly key: string;
  readonly owner: string;
  /** On this process's monotonic clock. */
  readonly until: number;
}

/** `refused`: the guard said no. `undone`: the database rolled it back. */
export type Outcome = 'committed' | 'refused' | 'undone';

export declare const LEASE_MS: number;
export declare function hold(provider: LockProvider, key: string): Promise<Holding>;
export declare function guard(
  provider: LockProvider,
  holding: Holding,
  tx: GuardedTransaction,
): Promise<boolean>;
export declare function outcomeOf(
  database: GuardedDatabase,
  tx: GuardedTransaction,
  play: () => Promise<boolean>,
): Promise<Outcome>;
