import type { Locks } from 'joblatch';
import type { SqliteDatabase } from 'joblatch/sqlite';

export interface Member {
  readonly database: SqliteDatabase;
  readonly locks: Locks;
  readonly leaseMs: number;
  close(): Promise<void>;
}

export interface Round {
  /** Absent: not at all. */
  readonly guardedBy?: 'lock' | 'store' | undefined;
  /** How long between reading and the transaction. */
  readonly beforeMs: number;
  /** How long in the transaction, after the guard. */
  readonly withinMs?: number;
}

export declare function openMember(driver: string, path: string, leaseMs: number): Member;
export declare function createCounters(member: Member, keys: number): Promise<void>;
export declare function readCounter(member: Member, key: string): number;
export declare function sumOfCounters(member: Member): number;
export declare function count(member: Member, key: string, round: Round): Promise<'written' | 'lost'>;
