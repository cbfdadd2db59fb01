import { createLocks } from 'joblatch';
import { HELD } from '../keys.js';

export { createLocks };

/** As README.md does it. */
export async function joblatch(provider) {
  const locks = createLocks({ provider });
  const pair = (options) => async (key) => {
    const lock = await locks.tryAcquire(key, options);
    if ((await lock.release()) !== true) throw new Error('the lock was lost');
  };
  const held = await locks.acquire(HELD, { lease: '1h' });
  const lose = async (key) => {
    if ((await locks.tryAcquire(key, { lease: '30s' })) !== undefined)
      throw new Error('a held key was taken');
  };
  return {
    takers: [
      { name: 'joblatch', kind: 'ours', token: true, run: pair({ lease: '30s' }) },
      { name: 'joblatch, renewed', kind: 'ours', token: true, run: pair(undefined) },
    ],
    losers: [{ name: 'joblatch', kind: 'ours', run: lose }],
    async close() {
      await held.release();
      await locks.close();
    },
  };
}
