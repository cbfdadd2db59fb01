import type { GuardedDatabase } from './guard-story.ts';

export interface GuardedOptions {
  readonly url: string;
  readonly table: string;
  readonly counters: string;
}

export declare function openGuarded(options: GuardedOptions & { readonly max?: number }): GuardedDatabase;
export declare function open(): GuardedDatabase;
export declare function guardedModule(options: GuardedOptions): string;
