// The story of the demo. It waits for things to happen, never for time to pass, so that it is the same on a slow
// machine.

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sqliteProvider } from 'joblatch/sqlite';
import { openDatabase } from './database.js';
import { startFleet } from './fleet.js';
import { endIncident } from './incidents.js';
import { CANCEL, CHECKED_NOT_WRITTEN, HALF_CANCELLED, JOBS, PUBLISH } from './jobs.js';
import { Shop } from './shop.js';
import { tally, verdict } from './tally.js';
import { drawTally, seconds } from './view.js';

const NAMES = ['worker 1', 'worker 2', 'worker 3'];
/** Longer than a lease. */
const PAUSE_MS = 3_000;
/** Nothing takes this long, even on a slow machine that has other things to do. */
const PATIENCE_MS = 20_000;

/** Why a run ends early, in few words. */
const REASONS = {
  StaleRunError: 'its write was REFUSED, token too old',
  LockLostError: 'it has lost the lock',
};

export class Director {
  #mode;
  #folder;
  #view;
  #shop;
  #workers = [];
  /** What the workers have told, in the order in which it came. */
  #told = [];
  #crash;
  #startedAt = performance.now();

  constructor({ mode, folder, view }) {
    this.#mode = mode;
    this.#folder = folder;
    this.#view = view;
  }

