import { Redis } from 'ioredis';
import { recorded } from './recording.js';
import { redisContestants } from './redis.js';
import { ioredisPeers } from './redis-peers.js';

export async function open(url) {
  const client = new Redis(url);
  const bare = {
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    load: (lua) => client.script('LOAD', lua),
    get: (key) => client.get(key),
    set: (key, value, ms) => client.set(key, value, 'PX', ms),
    setNx: (key, value, ms) => client.set(key, value, 'PX', ms, 'NX'),
    info: (section) => client.info(section),
    keys: (pattern) => client.keys(pattern),
    unlink: (keys) => client.unlink(...keys),
    async watch(work) {
      const calls = await recorded(client, 'evalsha', work);
      return calls.map(([sha, count, ...rest]) => [sha, rest.slice(0, count), rest.slice(count)]);
    },
  };
  const group = await redisContestants(client, bare, ioredisPeers(client));
  return {
    ...group,
    async close() {
      await group.close();
      await client.quit();
    },
  };
}
