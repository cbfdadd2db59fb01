import { Redlock as Sesamecare } from '@sesamecare-oss/redlock';
import { Verrou } from '@verrou/core';
import { redisStore } from '@verrou/core/drivers/redis';
import { Mutex } from 'redis-semaphore';
import Redlock4 from 'redlock-4';
import { default as Redlock5 } from 'redlock-5';
import { createLock, IoredisAdapter, NodeRedisAdapter } from 'redlock-universal';
import { LEASE_MS } from '../keys.js';
import { mustBe } from './recording.js';

/** Each as its own README does it, one server. Without retries, where a losing attempt needs that said. */
export function ioredisPeers(client) {
  const verrou = new Verrou({
    default: 'redis',
    stores: { redis: { driver: redisStore({ connection: client }) } },
  });
  const redlock4 = new Redlock4([client], { retryCount: 0 });
  const redlock5 = new Redlock5([client], { retryCount: 0 });
  const sesamecare = new Sesamecare([client], { retryCount: 0 });
  redlock5.on('error', () => {});
  sesamecare.on('error', () => {});
  return [
    {
      name: '@verrou/core',
      async pair(key) {
        const lock = verrou.createLock(key, LEASE_MS);
        mustBe(true, await lock.acquireImmediately(), 'verrou');
        await lock.release();
      },
      async lose(key) {
        mustBe(false, await verrou.createLock(key, LEASE_MS).acquireImmediately(), 'verrou');
      },
    },
    {
      name: 'redlock 4',
      async pair(key) {
        const lock = await redlock4.lock(key, LEASE_MS);
        await lock.unlock();
      },
      lose: (key) => refused(redlock4.lock(key, LEASE_MS)),
    },
    redlockOf('redlock 5 beta', redlock5),
    redlockOf('@sesamecare-oss/redlock', sesamecare),
    {
      name: 'redis-semaphore',
      async pair(key) {
        const mutex = new Mutex(client, key, { acquireAttemptsLimit: 1, lockTimeout: LEASE_MS });
        mustBe(true, await mutex.tryAcquire(), 'redis-semaphore');
        await mutex.release();
      },
      async lose(key) {
        const mutex = new Mutex(client, key, { acquireAttemptsLimit: 1, lockTimeout: LEASE_MS });
        mustBe(false, await mutex.tryAcquire(), 'redis-semaphore');
      },
    },
    universal(new IoredisAdapter(client)),
  ];
}

export function nodeRedisPeers(client) {
  return [universal(new NodeRedisAdapter(client))];
}

function redlockOf(name, redlock) {
  return {
    name,
    async pair(key) {
      const lock = await redlock.acquire([key], LEASE_MS);
      await lock.release();
    },
    lose: (key) => refused(redlock.acquire([key], LEASE_MS)),
  };
}

function universal(adapter) {
  const lockOf = (key) => createLock({ adapter, key, ttl: LEASE_MS, retryAttempts: 0 });
  return {
    name: 'redlock-universal',
    async pair(key) {
      const lock = lockOf(key);
      await lock.release(await lock.acquire());
    },
    lose: (key) => refused(lockOf(key).acquire()),
  };
}

async function refused(attempt) {
  try {
    await attempt;
  } catch {
    return;
  }
  throw new Error('a held key was taken');
}
