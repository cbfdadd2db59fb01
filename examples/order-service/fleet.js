// The worker processes, as the director sees them.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));
const STOP_LIMIT_MS = 10_000;

/** One worker process and what it has told about itself. */
class Worker {
  /** @type {'starting' | 'working' | 'paused' | 'killed' | 'stopped'} */
  status = 'starting';
  /** The jobs it runs at the moment, by the number of the run. */
  runs = new Map();
  #process;

  constructor(name, process) {
    this.name = name;
    this.#process = process;
  }

  get pid() {
    return this.#process.pid;
  }

  get #gone() {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  send(message) {
    if (this.#process.connected) this.#process.send(message, () => {});
  }

  /** SIGKILL: no handler, no `finally`, nothing runs after it. */
  async kill() {
    this.status = 'killed';
    await this.#end('SIGKILL');
  }

  /** SIGSTOP: all its threads stand still, and it is not told. */
  pause() {
    this.status = 'paused';
    this.#process.kill('SIGSTOP');
  }

  continue() {
    this.status = 'working';
    this.#process.kill('SIGCONT');
  }

  /** SIGTERM: it ends what it runs, then itself. */
  async stop() {
    if (this.#gone) return;
    const limit = setTimeout(() => this.killNow(), STOP_LIMIT_MS);
    this.status = 'stopped';
    await this.#end('SIGTERM');
    clearTimeout(limit);
  }

  killNow() {
    this.#process.kill('SIGKILL');
  }

  async #end(signal) {
    const exited = once(this.#process, 'exit');
    this.#process.kill(signal);
    await exited;
  }
}

/**
 * Starts the workers.
 *
 * @param {(worker: Worker, message: any) => void} onMessage what a worker tells, after it was noted in the worker
 * @param {(worker: Worker, how: string) => void} onCrash a worker ended that nobody had told to
 */
export function startFleet({ names, folder, mode, onMessage, onCrash }) {
  return names.map((name) => {
    const process = fork(WORKER, [name, folder, mode], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    const worker = new Worker(name, process);
    process.on('message', (message) => {
      note(worker, message);
      onMessage(worker, message);
    });
    process.on('exit', (code, signal) => {
      worker.runs.clear();
      if (worker.status !== 'killed' && worker.status !== 'stopped')
        onCrash(worker, signal ?? `code ${code}`);
    });
    return worker;
  });
}

function note(worker, { type, job, run }) {
  if (type === 'ready') worker.status = 'working';
  if (type === 'started') worker.runs.set(run, job);
  if (type === 'ended') worker.runs.delete(run);
}
