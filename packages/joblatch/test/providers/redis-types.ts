// Compiled, never run: the clients fit as they are typed, without a cast.

import { fencedSet, redisProvider } from 'joblatch/redis';
import type * as glide from '../../../../drivers/node_modules/@valkey/valkey-glide/build-ts/index.js';
import type * as ioredis5 from '../../../../drivers/node_modules/ioredis-5/built/index.js';
import type * as ioredis6 from '../../../../drivers/node_modules/ioredis-6/built/index.js';
import type * as redis4 from '../../../../drivers/node_modules/redis-4/dist/index.js';
import type * as redis5 from '../../../../drivers/node_modules/redis-5/dist/index.js';
import type * as redis6 from '../../../../drivers/node_modules/redis-6/dist/index.js';

type Made<F extends (...args: never[]) => unknown> = ReturnType<F>;

export function all(clients: {
  readonly a: ioredis5.Redis;
  readonly b: ioredis5.Cluster;
  readonly c: ioredis6.Redis;
  readonly d: ioredis6.Cluster;
  readonly e: Made<typeof redis4.createClient>;
  readonly f: Made<typeof redis4.createCluster>;
  readonly g: Made<typeof redis5.createClient>;
  readonly h: Made<typeof redis5.createCluster>;
  readonly i: Made<typeof redis5.createClientPool>;
  readonly j: Made<typeof redis6.createClient>;
  readonly k: Made<typeof redis6.createCluster>;
  readonly l: Made<typeof redis6.createSentinel>;
  readonly m: glide.GlideClient;
  readonly n: glide.GlideClusterClient;
}): void {
  redisProvider({ client: clients.a });
  redisProvider({ client: clients.b });
  redisProvider({ client: clients.c });
  redisProvider({ client: clients.d });
  redisProvider({ client: clients.e });
  redisProvider({ client: clients.f });
  redisProvider({ client: clients.g });
  redisProvider({ client: clients.h });
  redisProvider({ client: clients.i });
  redisProvider({ client: clients.j });
  redisProvider({ client: clients.k });
  redisProvider({ client: clients.l });
  redisProvider({ client: clients.m });
  redisProvider({ client: clients.n });
  const fenced = { key: 'k', value: 'v', token: 1 };
  for (const client of Object.values(clients)) void fencedSet(client, fenced);
  // @ts-expect-error: a URL is no client
  redisProvider({ client: 'redis://localhost' });
}
