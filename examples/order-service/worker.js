// One instance of the order service: both jobs on timers, as in each of its siblings.
//
//   node worker.js NAME FOLDER with-lock|without-lock       (started by the director, demo.js)

import { join } from 'node:path';
import { createLocks, isLockError } from 'joblatch';
import { sqliteProvider } from 'joblatch/sqlite';
import { openDatabase } from './database.js';
import { Incidents } from './incidents.js';
import { CANCEL, cancelExpiredOrders, PUBLISH, publishOutbox } from './jobs.js';

const [worker, folder, mode] = process.argv.slice(2);

const database = await openDatabase(join(folder, 'shop.db'));
const locks = createLocks({ provider: sqliteProvider({ path: join(folder, 'locks.db') }) });
const incidents = new Incidents(folder, (place, id) => tell({ type: 'standing', place, id }));
const timers = [];

function start() {
  schedule(CANCEL, cancelExpiredOrders({ database, incidents }));
  schedule(PUBLISH, publishOutbox({ database, incidents, worker }));
}

/** The one difference between the two ways to run the demo. */
function schedule({ every, ...options }, fn) {
  const shown = showing(options.name, fn);
  const job = mode === 'without-lock' ? withoutLock(shown) : locks.job(options, shown);
  timers.push(setInterval(job.tick, every));
}

function withoutLock(fn) {
  const tick = () => {
    fn({ token: undefined, assertHeld: () => {} }).catch(() => {});
  };
  return { tick };
}

// What follows is for the demo only: a service has nothing to tell and nobody to listen to.

let runs = 0;

/** Tells the director when a run begins and how it ends. */
function showing(job, fn) {
  return async (context) => {
    const run = ++runs;
    const startedAt = performance.now();
    const ended = (how) =>
      tell({ type: 'ended', job, run, tookMs: Math.round(performance.now() - startedAt), ...how });
    tell({ type: 'started', job, run, token: context.token });
    try {
      const done = await fn(context);
      ended({ done });
      return done;
    } catch (error) {
      ended({ error: { name: error.name, message: error.message } });
      throw error;
    }
  };
}

locks.on('error', ({ error }) => {
  // What the jobs themselves throw has been told already.
  if (isLockError(error)) tell({ type: 'problem', message: error.message });
});

function tell(message) {
  if (process.connected) process.send(message);
}

process.on('message', ({ type, place }) => {
  if (type === 'start') start();
  if (type === 'incident') incidents.order(place);
});

process.once('SIGTERM', async () => {
  for (const timer of timers) clearInterval(timer);
  await locks.close({ grace: '5s' });
  database.close();
  process.exit(0);
});

// Ctrl-C reaches the whole group of processes; the director decides what becomes of us.
process.on('SIGINT', () => {});

process.once('disconnect', () => {
  // The director is gone. A sibling that it had stopped can not see that, unless somebody wakes it up.
  process.kill(0, 'SIGCONT');
  process.exit(1);
});

tell({ type: 'ready' });
