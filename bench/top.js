// Prints in which functions the time of a profile (node --cpu-prof) was spent, and which packages they are of.
//
//   node bench/top.js FOLDER

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder] = process.argv.slice(2);
const LINES = 40;

for (const file of readdirSync(folder).filter((name) => name.endsWith('.cpuprofile'))) {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(join(folder, file), 'utf8'));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const functions = new Map();
  const packages = new Map();
  let total = 0;
  for (const [i, id] of samples.entries()) {
    const { functionName, url, lineNumber } = byId.get(id).callFrame;
    if (functionName === '(idle)' || functionName === '(program)') continue;
    const place = url.replace(/^.*\/(?=(bench|packages\/joblatch|node_modules)\/)/, '');
    add(
      functions,
      `${functionName || '(anonymous)'} ${place}${url ? `:${lineNumber + 1}` : ''}`,
      timeDeltas[i],
    );
    add(packages, packageOf(functionName, url), timeDeltas[i]);
    total += timeDeltas[i];
  }
  show('self time by package', packages, total);
  show('self time by function', functions, total);
}

function packageOf(functionName, url) {
  if (url === '') return functionName === '(garbage collector)' ? functionName : 'engine';
  if (url.startsWith('node:')) return 'node';
  if (url.includes('/packages/joblatch/')) return 'joblatch';
  return /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? 'bench';
}

function add(sums, name, us) {
  sums.set(name, (sums.get(name) ?? 0) + us);
}

function show(title, sums, total) {
  console.log(`\n${title}, of ${(total / 1e6).toFixed(1)} s in which the process did something`);
  const sorted = [...sums].sort(([, a], [, b]) => b - a).slice(0, LINES);
  for (const [name, us] of sorted) console.log(`${((us / total) * 100).toFixed(1).padStart(6)} %  ${name}`);
}
