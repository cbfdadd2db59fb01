// Clients of Redis in the versions that are tested, each opened as an application would. A worker process imports
// this with ?client=…&url=… and calls open().

import { createRequire } from 'node:module';
import { redisProvider } from 'joblatch/redis';

const require = createRequire(new URL('../../../../drivers/', import.meta.url));

/** An ioredis client without `error` listener would write to the console; joblatch listens only from first use on. */
const quiet = (client) => client.on('error', () => {});

const ioredis = (library, options = {}) => ({
  library,
  open: async (url, more = {}) => quiet(new (require(library).Redis)(url, { ...options, ...more })),
  openCluster: async (url, more = {}) =>
    quiet(new (require(library).Cluster)([url], { ...options, ...more, redisOptions: options })),
  close: (client) => client.disconnect(),
});

const nodeRedis = (library, options = {}, adapt = (client) => client) => ({
  library,
  open: async (url, more = {}) => {
    const client = quiet(require(library).createClient({ url, ...options, ...more }));
    await client.connect();
    return adapt(client);
  },
  openCluster: async (url, more = {}) => {
    const client = quiet(require(library).createCluster({ rootNodes: [{ url }], ...options, ...more }));
    await client.connect();
    return adapt(client);
  },
  // Whatever it was adapted to: the connections are those of the client behind it.
  close: async (client) => {
    if (!client.isOpen) return;
    if (client.destroy !== undefined) client.destroy();
    else await client.disconnect();
  },
});

const glide = (options = {}) => {
  const create = async (kind, url) => {
    const library = require('@valkey/valkey-glide');
    library.Logger.init('off');
    const { hostname, port } = new URL(url);
    const addresses = [{ host: hostname, port: Number(port) }];
    return library[kind].createClient({ addresses, requestTimeout: 3_000, ...options });
  };
  return {
    library: '@valkey/valkey-glide',
    open: (url) => create('GlideClient', url),
    openCluster: (url) => create('GlideClusterClient', url),
    close: (client) => client.close(),
  };
};

const toBuffers = (client) => client.withTypeMapping({ [BLOB_STRING]: Buffer, [NUMBER]: String });
/** The types of RESP by their first byte, as node-redis 5 and 6 name them in RESP_TYPES. */
const BLOB_STRING = 36;
const NUMBER = 58;

/** As they are by default. */
export const CLIENTS = {
  'ioredis 5': ioredis('ioredis-5'),
  'ioredis 6': ioredis('ioredis-6'),
  'node-redis 4': nodeRedis('redis-4'),
  'node-redis 5': nodeRedis('redis-5'),
  'node-redis 6': nodeRedis('redis-6'),
  'Valkey GLIDE': glide(),
};

/** With options that change keys, answers or the order of things. */
export const VARIANTS = {
  'ioredis 5, keyPrefix': ioredis('ioredis-5', { keyPrefix: 'app:' }),
  'ioredis 5, keyPrefix with a hash tag': ioredis('ioredis-5', { keyPrefix: '{app}:' }),
  'ioredis 6, keyPrefix of glob characters': ioredis('ioredis-6', { keyPrefix: 'a*[p]?\\p^-:' }),
  'ioredis 5, auto-pipelining': ioredis('ioredis-5', { enableAutoPipelining: true, keyPrefix: 'auto:' }),
  'ioredis 6, auto-pipelining': ioredis('ioredis-6', { enableAutoPipelining: true }),
  'ioredis 5, stringNumbers': ioredis('ioredis-5', { stringNumbers: true }),
  'ioredis 6, RESP 2, stringNumbers': ioredis('ioredis-6', { protocol: 2, stringNumbers: true }),
  'ioredis 6, RESP 3 as it is': ioredis('ioredis-6', { protocol: 3, replyMapping: 'resp3' }),
  'ioredis 5, no offline queue': ioredis('ioredis-5', { enableOfflineQueue: false }),
  'ioredis 6, lazyConnect': ioredis('ioredis-6', { lazyConnect: true }),
  'ioredis 5, no resending, no retries': ioredis('ioredis-5', {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  }),
  'ioredis 6, retries without end': ioredis('ioredis-6', { maxRetriesPerRequest: null }),
  'node-redis 4, no offline queue': nodeRedis('redis-4', { disableOfflineQueue: true }),
  'node-redis 4, legacy mode': nodeRedis('redis-4', { legacyMode: true }),
  'node-redis 5, RESP 2': nodeRedis('redis-5', { RESP: 2 }),
  'node-redis 5, RESP 3': nodeRedis('redis-5', { RESP: 3 }),
  'node-redis 5, type mapping': nodeRedis('redis-5', { RESP: 3 }, toBuffers),
  'node-redis 6, keyPrefix': nodeRedis('redis-6', { keyPrefix: 'app:' }),
  'node-redis 6, RESP 3': nodeRedis('redis-6', { RESP: 3 }),
  'node-redis 6, RESP 2': nodeRedis('redis-6', { RESP: 2 }),
  'node-redis 6, type mapping': nodeRedis('redis-6', { commandOptions: {} }, toBuffers),
  'node-redis 6, no offline queue': nodeRedis('redis-6', { disableOfflineQueue: true }),
  'Valkey GLIDE, bytes': glide({ defaultDecoder: 0 }),
  'Valkey GLIDE, RESP 2': glide({ protocol: 0 }),
};

/** A provider with a client of its own, which is closed with it. */
export async function openRedis(name, url, { cluster = false, ...options } = {}) {
  const kind = CLIENTS[name] ?? VARIANTS[name];
  const client = await (cluster ? kind.openCluster(url) : kind.open(url));
  const provider = redisProvider({ client, ...options });
  const close = provider.close.bind(provider);
  provider.close = async () => {
    await close();
    await kind.close(client);
  };
  return provider;
}

/** What `import(url)` gives to a worker. */
export function open() {
  const { client, url, cluster, ...options } = Object.fromEntries(new URL(import.meta.url).searchParams);
  return openRedis(client, url, { cluster: cluster === 'true', ...options });
}

/** The URL of this module for one client and server, with options of the provider that are texts. */
export function moduleUrl(client, url, options = {}) {
  const module = new URL(import.meta.url);
  module.search = new URLSearchParams({ client, url, ...options }).toString();
  return module;
}
