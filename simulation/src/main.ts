import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { loadLibrary } from './library.js';
import { MUTANTS, type Mutant } from './mutants.js';
import { buildMutant } from './mutate.js';
import { DIST } from './paths.js';
import { planOf } from './plan.js';
import { shrink } from './shrink.js';
import { simulate } from './simulate.js';
import { SOMETIMES } from './sometimes.js';
import { TIMELINE_HEAD } from './timeline.js';
import type { Report } from './worker.js';
import { Simulator } from './workers.js';

const HELP = `Runs the library in a simulated fleet, and checks what must hold at every step.

  npm run simulate -- [--seeds N] [--from S] [--seconds T] [--workers W] [--json]
  npm run simulate -- --replay SEED
  npm run simulate -- --mutants [--only NAME]

  --seeds N     how many worlds, each decided by its seed (default 1000)
  --from S      the first seed (default 1)
  --seconds T   as many seeds as there is time for, instead of --seeds
  --workers W   threads (default: one a core)
  --json        one line of JSON, last on stdout
  --replay SEED the timeline of a seed; if it breaks an invariant, of the smallest plan that still does
  --mutants     builds the library with faults in it, and insists that each is noticed
  --only NAME   only the mutants whose name contains this
`;

/** Seeds that a thread is given at once. */
const CHUNK = 20;
/** Fewer seeds than these can not show everything that happens sometimes. */
const ENOUGH_SEEDS = 300;
/** Within so many seeds each mutant must be noticed. */
const MUTANT_SEEDS = 2_000;

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seconds: { type: 'string' },
    workers: { type: 'string' },
    json: { type: 'boolean', default: false },
    replay: { type: 'string' },
    mutants: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

if (options.help) process.stdout.write(HELP);
else if (options.replay !== undefined) process.exitCode = await replay(number('replay', options.replay, 0));
else if (options.mutants)
  process.exitCode = await hunt(MUTANTS.filter(({ name }) => name.includes(options.only)));
else process.exitCode = await search();

function number(name: string, text: string, least = 1): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  process.stderr.write(`--${name} is ${JSON.stringify(text)}. Accepted: a whole number from ${least} on.\n`);
  process.exit(2);
}

function workerCount(): number {
  return options.workers === undefined ? availableParallelism() : number('workers', options.workers);
}

/** Many seeds on all cores. */
async function search(): Promise<number> {
  const first = number('from', options.from, 0);
  const seconds = options.seconds === undefined ? undefined : number('seconds', options.seconds);
  const count = seconds === undefined ? number('seeds', options.seeds) : Number.POSITIVE_INFINITY;
  const until = seconds === undefined ? Number.POSITIVE_INFINITY : Date.now() + seconds * 1_000;
  const reports: Report[] = [];
  let next = first;
  const work = async (): Promise<void> => {
    const simulator = new Simulator(DIST);
    try {
      while (
        next < first + count &&
        Date.now() < until &&
        !reports.some(({ violations }) => violations.length > 0)
      ) {
        const from = next;
        next += Math.min(CHUNK, first + count - next);
        reports.push(await simulator.run({ from, count: next - from, stopAtFirst: false }));
      }
    } finally {
      await simulator.end();
    }
  };
  await Promise.all(Array.from({ length: workerCount() }, work));

  const seeds = sum(reports, (report) => report.seeds);
  const steps = sum(reports, (report) => report.steps);
  const fewestSteps = Math.min(...reports.map((report) => report.fewestSteps));
  const violations = reports.flatMap((report) => report.violations).sort((a, b) => a.seed - b.seed);
  const sometimes = Object.fromEntries(
    SOMETIMES.map((name) => [name, sum(reports, (report) => report.sometimes[name])]),
  );
  const never = seeds < ENOUGH_SEEDS ? [] : SOMETIMES.filter((name) => sometimes[name] === 0);
  const [worst] = violations;
  if (worst !== undefined) await tellViolation(worst.seed);
  for (const name of never) process.stderr.write(`It never happened in ${seeds} seeds: ${name}\n`);
  process.stderr.write(
    `${seeds} seeds, ${steps} steps (at least ${fewestSteps} a seed), ${violations.length} violations.\n`,
  );
  if (options.json) {
    process.stdout.write(
      `${JSON.stringify({ seeds, steps, violations: violations.length, fewestSteps, sometimes })}\n`,
    );
  }
  return violations.length > 0 || never.length > 0 ? 1 : 0;
}

