import type { LockProvider } from '../../provider/lock-provider.js';

/** What the parent asks of a worker, and what comes back. */
export interface Commands {
  /** A verb of the worker's provider. */
  acquire: {
    args: Parameters<LockProvider['acquire']>[0];
    answer: Awaited<ReturnType<LockProvider['acquire']>>;
  };
  renewMany: {
    args: Parameters<LockProvider['renewMany']>[0];
    answer: Awaited<ReturnType<LockProvider['renewMany']>>;
  };
  release: { args: Parameters<LockProvider['release']>[0]; answer: boolean };
  /** Many attempts at once, each with an owner of its own. */
  race: { args: RaceArgs; answer: RaceAnswer };
  /** Read, sleep, write; read, sleep, write. */
  count: { args: CountArgs; answer: CountAnswer };
}

export type CommandName = keyof Commands;

export interface RaceArgs {
  readonly key: string;
  readonly leaseMs: number;
  readonly takers: number;
  readonly slot?: number;
  /** Give the key back at once, so that only the slot keeps the others out. */
  readonly giveBack: boolean;
}

export interface RaceAnswer {
  readonly granted: number;
  readonly refused: number;
}

export interface CountArgs {
  /** Holds the number. Nothing protects it but the lock. */
  readonly file: string;
  readonly rounds: number;
  /** Absent: count without a lock. */
  readonly lock?: { readonly key: string; readonly leaseMs: number };
}

export interface CountAnswer {
  /** How often the worker was refused before its turn came. */
  readonly refusals: number;
  /** How often a release said that the lock was not held. */
  readonly lost: number;
  /** How often a token was not greater than the one before it in the file. */
  readonly staleTokens: number;
}

export interface Command<N extends CommandName = CommandName> {
  readonly id: number;
  readonly name: N;
  readonly args: Commands[N]['args'];
}

export type Reply =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly error: string };
