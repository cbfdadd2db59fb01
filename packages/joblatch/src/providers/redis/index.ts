export type { RedisClient } from './client.js';
export type { GlideClient } from './client-glide.js';
export type { IoredisClient } from './client-ioredis.js';
export type { NodeRedisClient } from './client-node-redis.js';
export { type FencedSetOptions, fencedSet } from './fenced-set.js';
export type { RedisProviderOptions } from './options.js';
export { redisProvider } from './provider.js';
