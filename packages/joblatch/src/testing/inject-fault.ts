import type { CallSignal } from '../provider/abandoning.js';
import type { Runtime } from '../provider/runtime.js';
import type { Fault } from './fault.js';

/** Plays one call as its fault says. */
export function injectFault<T>(
  runtime: Runtime,
  fault: Fault,
  signal: CallSignal | undefined,
  defaultError: () => Error,
  effect: () => Promise<T>,
): Promise<T> {
  if (signal === undefined || fault.ignoresAbort === true) return play(runtime, fault, defaultError, effect);
  // Given up before it was sent: nothing is under way.
  if (signal.aborted) return Promise.reject(signal.reason);
  return orAborted(play(runtime, fault, defaultError, effect), signal);
}

async function play<T>(
  runtime: Runtime,
  fault: Fault,
  defaultError: () => Error,
  effect: () => Promise<T>,
): Promise<T> {
  const { delayBeforeMs = 0, delayAfterMs = 0, ends = 'answer', applied = ends === 'answer', error } = fault;
  await delay(runtime, delayBeforeMs);
  const answer = applied ? await effect() : undefined;
  await delay(runtime, delayAfterMs);
  if (ends === 'hang') return new Promise<never>(() => {});
  if (ends === 'error' || !applied) throw error ?? defaultError();
  return answer as T;
}

async function delay(runtime: Runtime, ms: number): Promise<void> {
  if (ms <= 0) return;
  await new Promise<void>((resolve) => {
    runtime.setTimer(resolve, ms);
  });
}

/** The caller stops waiting; the course goes on, and its end is nobody's any more. */
function orAborted<T>(course: Promise<T>, signal: CallSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    const settled = (): void => signal.removeEventListener('abort', onAbort);
    course.finally(settled).then(resolve, reject);
  });
}
