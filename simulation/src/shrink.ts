import type { Library } from './library.js';
import { CALM } from './network.js';
import type { Act, Plan } from './plan.js';
import { type Result, simulate } from './simulate.js';

/** How many times a plan may be carried out to make it smaller. */
const TRIES = 1_000;

/** A plan that is as small as we could make it, and still breaks the same invariant. */
export async function shrink(library: Library, failing: Plan, { violation }: Result): Promise<Plan> {
  let best = failing;
  let tries = 0;
  const stillFails = async (plan: Plan): Promise<boolean> => {
    if (tries >= TRIES) return false;
    tries += 1;
    const result = await simulate(library, plan, false);
    if (result.violation?.invariant !== violation?.invariant) return false;
    best = plan;
    return true;
  };

  await stillFails({ ...best, fewestSteps: 0 });
  // What happened after it does not matter; and it may fail without any weather.
  for (const part of [0.25, 0.5, 0.75]) {
    const acts = failing.acts.slice(0, Math.ceil(failing.acts.length * part));
    if (await stillFails({ ...best, acts })) break;
  }
  await stillFails({ ...best, weather: CALM });
  for (const weather of ['slow', 'drop', 'lose', 'locked', 'twice', 'freeze'] as const) {
    if (best.weather[weather] > 0) await stillFails({ ...best, weather: { ...best.weather, [weather]: 0 } });
  }
  for (let size = Math.ceil(best.acts.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < best.acts.length; ) {
      if (!(await stillFails({ ...best, acts: without(best.acts, from, size) }))) from += size;
    }
  }
  return best;
}

function without(acts: readonly Act[], from: number, count: number): readonly Act[] {
  return [...acts.slice(0, from), ...acts.slice(from + count)];
}
