// Run by run.js, which brings what this needs.

import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { alternate, warmUp } from './alternate.js';
import { HELD, PREFIX } from './keys.js';
import { readOptions } from './options.js';
import { printCounts, printFigures, printMachine } from './report.js';
import { machine } from './versions.js';

const LOADERS = {
  ioredis: { variable: 'JOBLATCH_TEST_REDIS', load: () => import('./contestants/ioredis.js') },
  'node-redis': { variable: 'JOBLATCH_TEST_REDIS', load: () => import('./contestants/node-redis.js') },
  pg: { variable: 'JOBLATCH_TEST_POSTGRES', load: () => import('./contestants/pg.js') },
  sqlite: { load: () => import('./contestants/sqlite.js') },
};

const RING = 1_024;
/** `keys(worker, turn, workers)` names the key of an operation. */
const SCENARIOS = [
  {
    name: 'take-1',
    row: 'take',
    workers: 1,
    title: 'take and give back, distinct keys, one at a time',
    keys: ring,
  },
  {
    name: 'take-64',
    row: 'take',
    workers: 64,
    title: 'take and give back, distinct keys, 64 at once',
    keys: ring,
  },
  {
    name: 'take-same',
    row: 'take',
    workers: 1,
    title: 'take and give back, the same key, one at a time',
    keys: () => `${PREFIX}:same`,
  },
  { name: 'lose-1', row: 'lose', workers: 1, title: 'losing attempt, one at a time', keys: () => HELD },
  { name: 'lose-64', row: 'lose', workers: 64, title: 'losing attempt, 64 at once', keys: () => HELD },
];

// 1,024 keys for all workers, again and again.
const names = Array.from({ length: RING }, (_, i) => `${PREFIX}:${i}`);
function ring(worker, turn, workers) {
  return names[(worker + turn * workers) % RING];
}

const options = readOptions(process.argv.slice(2));
const say = (text) => (options.json ? process.stderr : process.stdout).write(`${text}\n`);
const [onlyGroup, onlyScenario, onlyContestant] = options.profile?.split('/') ?? [];

const results = { machine: machine(), loadBefore: loadavg(), options, stores: {}, figures: [], counts: [] };
printMachine(say, results);

for (const name of onlyGroup === undefined ? options.only : [onlyGroup]) {
  const { variable, load } = LOADERS[name];
  const url = variable === undefined ? undefined : process.env[variable];
  if (variable !== undefined && url === undefined) {
    say(`\n${name}: left out, ${variable} is not set and the store could not be started`);
    continue;
  }
  const { open } = await load();
  const group = await open(url);
  try {
    results.stores[name] = group.store;
    say(`\n${name}: ${group.store}`);
    if (onlyScenario === undefined) await runGroup(name, group);
    else await profile(group);
  } finally {
    await group.close();
  }
}

results.loadAfter = loadavg();
say(`\nload average: before ${shown(results.loadBefore)}, after ${shown(results.loadAfter)}`);
writeFileSync(process.env.JOBLATCH_BENCH_RESULTS, `${JSON.stringify(results, undefined, 2)}\n`);

function shown(loads) {
  return loads.map((load) => load.toFixed(1)).join(' ');
}

async function runGroup(name, group) {
  for (const scenario of SCENARIOS.filter(({ row }) => options.row.includes(row))) {
    const entries = entriesOf(group, scenario);
    if (scenario.name.endsWith('-1')) await warmUp(entries, options.warmUp);
    const figures = await alternate(entries, scenario.workers, options);
    results.figures.push({ group: name, scenario: scenario.name, contestants: figures });
    printFigures(say, `${name}: ${scenario.title}`, figures);
  }
  for (const row of options.row) await count(name, group, row);
}

/** Bytes, commands, transactions: what the store had to do, without a clock. */
async function count(name, group, row) {
  if (group.counter === undefined) return;
  const scenario = SCENARIOS.find((one) => one.row === row);
  const counted = [];
  for (const { name: contestant, operation, few } of entriesOf(group, scenario)) {
    const times = few ? options.counted[row] / 50 : options.counted[row];
    const read = await group.counter();
    for (let turn = 0; turn < times; turn += 1) await operation(0, turn, 1);
    counted.push({ name: contestant, times, ...(await read()) });
  }
  const title = row === 'take' ? 'each pair of take and give back' : 'each losing attempt';
  const explained = row === 'lose' ? await group.explain?.(HELD) : undefined;
  results.counts.push({ group: name, row, contestants: counted, explained });
  printCounts(say, `${name}: what ${title} does to the store`, counted);
  if (explained !== undefined) say(`EXPLAIN (ANALYZE, WAL) of joblatch's losing statement: ${explained}`);
}

/** The floor comes first. */
function entriesOf(group, scenario) {
  const list = scenario.row === 'take' ? group.takers : group.losers;
  return list
    .filter(({ alone }) => !alone || scenario.workers === 1)
    .map(({ name, kind, token, few, alone, run }) => ({
      name,
      kind,
      token,
      few,
      alone,
      operation: (worker, turn, workers) => run(scenario.keys(worker, turn, workers)),
    }));
}

async function profile(group) {
  const scenario = SCENARIOS.find(({ name }) => name === onlyScenario);
  const entries = scenario && entriesOf(group, scenario);
  const entry = entries?.find(({ name }) => name === onlyContestant);
  if (entry === undefined)
    throw new Error(
      `--profile wants GROUP/SCENARIO/CONTESTANT, such as pg/lose-1/joblatch; scenarios: ${SCENARIOS.map(({ name }) => name).join(', ')}; ` +
        `contestants: ${(entries ?? []).map(({ name }) => name).join(', ')}`,
    );
  const run = async (sliceMs) =>
    (await alternate([entry], scenario.workers, { sliceMs, rounds: 1, warmUpRounds: 0 }))[0];
  await run(3_000);
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: 200 });
  await session.post('Profiler.start');
  const figure = await run(6_000);
  const { profile: found } = await session.post('Profiler.stop');
  session.disconnect();
  writeFileSync(join(process.env.JOBLATCH_BENCH_SCRATCH, 'bench.cpuprofile'), JSON.stringify(found));
  printFigures(say, options.profile, [figure]);
}
