import type { GuardedDatabase } from './guard-story.ts';
import type { ClientName } from './mysql-clients.js';

export interface GuardedOptions {
  readonly client: ClientName;
  readonly url: string;
  readonly table: string;
  readonly counters: string;
}

export declare function openGuarded(options: GuardedOptions & { readonly max?: number }): GuardedDatabase;
export declare function open(): GuardedDatabase;
export declare function guardedModule(options: GuardedOptions): string;