  /** @returns {Promise<boolean>} whether the counts are what they must be */
  async play() {
    const locked = this.#mode === 'with-lock';
    this.#view.line(`Three workers, two jobs, one SQLite file; ${locked ? 'with' : 'WITHOUT'} the lock.`);
    this.#shop = new Shop(await openDatabase(join(this.#folder, 'shop.db')));
    await this.#shop.open();
    await this.#startWorkers();
    const stopDrawing = this.#keepDrawing();

    await this.#shop.placeOrders();
    await this.#until('the first events', () => this.#shop.count().published >= 5);
    await this.#killOne();
    await this.#pauseOne();
    await this.#until('all orders and events to be done', () => this.#shop.idle);
    await Promise.all(this.#workers.map((worker) => worker.stop()));

    await stopDrawing();
    return this.#conclude();
  }

  killAll() {
    for (const worker of this.#workers) worker.killNow();
  }

  async #startWorkers() {
    this.#workers = startFleet({
      names: NAMES,
      folder: this.#folder,
      mode: this.#mode,
      onMessage: (worker, message) => this.#hear(worker, message),
      onCrash: (worker, how) => {
        this.#crash = new Error(`${worker.name} ended by itself: ${how}`);
      },
    });
    await this.#until('the workers to start', () =>
      this.#workers.every(({ status }) => status === 'working'),
    );
    for (const worker of this.#workers) {
      this.#say(`${worker.name} is there (pid ${worker.pid})`);
      worker.send({ type: 'start' });
    }
  }

  /** SIGKILL in the middle of a transaction. */
  async #killOne() {
    const { worker, job, id } = await this.#incidentAt(HALF_CANCELLED, CANCEL);
    await worker.kill();
    const at = this.#say(`${worker.name} KILLED in ${job}, with order ${id} half cancelled`);
    await this.#takeover(worker, job, at);
  }

  /** SIGSTOP between the check that the lock is held and the write; SIGCONT when another one has done the work. */
  async #pauseOne() {
    const { worker, job, id } = await this.#incidentAt(CHECKED_NOT_WRITTEN, PUBLISH);
    worker.pause();
    const at = this.#say(`${worker.name} PAUSED in ${job}, between check and write of event ${id}`);
    await this.#takeover(worker, job, at);
    await this.#until('the other worker to publish the event', () => this.#shop.timesPublished(id) > 0);
    await this.#until('the pause to be over', () => this.#now() - at >= PAUSE_MS);

    const paused = seconds(this.#now() - at);
    const from = this.#say(`${worker.name} CONTINUES after ${paused}; event ${id} was published meanwhile`);
    endIncident(this.#folder, CHECKED_NOT_WRITTEN);
    worker.continue();
    await this.#until('the paused worker to end its run', () =>
      this.#told.some((m) => m.type === 'ended' && m.worker === worker && m.job === job && m.at >= from),
    );
    if (this.#shop.timesPublished(id) > 1) this.#say(`${worker.name} has published event ${id} ONCE MORE`);
  }

  /** Orders an accident, and work enough to run into it; gives the worker that now stands still. */
  async #incidentAt(place, { name: job }) {
    for (const worker of this.#workers) worker.send({ type: 'incident', place });
    await this.#shop.placeOrders();
    const { worker, id } = await this.#until(`a worker to come to "${place}"`, () =>
      this.#told.find((m) => m.type === 'standing' && m.place === place),
    );
    return { worker, job, id };
  }

  async #takeover(from, job, since) {
    const next = await this.#until(`another worker to run ${job}`, () =>
      this.#told.find((m) => m.type === 'started' && m.worker !== from && m.job === job && m.at >= since),
    );
    const after = seconds(next.at - since);
    this.#say(
      this.#mode === 'with-lock'
        ? `${next.worker.name} takes over ${job}, ${after} later`
        : `${next.worker.name} runs ${job} as well, ${after} later`,
    );
  }

  #hear(worker, message) {
    this.#told.push({ ...message, worker, at: this.#now() });
    const { type, job, done, tookMs, error } = message;
    if (type === 'problem') this.#say(`${worker.name}: ${message.message}`);
    if (type !== 'ended') return;
    if (error) this.#say(`${worker.name} gives ${job} up: ${REASONS[error.name] ?? error.message}`);
    else if (done > 0 && !this.#view.live) this.#say(`${worker.name} ran ${job}: ${done} in ${tookMs} ms`);
  }

  /** @returns the time at which it was said */
  #say(text) {
    const at = this.#now();
    this.#view.event(at, text);
    return at;
  }

  #now() {
    return performance.now() - this.#startedAt;
  }

  /** Waits until `look` gives something true, and gives that. */
  async #until(what, look) {
    for (const start = this.#now(); ; await delay(20)) {
      const found = look();
      if (found) return found;
      if (this.#crash) throw this.#crash;
      if (this.#now() - start > PATIENCE_MS)
        throw new Error(`waited ${seconds(PATIENCE_MS)} in vain for ${what}`);
    }
  }

  /** Draws ten times a second, from the workers' messages and, for the holds, from the records in the store. */
  #keepDrawing() {
    if (!this.#view.live) return () => {};
    const store = sqliteProvider({ path: join(this.#folder, 'locks.db') });
    const stop = new AbortController();
    const draw = async () => {
      while (!stop.signal.aborted) {
        // A picture that can not be taken is left out: the next one comes soon.
        const records = this.#mode === 'with-lock' ? await store.inspect({}).catch(() => []) : [];
        this.#view.show(this.#picture(records));
        await delay(100);
      }
      await store.close();
    };
    const drawn = draw();
    return () => {
      stop.abort();
      return drawn;
    };
  }

  /** @returns {import('./view.js').Picture} */
  #picture(records) {
    const running = (worker) => [...worker.runs.values()];
    return {
      atMs: this.#now(),
      locked: this.#mode === 'with-lock',
      workers: this.#workers.map((worker) => ({
        name: worker.name,
        pid: worker.pid,
        status: worker.status,
        jobs: running(worker),
      })),
      jobs: JOBS.map((job) => ({
        name: job.name,
        atLeastMs: job.lockAtLeastFor,
        atMostMs: job.lockAtMostFor,
        runners: this.#workers
          .filter((worker) => worker.status === 'working' && running(worker).includes(job.name))
          .map(({ name }) => name),
        hold: this.#holdOf(records.find(({ key }) => key === job.name)),
      })),
      counts: this.#shop.count(),
    };
  }

  #holdOf(record) {
    if (record === undefined || record.state === 'free') return undefined;
    const start = this.#told.findLast((m) => m.type === 'started' && m.token === record.token);
    return {
      worker: start?.worker.name ?? '…',
      kept: record.state === 'kept',
      agoMs: record.acquiredAgoMs ?? 0,
      leftMs: record.leftMs,
    };
  }

  #conclude() {
    const rows = tally(this.#shop);
    const { ok, text } = verdict(rows, this.#mode);
    const { colours } = this.#view;
    this.#view.done();
    for (const line of ['', ...drawTally(rows, colours), '', ok ? text : colours.red(text)])
      this.#view.line(line);
    return ok;
  }
}
