import { parentPort, workerData } from 'node:worker_threads';
import type { Invariant } from './invariants.js';
import { loadLibrary } from './library.js';
import { planOf } from './plan.js';
import { simulate } from './simulate.js';
import { Counters, type Sometimes } from './sometimes.js';

export interface Task {
  readonly from: number;
  readonly count: number;
  readonly stopAtFirst: boolean;
}

export interface Report {
  readonly seeds: number;
  readonly steps: number;
  /** Of the seed that had the fewest. */
  readonly fewestSteps: number;
  readonly violations: readonly {
    readonly seed: number;
    readonly invariant: Invariant;
    readonly message: string;
  }[];
  readonly sometimes: Readonly<Record<Sometimes, number>>;
}

// Making the stack of an error costs more than all the rest, and the library makes many that are meant to be.
Error.stackTraceLimit = 0;

const library = await loadLibrary((workerData as { readonly dist: string }).dist);

async function work({ from, count, stopAtFirst }: Task): Promise<Report> {
  const total = new Counters();
  const violations: Report['violations'][number][] = [];
  let [seeds, steps, fewestSteps] = [0, 0, Number.POSITIVE_INFINITY];
  for (let seed = from; seed < from + count; seed += 1) {
    const result = await simulate(library, planOf(seed), false);
    seeds += 1;
    steps += result.steps;
    total.add(result.counters);
    if (result.violation === undefined) {
      fewestSteps = Math.min(fewestSteps, result.steps);
      continue;
    }
    const { invariant, message } = result.violation;
    violations.push({ seed, invariant, message });
    if (stopAtFirst) break;
  }
  return { seeds, steps, fewestSteps, violations, sometimes: total.toObject() };
}

parentPort?.on('message', (task: Task) => {
  work(task).then(
    (report) => parentPort?.postMessage({ report }),
    (error: unknown) => parentPort?.postMessage({ error: String((error as Error)?.stack ?? error) }),
  );
});
