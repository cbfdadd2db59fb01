import { createClient } from 'redis';
import { recorded } from './recording.js';
import { redisContestants } from './redis.js';
import { nodeRedisPeers } from './redis-peers.js';

export async function open(url) {
  const client = createClient({ url });
  client.on('error', (error) => console.error(error));
  await client.connect();
  const bare = {
    evalsha: (sha, keys, args) => client.evalSha(sha, { keys, arguments: args }),
    load: (lua) => client.scriptLoad(lua),
    get: (key) => client.get(key),
    set: (key, value, ms) => client.set(key, value, { expiration: { type: 'PX', value: ms } }),
    setNx: (key, value, ms) =>
      client.set(key, value, { expiration: { type: 'PX', value: ms }, condition: 'NX' }),
    info: (section) => client.info(section),
    keys: (pattern) => client.keys(pattern),
    unlink: (keys) => client.unlink(keys),
    async watch(work) {
      const calls = await recorded(client, 'evalSha', work);
      return calls.map(([sha, { keys, arguments: args }]) => [sha, keys, args]);
    },
  };
  const group = await redisContestants(client, bare, nodeRedisPeers(client));
  return {
    ...group,
    async close() {
      await group.close();
      await client.close();
    },
  };
}
