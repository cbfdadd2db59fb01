import type { LockProvider } from '../../provider/lock-provider.js';
import { createOwnerId, nodeRuntime } from '../../provider/runtime.js';
import type { RaceAnswer, RaceArgs } from './messages.js';

/** Many attempts at once; an error of any of them is an error of the race. */
export async function race(provider: LockProvider, args: RaceArgs): Promise<RaceAnswer> {
  const { key, leaseMs, takers, slot, giveBack } = args;
  const attempt = async (): Promise<boolean> => {
    const owner = createOwnerId(nodeRuntime);
    const { ok } = await provider.acquire({ key, owner, leaseMs, ...(slot === undefined ? {} : { slot }) });
    if (ok && giveBack) await provider.release({ key, owner });
    return ok;
  };
  const granted = (await Promise.all(Array.from({ length: takers }, attempt))).filter((ok) => ok).length;
  return { granted, refused: takers - granted };
}
