// One instance of a fleet: node worker.js SCENARIO DRIVER PATH ARGS…; prints a JSON object a line.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from 'joblatch';
import { openSqlite } from '../support/open-sqlite.js';

const [scenario, driver, path, ...args] = process.argv.slice(2);
const locks = createLocks({ provider: openSqlite(driver, path), pollEvery: 5 });

function tell(fact) {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
}

/** Stands still, timers and all, until the file is there. */
function blockUntil(file) {
  while (!existsSync(file)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
}

const scenarios = {
  /** Increments a number in a file, reading and writing apart, with or without the lock. */
  async count(file, rounds, mode) {
    let refusals = 0;
    locks.on('refused', () => {
      refusals += 1;
    });
    const increment = async () => {
      const before = Number(readFileSync(file, 'utf8'));
      await sleep(1);
      writeFileSync(file, String(before + 1));
    };
    tell({ ready: true });
    blockUntil(`${file}.go`);
    for (let i = 0; i < Number(rounds); i += 1) {
      if (mode === 'locked') await locks.withLock('counter', { wait: '2m' }, increment);
      else await increment();
    }
    tell({ refusals });
  },

  /** Runs a job that stands still until the file is there, and then looks at its lock. */
  async stand(file, lockAtMostFor) {
    const job = locks.job({ name: 'stand', lockAtMostFor }, ({ lock, token }) => {
      tell({ in: true, token });
      blockUntil(file);
      const held = lock.held;
      return { held, aborted: lock.signal.aborted };
    });
    tell({ outcome: await job() });
  },

  /** Tries a job until it runs. */
  async takeOver() {
    const job = locks.job({ name: 'stand', lockAtMostFor: '1m' }, ({ token }) => token);
    for (;;) {
      const outcome = await job();
      if (outcome.status === 'ran') return tell({ token: outcome.value });
      await sleep(20);
    }
  },

  /** Runs a job that ends when its signal aborts; SIGTERM drains. */
  async drain(grace) {
    process.once('SIGTERM', async () => {
      await locks.close({ grace });
      tell({ closed: true });
    });
    const job = locks.job({ name: 'drain', lockAtMostFor: '1h' }, async ({ signal }) => {
      tell({ in: true });
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return String(signal.reason.code);
    });
    tell({ outcome: await job() });
  },

  /** Holds a lock and has nothing else to do: that keeps no process alive. */
  async forget() {
    await locks.acquire('forgotten');
    tell({ in: true });
  },

  /** Holds many locks through several beats. */
  async many(count) {
    let calls = 0;
    const provider = locks.provider;
    const renewMany = provider.renewMany.bind(provider);
    const watched = createLocks({
      provider: Object.assign(Object.create(provider), {
        abilities: (o) => provider.abilities(o),
        acquire: (r, o) => provider.acquire(r, o),
        release: (r, o) => provider.release(r, o),
        renewMany: (r, o) => {
          calls += 1;
          return renewMany(r, o);
        },
      }),
      watchdogLease: '9s',
    });
    let lost = 0;
    watched.on('lost', () => {
      lost += 1;
    });
    const held = [];
    for (let i = 0; i < Number(count); i += 1) held.push(await watched.acquire(`many:${i}`));
    await sleep(6_500);
    const before = calls;
    await sleep(9_000);
    tell({ beats: calls - before, lost, held: held.filter((lock) => lock.held).length });
    process.exit();
  },
};

await scenarios[scenario](...args);
