// Prints where the time of a profile was spent: by package, by function, and under each function of joblatch.
//
//   node bench/top.js FILE.cpuprofile

import { readFileSync } from 'node:fs';

const LINES = 30;

const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const byId = new Map(nodes.map((node) => [node.id, node]));
for (const node of nodes) for (const child of node.children ?? []) byId.get(child).parent = node;

const packages = new Map();
const functions = new Map();
const below = new Map();
let total = 0;
for (const [i, id] of samples.entries()) {
  const node = byId.get(id);
  const us = timeDeltas[i];
  if (node.callFrame.functionName === '(idle)' || node.callFrame.functionName === '(program)') continue;
  total += us;
  add(packages, packageOf(node.callFrame), us);
  add(functions, nameOf(node.callFrame), us);
  const callers = new Set();
  for (let at = node; at !== undefined; at = at.parent) {
    const { url } = at.callFrame;
    if (url.includes('/packages/joblatch/') || url.includes('abort_controller'))
      callers.add(nameOf(at.callFrame));
  }
  for (const caller of callers) add(below, caller, us);
}
show('self time by package', packages);
show('self time by function', functions);
show('time in functions of joblatch (and abort controllers), with what they call at once', below);

function nameOf({ functionName, url, lineNumber }) {
  const place = url.replace(/^.*\/(?=(bench|packages\/joblatch|node_modules)\/)/, '');
  return `${functionName || '(anonymous)'} ${place}${url ? `:${lineNumber + 1}` : ''}`;
}

function packageOf({ functionName, url }) {
  if (url === '') return functionName === '(garbage collector)' ? functionName : 'engine';
  if (url.startsWith('node:')) return 'node';
  if (url.includes('/packages/joblatch/')) return 'joblatch';
  return /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? 'bench';
}

function add(sums, name, us) {
  sums.set(name, (sums.get(name) ?? 0) + us);
}

function show(title, sums) {
  console.log(`\n${title}, of ${(total / 1e6).toFixed(1)} s in which the process did something`);
  const sorted = [...sums].sort(([, a], [, b]) => b - a).slice(0, LINES);
  for (const [name, us] of sorted) console.log(`${((us / total) * 100).toFixed(1).padStart(6)} %  ${name}`);
}
