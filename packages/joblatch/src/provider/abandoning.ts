import type { CallOptions } from './lock-provider.js';

/** As much of an AbortSignal as a provider needs to learn that nobody waits for its answer any more. */
export interface CallSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(event: 'abort', listener: () => void): void;
  removeEventListener(event: 'abort', listener: () => void): void;
}

/**
 * The options of a call that joblatch itself makes. An AbortSignal costs more than all else that we do for a call, so a
 * real one is only made for whoever looks at `signal`; a provider of ours looks at this one.
 */
export interface OwnCallOptions extends CallOptions {
  readonly lightSignal: CallSignal;
}

/** How to learn that a call was given up, whoever made it. */
export function signalOf(options: CallOptions | undefined): CallSignal | undefined {
  return (options as Partial<OwnCallOptions> | undefined)?.lightSignal ?? options?.signal;
}

/** Why a caller was let go before there was an answer: nobody waits any more, or it was waited for long enough. */
export class GaveUp extends Error {
  readonly waitedMs: number;

  constructor(cause: unknown, waitedMs = 0) {
    super('gave up', { cause });
    this.waitedMs = waitedMs;
  }
}

/** Settles with the promise, or rejects as soon as the signal aborts; then `leave` cleans up. */
export function abandonable<T>(
  promise: Promise<T>,
  signal: CallSignal | undefined,
  leave: () => void = () => {},
): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      signal.removeEventListener('abort', onAbort);
      reject(new GaveUp(signal.reason));
      leave();
    };
    promise.then(
      (value) => {
        signal.removeEventListener('abort', onAbort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort);
        reject(error);
      },
    );
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort);
  });
}
