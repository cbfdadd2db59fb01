import { execFileSync, spawn } from 'node:child_process';
import { chownSync, closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findBinary } from './table.js';

/** Slow machines initialise a database for many seconds. */
const START_TIMEOUT_MS = 60_000;
const POLL_MS = 50;
/** After this long a server that was asked to stop is killed. */
const STOP_TIMEOUT_MS = 10_000;

const running = [];

/**
 * Starts one server and waits until it answers.
 *
 * @returns {Promise<string>} its URL
 */
export async function startServer(store, binaries, folder) {
  const data = join(folder, store.name);
  mkdirSync(data);
  const user = serverUser();
  if (user !== undefined) chownSync(data, user.uid, user.gid);
  const port = await freePort();
  const place = { binaries, data, port };

  for (const [command, ...args] of store.prepare?.(place) ?? []) {
    try {
      execFileSync(command, args, { ...user, cwd: data, stdio: ['ignore', 'pipe', 'pipe'] });
    } catch (failed) {
      throw new Error(`${store.name}: ${command} failed\n${failed.stdout ?? ''}${failed.stderr ?? ''}`);
    }
  }

  const log = join(folder, `${store.name}.log`);
  const output = openSync(log, 'a');
  const [command, ...args] = [...diesWithUs(store.stopSignal), ...store.command(place)];
  const child = spawn(command, args, {
    ...user,
    cwd: data,
    stdio: ['ignore', output, output],
    // A group of its own: a Ctrl-C in the terminal is for us, who then end the servers in order.
    detached: true,
  });
  closeSync(output);
  let ended = false;
  const end = new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  }).then((how) => {
    ended = true;
    return how;
  });
  running.push({ child, end, stopSignal: store.stopSignal });

  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await answers(store, port))) {
    if (ended) throw new Error(`${store.name} ended: ${await end}\n${readFileSync(log, 'utf8')}`);
    if (Date.now() > deadline)
      throw new Error(`${store.name} does not answer on port ${port}\n${readFileSync(log, 'utf8')}`);
    await sleep(POLL_MS);
  }
  return store.url(place);
}

/** Ends all servers, and waits until they are gone. */
export async function stopServers() {
  await Promise.all(
    running.map(async ({ child, end, stopSignal }) => {
      child.kill(stopSignal);
      const killer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await end;
      clearTimeout(killer);
    }),
  );
}

/** Databases refuse to run as root; then it is nobody who runs them. */
function serverUser() {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** On Linux the kernel ends a server when we are killed and can not do it ourselves. */
function diesWithUs(signal) {
  const setpriv = process.platform === 'linux' ? findBinary('setpriv') : undefined;
  return setpriv === undefined ? [] : [setpriv, '--pdeathsig', signal.replace(/^SIG/, ''), '--'];
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Whether the server on this port says what a server of this store says once it takes requests. */
function answers(store, port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const done = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_000, () => done(false));
    socket.on('error', () => done(false));
    socket.on('close', () => done(false));
    socket.on('connect', () => store.greeting !== undefined && socket.write(store.greeting));
    socket.on('data', (data) => done(store.isReady(data)));
  });
}
