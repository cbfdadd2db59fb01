import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, type Redis } from 'ioredis';
import { NoStoreError } from '../errors.js';
import { type RedisHandle, redisClient } from '../stores/redis-client.js';
import type { RedisTarget } from '../stores/redis-url.js';
import { CONNECT_MS } from '../stores/store-kind.js';
import { judgeClock, measureClock } from './clock.js';
import { attempt, error, type Finding, ok } from './finding.js';
import { factsOf, type RedisFacts } from './redis-facts.js';
import { judgeMemory } from './redis-memory.js';
import { judgePersistence } from './redis-persistence.js';
import { judgeRole } from './redis-replication.js';
import { type Examined, together } from './together.js';
import { judgeWay } from './way.js';

const OLDEST_MAJOR = 5;

/** @throws NoStoreError if it can not be reached */
export async function examineRedis(target: RedisTarget): Promise<readonly Finding[]> {
  const client = redisClient(target);
  try {
    const tookMs = await connect(client);
    const servers = client instanceof Cluster ? client.nodes('master') : [client];
    const findings: Finding[] = [
      ok(
        'connection',
        `made in ${Math.round(tookMs)}ms${target.user === undefined ? '' : `, as ${target.user}`}`,
      ),
      judgeWay(target.hosts[0]?.host, tlsOf(target), 'use rediss://'),
    ];
    const examined: Examined[] = [];
    for (const server of servers)
      examined.push({ address: addressOf(server), findings: await examineServer(server, target) });
    findings.push(
      ...(servers.length === 1 ? examined.flatMap(({ findings }) => findings) : together(examined)),
    );
    findings.push(...(await attempt('rights', async () => [await tryRights(client, target)])));
    return findings;
  } finally {
    client.disconnect();
  }
}

/** ioredis goes on trying for ever, so the last error is kept for the message. */
async function connect(client: RedisHandle): Promise<number> {
  const start = performance.now();
  let last = `no answer within ${CONNECT_MS}ms`;
  client.on('error', (failure: Error) => {
    last = textOf(failure) || last;
  });
  const end = new AbortController();
  try {
    const late = sleep(CONNECT_MS, undefined, { signal: end.signal }).then(() => {
      throw new Error(last);
    });
    // The first try may fail while a later one succeeds; the events tell of each.
    client.connect().catch(() => {});
    await Promise.race([late, ready(client)]);
    await Promise.race([late, client.echo('joblatch')]);
    return performance.now() - start;
  } catch (failure) {
    throw new NoStoreError(`Redis can not be reached: ${textOf(failure)}`, { cause: failure });
  } finally {
    end.abort();
  }
}

function ready(client: RedisHandle): Promise<void> {
  return new Promise((resolve) => client.once('ready', resolve));
}

async function examineServer(server: Redis, target: RedisTarget): Promise<readonly Finding[]> {
  return attempt('server', async () => {
    const facts = await factsOf(server);
    return [
      version(facts),
      judgeClock(
        await measureClock(async () => {
          const [seconds, microseconds] = await server.time();
          return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
        }),
      ),
      ...judgeRole(facts, target),
      ...judgeMemory(facts),
      ...judgePersistence(facts),
    ];
  });
}

function version({ info }: RedisFacts): Finding {
  const compatible = info.get('redis_version') ?? '?';
  const name =
    info.get('valkey_version') === undefined ? 'Redis' : `Valkey ${info.get('valkey_version')}, as Redis`;
  if (Number.parseInt(compatible, 10) >= OLDEST_MAJOR) return ok('version', `${name} ${compatible}`);
  return error('version', `${name} ${compatible}`, 'joblatch needs 5 or later', 'update the server');
}

/** Everything that the scripts of the provider call, on a key of ours that lives for a second. */
const TRIAL = `
redis.call('TIME')
redis.call('SET', KEYS[1], 'joblatch doctor', 'PX', 1000)
redis.call('GET', KEYS[1]) redis.call('EXISTS', KEYS[1]) redis.call('TYPE', KEYS[1])
redis.call('PTTL', KEYS[1]) redis.call('PEXPIRE', KEYS[1], 1000)
return redis.call('DEL', KEYS[1])`;

async function tryRights(client: RedisHandle, { names }: RedisTarget): Promise<Finding> {
  const { keyPrefix = 'job-lock', environment = 'default' } = names;
  const name = `joblatch-doctor-${randomBytes(8).toString('hex')}`;
  try {
    for (const prefix of [keyPrefix, `${keyPrefix}-record`])
      await client.eval(TRIAL, 1, `${prefix}:${environment}:${name}`);
    return ok('rights', `a script can read and write keys that begin with ${keyPrefix}`);
  } catch (failure) {
    return error(
      'rights',
      textOf(failure),
      'locks can not be taken and given back',
      `allow EVAL, EVALSHA, GET, SET, DEL, EXISTS, PTTL, PEXPIRE, TIME, TYPE and SCAN on ~${keyPrefix}*`,
    );
  }
}

function tlsOf({ tls }: RedisTarget): { readonly checked: boolean } | undefined {
  return tls === undefined ? undefined : { checked: tls.rejectUnauthorized !== false };
}

function addressOf({ options: { host, port } }: Redis): string {
  return `${host}:${port}`;
}

function textOf(failure: unknown): string {
  if (failure instanceof AggregateError && failure.message === '')
    return failure.errors.map(textOf).join('; ');
  const { message, lastNodeError } = failure as {
    readonly message?: string;
    readonly lastNodeError?: unknown;
  };
  // What a cluster says itself is only that it has no nodes left.
  return lastNodeError === undefined ? (message ?? String(failure)) : `${message} ${textOf(lastNodeError)}`;
}
