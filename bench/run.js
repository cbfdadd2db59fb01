#!/usr/bin/env node
// Measures joblatch beside the same statements by hand and beside other lock libraries; see docs/bench.md.
//
//   npm run bench                         all of it, about 7 minutes
//   npm run bench -- --quick              20 seconds, to see that it works; the figures mean nothing
//   npm run bench -- --only ioredis       some of: ioredis, node-redis, pg, sqlite
//   npm run bench -- --row lose           some of: take, lose
//   npm run bench -- --slice 200 --rounds 40
//   npm run -s bench -- --json            the figures as JSON on stdout
//   npm run bench -- --profile pg/lose-1/joblatch     where the time of one contestant goes
//
// Stores are those that JOBLATCH_TEST_REDIS and JOBLATCH_TEST_POSTGRES name, else they are started for the while.
// In those it uses keys that begin with `joblatch-bench` and a schema `joblatch_bench`, and removes both.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readOptions } from './options.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const args = process.argv.slice(2);
const options = readOptions(args);
const scratch = mkdtempSync(join(tmpdir(), 'joblatch-bench-'));

/** Runs a command whose words need no quoting by a shell; what it prints on stdout goes to stderr for JSON. */
function run(command, env = {}) {
  const stdout = options.json ? 2 : 'inherit';
  const { status, error } = spawnSync(command, {
    cwd: root,
    shell: true,
    stdio: ['ignore', stdout, 'inherit'],
    env: { ...process.env, ...env },
  });
  if (error) throw error;
  if (status !== 0) process.exitCode = status ?? 1;
  return status === 0;
}

function measure() {
  const results = join(scratch, 'results.json');
  const words = args.map((arg) => (/^[\w./,=-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`));
  const command = ['node', '--expose-gc', 'bench/measure.js', ...words].join(' ');
  const env = { JOBLATCH_BENCH_RESULTS: results, JOBLATCH_BENCH_SCRATCH: scratch };
  const given = process.env.JOBLATCH_TEST_REDIS ?? process.env.JOBLATCH_TEST_POSTGRES;
  const done =
    given === undefined
      ? run(`node scripts/stores.js --only redis,postgres --exec "${command}"`, env)
      : run(command, env);
  if (!done) return;
  if (options.profile !== undefined) run(`node bench/top.js ${join(scratch, 'bench.cpuprofile')}`);
  if (options.json) process.stdout.write(readFileSync(results));
}

try {
  const installed = existsSync(join(root, 'bench/node_modules/.package-lock.json'));
  const ready =
    (installed || run('npm ci --prefix bench --no-audit --no-fund')) &&
    (options.build === false || run('npm run --silent build --workspace joblatch'));
  if (ready) measure();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
