import type { LockProvider } from 'joblatch';
import { makeDefaultStore } from './default-store.js';
import { type Notice, noticesOf } from './output.js';
import { storeUrl } from './store-url.js';
import type { Purpose } from './stores/store-kind.js';
import { storeKindOf } from './stores.js';

/** How long the tools that only look wait for an answer; as long as the library does for locks. */
const ANSWER_MS = 5_000;

export interface StoreFlags {
  readonly store?: string;
  readonly quiet?: boolean;
}

/** Opens the store that flags and environment name, else the user's own on this host. */
export async function openStore(
  flags: StoreFlags,
  purpose: Purpose,
  notice: Notice = noticesOf(flags),
): Promise<LockProvider> {
  const url = storeUrl(flags.store);
  if (url !== undefined) return storeKindOf(url).open(url, purpose);
  const path = makeDefaultStore();
  notice(`no store given, so ${path}: it excludes only processes of this user on this host`);
  return storeKindOf(`sqlite:${path}`).open(`sqlite:${path}`, purpose);
}

/** For the commands that look and tidy up: opens, uses and closes. */
export async function withStore<T>(
  flags: StoreFlags,
  use: (provider: LockProvider, options: { readonly signal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const provider = await openStore(flags, 'look');
  try {
    return await use(provider, { signal: AbortSignal.timeout(ANSWER_MS) });
  } finally {
    await provider.close?.();
  }
}
