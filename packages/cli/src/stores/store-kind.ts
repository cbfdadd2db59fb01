import type { LockProvider } from 'joblatch';
import type { Finding } from '../doctor/finding.js';

/** Who only looks (or tidies up) must not make a store that is not there. */
export type Purpose = 'lock' | 'look';

/** One kind of store, as the command line knows it. */
export interface StoreKind {
  /** How it can be written, for help and for error messages. */
  readonly forms: readonly string[];
  accepts(url: string): boolean;
  /**
   * Makes the provider; nothing need be contacted yet. The client library is loaded only here. `close` of the
   * provider closes the client too, and never takes long.
   */
  open(url: string, purpose: Purpose): Promise<LockProvider>;
  /** Makes what the locks need, or with `print` only says what would. */
  migrate(url: string, print: boolean): Promise<Migration>;
  /** Looks at everything that decides how good the locks are. @throws if the store can not be reached */
  examine(url: string): Promise<readonly Finding[]>;
}

export interface Migration {
  /** SQL: what was needed and done, or everything that may be. */
  readonly statements: readonly string[];
  /** Said where there are no statements. */
  readonly note: string;
}

/** How long a connection may take to be made. Less than the time-out of a call, which then can say why. */
export const CONNECT_MS = 4_500;
/** How long a server may take to say goodbye; then the connection is cut. */
export const GOODBYE_MS = 300;

/** A provider whose `close` ends its client too: nobody else has it. */
export function owning(provider: LockProvider, endClient: () => Promise<void> | void): LockProvider {
  const close = provider.close?.bind(provider);
  return Object.assign(provider, {
    close: async () => {
      await close?.();
      await endClient();
    },
  });
}
