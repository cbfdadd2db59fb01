import type { LossDetection } from '../provider/errors.js';

/** What happens to locks and jobs, as told to listeners. `job` says whether a job did it. */
export interface LockEvents {
  /** An attempt is about to be sent to the store. */
  readonly attempt: { readonly key: string; readonly job: boolean };
  readonly acquired: {
    readonly key: string;
    readonly job: boolean;
    readonly owner: string;
    readonly token: number;
    readonly slot: number | undefined;
  };
  readonly refused: {
    readonly key: string;
    readonly job: boolean;
    readonly reason: 'held' | 'slot' | 'stopping';
    readonly leftMs: number | undefined;
  };
  /** The function of a job is about to be called. */
  readonly started: {
    readonly key: string;
    readonly token: number;
    readonly slot: number | undefined;
    readonly nested: boolean;
  };
  /** The function of a job has settled; `error` is there if it failed. */
  readonly finished: {
    readonly key: string;
    readonly token: number;
    readonly tookMs: number;
    readonly nested: boolean;
    readonly result: 'success' | 'failure';
    readonly error?: unknown;
  };
  /** The holder prolonged its lease (renewals by the watchdog are not told). */
  readonly extended: { readonly key: string; readonly token: number; readonly leftMs: number };
  /** Told once for an acquisition, by whatever notices first. */
  readonly lost: { readonly key: string; readonly token: number; readonly detectedBy: LossDetection };
  readonly released: { readonly key: string; readonly token: number };
  /** Something failed that nobody awaits: a tick, a release, a renewal that will be tried again. */
  readonly error: { readonly key: string | undefined; readonly error: unknown };
}

export type LockEventName = keyof LockEvents;
export type LockListener<E extends LockEventName> = (event: LockEvents[E]) => void;
