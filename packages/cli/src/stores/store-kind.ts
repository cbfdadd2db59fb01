import type { LockProvider } from 'joblatch';

/** One kind of store, as the command line knows it. */
export interface StoreKind {
  /** How it can be written, for help and for error messages. */
  readonly forms: readonly string[];
  accepts(url: string): boolean;
  /** Makes the provider; nothing need be contacted yet. The client library is loaded only here. */
  open(url: string): Promise<LockProvider>;
}
