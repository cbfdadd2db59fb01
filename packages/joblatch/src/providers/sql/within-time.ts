import { abandonable, type CallSignal, GaveUp } from '../../provider/abandoning.js';
import type { Runtime } from '../../provider/runtime.js';

/** With the signal of the caller or, without one, with the limit of ours. */
export async function withinTime<T>(
  signal: CallSignal | undefined,
  { runtime, timeoutMs }: { readonly runtime: Runtime; readonly timeoutMs: number },
  work: (signal: CallSignal) => Promise<T>,
): Promise<T> {
  if (signal?.aborted) throw new GaveUp(signal.reason);
  if (signal) return work(signal);
  const controller = new AbortController();
  const cancel = runtime.setTimer(
    () => controller.abort(new Error(`no answer within ${timeoutMs} ms (timeoutMs)`)),
    timeoutMs,
  );
  try {
    return await work(controller.signal);
  } finally {
    cancel();
  }
}

/** Who gave way to another transaction this often is refused: the others are busy with the key. */
export const TRIES = 6;
const LONGEST_PAUSE_MS = 10;

/** A moment by chance: transactions that were in each other's way must not meet again. */
export async function stepAside(runtime: Runtime, signal: CallSignal): Promise<void> {
  const pause = new Promise<void>((resolve) => {
    runtime.setTimer(resolve, LONGEST_PAUSE_MS * runtime.random());
  });
  await abandonable(pause, signal);
}

export function closed(): Error {
  return new Error('the provider was closed');
}
