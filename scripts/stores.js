#!/usr/bin/env node
// Starts the real stores that are on this machine, each on a free port with data of its own, and tells the
// tests where they are by variables such as JOBLATCH_TEST_POSTGRES. Stays until Ctrl-C.
//
//   npm run stores                          start, print the variables, stay
//   npm run stores -- --exec "npm test"     run a command with the variables, then end with its exit code
//   npm run stores -- --env FILE            write the variables to a file too
//   npm run stores -- --only postgres,redis
//   npm run stores -- --install             install what is missing first (Debian, as root)
//
// Ends only what it started, and removes the data.

import { spawn } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { installPackages } from './stores/install.js';
import { scratchFolder, sweepOldFolders } from './stores/scratch.js';
import { startServer, stopServers } from './stores/server.js';
import { findStore, isIncomplete, STORES } from './stores/table.js';

const { values: options } = parseArgs({
  options: {
    exec: { type: 'string' },
    env: { type: 'string' },
    only: { type: 'string' },
    install: { type: 'boolean', default: false },
  },
});

/** The names that stores may be asked for by. */
function chosenStores() {
  if (options.only === undefined) return STORES;
  const names = options.only.split(',');
  for (const name of names)
    if (!STORES.some((store) => store.name === name))
      throw new Error(`--only ${name}: there is no such store, only ${STORES.map((s) => s.name).join(', ')}`);
  return STORES.filter((store) => names.includes(store.name));
}

/** The binaries of each store that is here; installs the missing ones if told to, else says how. */
function found(stores) {
  const missing = stores.filter(isIncomplete);
  if (missing.length > 0 && options.install) installPackages(missing.flatMap((store) => store.packages));
  return stores.flatMap((store) => {
    const binaries = findStore(store);
    if (binaries !== undefined) return [{ store, binaries }];
    if (options.install) throw new Error(`${store.name}: installed, but its server is not to be found`);
    console.error(
      `# ${store.name}: not on this machine; on Debian: apt-get install ${store.packages.join(' ')}`,
    );
    return [];
  });
}

/** Runs the command of --exec; its exit code, or the shell's number for the signal that ended it. */
function runCommand(command, variables) {
  return new Promise((resolve) => {
    const child = spawn(command, { shell: true, stdio: 'inherit', env: { ...process.env, ...variables } });
    child.on('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
    // A Ctrl-C reaches the child from the terminal as well; a kill from elsewhere only by us.
    process.once('SIGTERM', () => child.kill('SIGTERM'));
  });
}

const untilSignal = () =>
  new Promise((resolve) => {
    // Keeps the process alive, which signal handlers do not.
    const alive = setInterval(() => {}, 2 ** 30);
    const end = () => resolve(clearInterval(alive));
    process.once('SIGTERM', end);
    process.once('SIGINT', end);
    process.once('SIGHUP', end);
  });

// Installed first: a Ctrl-C while a server starts must still clean up, and one during --exec ends the command.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});

sweepOldFolders();
const folder = scratchFolder();
try {
  const variables = {};
  for (const { store, binaries } of found(chosenStores())) {
    const url = await startServer(store, binaries, folder);
    variables[store.variable] = url;
    console.log(`${store.variable}=${url}`);
  }
  if (options.env !== undefined)
    writeFileSync(
      options.env,
      Object.entries(variables)
        .map(([name, url]) => `${name}=${url}\n`)
        .join(''),
    );
  if (options.exec === undefined) await untilSignal();
  else process.exitCode = await runCommand(options.exec, variables);
} catch (error) {
  console.error(`stores: ${error.message}`);
  process.exitCode = 1;
} finally {
  await stopServers();
  rmSync(folder, { recursive: true, force: true });
}
