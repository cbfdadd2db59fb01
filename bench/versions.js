import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

const json = (path) => JSON.parse(readFileSync(path, 'utf8'));

/** What the figures depend on. */
export function machine() {
  return {
    date: new Date().toISOString(),
    joblatch: commit(),
    node: process.version,
    system: `${type()} ${release()}, ${process.arch}`,
    cpu: `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown'}`,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    packages: packages(),
  };
}

function commit() {
  const git = (...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const changed = git('status', '--porcelain', '--', 'packages/joblatch/src') !== '';
    return `commit ${git('rev-parse', '--short=10', 'HEAD')}${changed ? ', with changes' : ''}`;
  } catch {
    return `version ${json(`${root}/packages/joblatch/package.json`).version}`;
  }
}

/** The packages of bench/package.json as they are installed, and the driver of SQLite. */
function packages() {
  const wanted = Object.keys(json(`${root}/bench/package.json`).dependencies);
  const found = wanted.map((name) => {
    const installed = json(`${root}/bench/node_modules/${name}/package.json`);
    return `${installed.name} ${installed.version.replace(/^v/, '')}`;
  });
  return [...found, `libsql ${json(`${root}/node_modules/libsql/package.json`).version}`];
}
