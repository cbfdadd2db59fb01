// Counters in a SQLite file, which members read, wait, and write blindly under a lock that is too short for that; as a
// module of a test, and as a process of its own: node sqlite-guarded.js DRIVER PATH KEYS guarded|unguarded.
// The process counts until it is sent a line, then tells how many of its writes were committed.

import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLocks, isLockError } from 'joblatch';
import { openSqlite } from './open-sqlite.js';
import { loadDriver } from './sqlite-handles.js';

/** @param leaseMs of every lock; nothing renews it */
export function openMember(driver, path, leaseMs) {
  const database = loadDriver(driver)(path);
  // Members of one process must not wait for each other within a driver: nobody would go on.
  database.exec('pragma busy_timeout = 0');
  const locks = createLocks({ provider: openSqlite(driver, path), pollEvery: 5 });
  return {
    database,
    locks,
    leaseMs,
    async close() {
      await locks.close({ grace: 0 });
      database.close();
    },
  };
}

export async function createCounters(member, keys) {
  const { database } = member;
  await member.locks.provider.abilities();
  await onceFree(() => database.exec('create table counters (key text primary key, value integer)'));
  for (let i = 0; i < keys; i += 1) {
    await onceFree(() => database.exec(`insert into counters values ('key-${i}', 0)`));
  }
}

export function readCounter({ database }, key) {
  return Number(database.prepare('select value from counters where key = ?').all(key)[0].value);
}

export function sumOfCounters({ database }) {
  return Number(database.prepare('select sum(value) as total from counters').all()[0].total);
}

/**
 * One round: reads, waits, begins, and writes what it read and one more.
 *
 * @param guardedBy 'lock': as an application does. 'store': only the store is asked, and not the clock of the holder
 * @returns 'written' if that was committed, 'lost' if the lock was found to be lost
 */
export async function count(member, key, { guardedBy, beforeMs, withinMs = 0 }) {
  const { database, locks, leaseMs } = member;
  const lock = await acquire(locks, key, leaseMs);
  try {
    const value = await onceFree(() => readCounter(member, key));
    // As careful as one can be without the guard; then comes the pause.
    lock.assertHeld();
    if (beforeMs > 0) await sleep(beforeMs);
    await onceFree(() => database.exec('begin immediate'));
    try {
      if (guardedBy === 'lock') await lock.guard(database);
      else if (guardedBy === 'store' && !(await isHeld(locks, lock, database))) {
        database.exec('rollback');
        return 'lost';
      }
      if (withinMs > 0) await sleep(withinMs);
      database.exec(`update counters set value = ${value + 1} where key = '${key}'`);
      database.exec('commit');
      return 'written';
    } catch (error) {
      database.exec('rollback');
      throw error;
    }
  } catch (error) {
    if (isLockError(error, 'LOST')) return 'lost';
    throw error;
  } finally {
    await lock.release();
  }
}

function isHeld({ provider }, { key, owner }, database) {
  return provider.guard({ key, owner, leftMs: 60_000 }, database);
}

/** A grant whose answer came too late for so short a lease is an error; the next one will do. */
async function acquire(locks, key, lease) {
  for (;;) {
    try {
      return await locks.acquire(key, { lease, wait: '5m' });
    } catch (error) {
      if (!isLockError(error, 'STORE')) throw error;
    }
  }
}

async function onceFree(work) {
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!/locked|busy/i.test(error.message)) throw error;
      await sleep(1);
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [driver, path, keys, mode] = process.argv.slice(2);
  const member = openMember(driver, path, 50);
  let over = false;
  process.stdin.once('data', () => {
    over = true;
    process.stdin.destroy();
  });
  console.log(JSON.stringify({ ready: true }));
  const outcomes = { written: 0, lost: 0 };
  for (let i = process.pid; !over; i += 1) {
    const guardedBy = mode === 'unguarded' ? undefined : i % 3 === 0 ? 'lock' : 'store';
    outcomes[await count(member, `key-${i % Number(keys)}`, { guardedBy, beforeMs: 4 })] += 1;
  }
  await member.close();
  console.log(JSON.stringify(outcomes));
}
