import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { INVARIANTS } from '../simulation/dist/invariants.js';
import { type Library, loadLibrary } from '../simulation/dist/library.js';
import { MUTANTS, type Mutant } from '../simulation/dist/mutants.js';
import { buildMutant } from '../simulation/dist/mutate.js';
import { DIST, LIBRARY, ROOT } from '../simulation/dist/paths.js';
import { type Plan, planOf } from '../simulation/dist/plan.js';
import { shrink } from '../simulation/dist/shrink.js';
import { type Result, simulate } from '../simulation/dist/simulate.js';
import { SOMETIMES } from '../simulation/dist/sometimes.js';

const run = promisify(execFile);
const MAIN = join(ROOT, 'simulation', 'dist', 'main.js');

describe('a seed', () => {
  it('gives the same timeline each time, and another seed another', async () => {
    const library = await loadLibrary(DIST);
    const [first, again, other] = [
      await simulate(library, planOf(7), true),
      await simulate(library, planOf(7), true),
      await simulate(library, planOf(8), true),
    ];
    expect(first.violation).toBeUndefined();
    expect(again.timeline).toEqual(first.timeline);
    expect(other.timeline).not.toEqual(first.timeline);
  });

  it('is told on the command line, with the counters as JSON on the last line', async () => {
    const { stdout } = await run(process.execPath, [MAIN, '--seeds', '12', '--from', '100', '--json']);
    const last = JSON.parse(stdout.trim().split('\n').at(-1) as string);
    expect(last).toMatchObject({ seeds: 12, violations: 0 });
    expect(last.steps).toBeGreaterThan(12_000);
    expect(Object.keys(last.sometimes)).toEqual([...SOMETIMES]);
    expect(last.sometimes['refused: held']).toBeGreaterThan(0);
  });

  it('is refused if it is none', async () => {
    await expect(run(process.execPath, [MAIN, '--seeds', 'many'])).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--seeds is "many"'),
    });
  });
});

describe('a seed that breaks an invariant', () => {
  const mutant = MUTANTS.find(({ name }) => name === 'cap not enforced') as Mutant;
  let build: ReturnType<typeof buildMutant>;
  let library: Library;
  let plan: Plan;
  let result: Result;

  beforeAll(async () => {
    build = buildMutant(mutant);
    library = await loadLibrary(build.dist);
    for (let seed = 1; result?.violation === undefined; seed += 1) {
      plan = planOf(seed);
      result = await simulate(library, plan, true);
    }
  });
  afterAll(() => build.remove());

  it('names the invariant, and who held what by whose clock', () => {
    expect(result.violation?.invariant).toBe('at-most');
    const end = result.timeline.slice(result.timeline.findIndex((line) => line.includes('VIOLATION')));
    expect(end[0]).toContain('VIOLATION of at-most');
    expect(end.slice(1).join('\n')).toMatch(/token \d+: .*by its clock; in the store: live for another/);
  });

  it('is made small, and breaks the same one', async () => {
    const smallest = await shrink(library, plan, result);
    expect(smallest.acts.length).toBeLessThan(plan.acts.length / 10);
    expect((await simulate(library, smallest, false)).violation?.invariant).toBe('at-most');
  });
});

describe('the mutants', () => {
  it.each(MUTANTS)(
    '$name: changes what is there, and an invariant is to tell',
    ({ file, find, caughtBy }) => {
      const source = readFileSync(join(LIBRARY, 'src', file), 'utf8');
      expect(source.split(find)).toHaveLength(2);
      expect(caughtBy.length).toBeGreaterThan(0);
      for (const invariant of caughtBy) expect(INVARIANTS).toHaveProperty(invariant);
    },
  );

  it('are many, each with a name of its own', () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(20);
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  });

  it('and the invariants are in docs/simulation.md', () => {
    const page = readFileSync(join(ROOT, 'docs', 'simulation.md'), 'utf8');
    for (const { name } of MUTANTS) expect(page).toContain(`| ${name} |`);
    for (const [name, sentence] of Object.entries(INVARIANTS))
      expect(page).toContain(`| ${name} | ${sentence} |`);
  });
});
