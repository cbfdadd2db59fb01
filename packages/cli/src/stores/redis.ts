import { noteTrouble } from '../errors.js';
import { REDIS_FORMS, readRedisUrl } from './redis-url.js';
import { owning, type StoreKind } from './store-kind.js';

export const redisStore: StoreKind = {
  forms: REDIS_FORMS,
  accepts: (url) => /^rediss?(?:\+(?:sentinel|cluster))?:/i.test(url),
  async open(url) {
    const target = readRedisUrl(url);
    const [{ redisProvider }, { redisClient }] = await Promise.all([
      import('joblatch/redis'),
      import('./redis-client.js'),
    ]);
    const client = redisClient(target);
    const provider = redisProvider({ client, ...target.names, onError: noteTrouble });
    return owning(provider, () => client.disconnect());
  },
  async migrate(url) {
    readRedisUrl(url);
    return { statements: [], note: 'nothing to migrate: locks in Redis are keys, made when they are taken' };
  },
  async examine(url) {
    const target = readRedisUrl(url);
    const { examineRedis } = await import('../doctor/redis.js');
    return examineRedis(target);
  },
};
