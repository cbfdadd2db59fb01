/**
 * What happens to one call. In the order of events: a delay on the way to the store, the effect or not, a
 * delay on the way back, and how the call ends.
 *
 * When the caller's signal aborts, the call rejects with its reason at once, as a driver's would; what is
 * under way goes on without it, so the store may still carry it out. Aborted before, nothing is sent.
 */
export interface Fault {
  /** Default 0. */
  readonly delayBeforeMs?: number | undefined;
  /** Does the store carry the call out? Default: only if it ends with the answer. */
  readonly applied?: boolean | undefined;
  /** Default 0. */
  readonly delayAfterMs?: number | undefined;
  /** With the store's answer (default), with an error, or not at all. */
  readonly ends?: 'answer' | 'error' | 'hang' | undefined;
  /** The error it ends with. Default: a `LockStoreError` that says it was injected. */
  readonly error?: Error | undefined;
  /** The call does not notice that its signal aborts. Default false. */
  readonly ignoresAbort?: boolean | undefined;
}

/** The usual faults. */
export const fault: {
  /** The call fails and the store never sees it. */
  error(error?: Error): Fault;
  /** The store carries it out, and the caller sees an error. */
  replyLost(error?: Error): Fault;
  /** It takes so long on the way there, and so long on the way back. */
  slow(delayBeforeMs: number, delayAfterMs?: number): Fault;
  /** No answer until the signal aborts. `applied`: does the store carry it out? Default false. */
  hang(options?: { readonly applied?: boolean }): Fault;
  /** No answer, ever, not even when the signal aborts. */
  hangForEver(options?: { readonly applied?: boolean }): Fault;
} = {
  error: (error) => ({ ends: 'error', error }),
  replyLost: (error) => ({ ends: 'error', error, applied: true }),
  slow: (delayBeforeMs, delayAfterMs = 0) => ({ delayBeforeMs, delayAfterMs }),
  hang: ({ applied = false } = {}) => ({ ends: 'hang', applied }),
  hangForEver: ({ applied = false } = {}) => ({ ends: 'hang', applied, ignoresAbort: true }),
};