function sum(reports: readonly Report[], of: (report: Report) => number): number {
  return reports.reduce((total, report) => total + of(report), 0);
}

/** The timeline of the smallest plan that we find. */
async function tellViolation(seed: number): Promise<void> {
  const library = await loadLibrary(DIST);
  const plan = planOf(seed);
  const smallest = await shrink(library, plan, await simulate(library, plan, false));
  const { timeline } = await simulate(library, smallest, true);
  process.stderr.write(
    `Seed ${seed}, with ${smallest.acts.length} of its ${plan.acts.length} acts:\n\n` +
      `${TIMELINE_HEAD}\n${timeline.join('\n')}\n\nSee it again: npm run simulate -- --replay ${seed}\n`,
  );
}

async function replay(seed: number): Promise<number> {
  const library = await loadLibrary(DIST);
  const plan = planOf(seed);
  const result = await simulate(library, plan, true);
  if (result.violation !== undefined) {
    await tellViolation(seed);
    return 1;
  }
  process.stdout.write(`${TIMELINE_HEAD}\n${result.timeline.join('\n')}\n`);
  process.stderr.write(`Seed ${seed}: ${result.steps} steps, no violation.\n`);
  return 0;
}

interface Verdict {
  readonly mutant: Mutant;
  readonly isCaught: boolean;
  readonly by: string;
  readonly seeds: number;
}

/** Every mutant has to be noticed, by an invariant that is about its fault. */
async function hunt(mutants: readonly Mutant[]): Promise<number> {
  const verdicts: Verdict[] = [];
  const left = [...mutants];
  const work = async (): Promise<void> => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const verdict = await judge(mutant);
      verdicts.push(verdict);
      const { isCaught, by, seeds } = verdict;
      process.stderr.write(`${isCaught ? 'caught' : 'MISSED'}  ${mutant.name}: ${by}, ${seeds} seeds\n`);
    }
  };
  await Promise.all(Array.from({ length: workerCount() }, work));
  const missed = verdicts.filter(({ isCaught }) => !isCaught);
  process.stderr.write(`${verdicts.length - missed.length} of ${verdicts.length} mutants were caught.\n`);
  if (options.json) {
    const table = mutants.map(({ name }) => {
      const { isCaught, by, seeds } = verdicts.find(({ mutant }) => mutant.name === name) as Verdict;
      return { mutant: name, caught: isCaught, by, seeds };
    });
    process.stdout.write(`${JSON.stringify(table)}\n`);
  }
  return missed.length > 0 ? 1 : 0;
}

async function judge(mutant: Mutant): Promise<Verdict> {
  let build: ReturnType<typeof buildMutant> | undefined;
  let simulator: Simulator | undefined;
  try {
    build = buildMutant(mutant);
    simulator = new Simulator(build.dist);
    const { seeds, violations } = await simulator.run({ from: 1, count: MUTANT_SEEDS, stopAtFirst: true });
    const [violation] = violations;
    if (violation === undefined) return { mutant, isCaught: false, by: 'nothing', seeds };
    return {
      mutant,
      isCaught: mutant.caughtBy.includes(violation.invariant),
      by: violation.invariant,
      seeds,
    };
  } catch (error) {
    return { mutant, isCaught: false, by: `no invariant: ${(error as Error).message}`, seeds: 0 };
  } finally {
    await simulator?.end();
    build?.remove();
  }
}
