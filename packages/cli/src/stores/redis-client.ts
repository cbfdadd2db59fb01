import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { noteTrouble } from '../errors.js';
import type { RedisTarget } from './redis-url.js';
import { CONNECT_MS, GOODBYE_MS } from './store-kind.js';

export type RedisHandle = Redis | Cluster;

/** Connects when it is first used, and again whenever the connection is lost, until it is told to disconnect. */
export function redisClient(target: RedisTarget): RedisHandle {
  const client = target.mode === 'cluster' ? cluster(target) : single(target);
  let asked = false;
  // Calls fail with what is wrong; without a listener ioredis would print it.
  client.on('error', (error: Error) => {
    // It would go on in database 0, where nobody else looks for these locks.
    if (/DB index|SELECT is not allowed/i.test(error.message)) client.disconnect();
    if (target.mode !== 'single' && !asked) findTrouble(target);
    asked = true;
  });
  return client;
}

/**
 * Why a connection to a member of a cluster, or to a Sentinel, came to nothing, ioredis keeps to itself: only that it
 * is closed. One more that is made for this alone tells.
 */
function findTrouble({ hosts: [first], tls }: RedisTarget): void {
  if (first === undefined) return;
  const socket: Socket = tls === undefined ? connect(first) : connectTls({ ...first, ...tls });
  const end = (): unknown => socket.destroy();
  socket.once(tls === undefined ? 'connect' : 'secureConnect', end);
  socket.setTimeout(CONNECT_MS, end);
  socket.once('error', noteTrouble);
  socket.unref();
}

/** How long one Sentinel may take to answer; there are others. */
const SENTINEL_MS = 1_500;

/** How often to try anew. A run that waits for its lock must notice a server that is back. */
const retry = (times: number): number => Math.min(50 * 2 ** times, 1_000);

function common({ user, password, tls }: RedisTarget): RedisOptions {
  return {
    ...(user !== undefined && { username: user }),
    ...(password !== undefined && { password }),
    ...(tls !== undefined && { tls }),
    connectTimeout: CONNECT_MS,
    disconnectTimeout: GOODBYE_MS,
    connectionName: 'joblatch',
    lazyConnect: true,
    retryStrategy: retry,
  };
}

function single(target: RedisTarget): Redis {
  const { hosts, mode, primary, db, tls, sentinelAuth, user, password } = target;
  if (mode !== 'sentinel') return new Redis({ ...common(target), ...hosts[0], db });
  return new Redis({
    ...common(target),
    sentinels: [...hosts],
    name: primary as string,
    db,
    sentinelRetryStrategy: retry,
    sentinelCommandTimeout: SENTINEL_MS,
    ...(tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
    ...(sentinelAuth && user !== undefined && { sentinelUsername: user }),
    ...(sentinelAuth && password !== undefined && { sentinelPassword: password }),
  });
}

function cluster(target: RedisTarget): Cluster {
  const { retryStrategy: _ofOneServer, lazyConnect, ...redisOptions } = common(target);
  return new Cluster([...target.hosts], {
    lazyConnect: lazyConnect === true,
    clusterRetryStrategy: retry,
    slotsRefreshTimeout: CONNECT_MS,
    // With TLS the name is what the certificate is checked against, so it must not become an address.
    ...(target.tls !== undefined && { dnsLookup: (address, done) => done(null, address) }),
    redisOptions,
  });
}
