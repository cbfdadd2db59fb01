import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { findBinary } from '../../../../scripts/stores/table.js';
import { OwnRedis } from './redis-servers.ts';
import { redis } from './resp.js';

const redisCli = findBinary('redis-cli');

/** Why there can be no cluster of several nodes, if so. */
export const noRedisNodes: string | undefined =
  redisCli === undefined
    ? 'redis-cli is not on this machine; on Debian: apt-get install redis-tools'
    : undefined;

const NODES = 3;
const LONGEST_MS = 20_000;

/** A cluster of three primaries, made as one makes it by hand. */
export class RedisNodes {
  readonly nodes: readonly OwnRedis[];

  static async start(): Promise<RedisNodes> {
    const settings = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'];
    const nodes = await Promise.all(Array.from({ length: NODES }, () => OwnRedis.start(...settings)));
    const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
    execFileSync(
      redisCli as string,
      ['--cluster', 'create', ...addresses, '--cluster-replicas', '0', '--cluster-yes'],
      { stdio: 'pipe', timeout: LONGEST_MS },
    );
    const cluster = new RedisNodes(nodes);
    for (const { url } of nodes)
      while (!String(await redis(url, 'CLUSTER', 'INFO')).includes('cluster_state:ok')) await sleep(20);
    return cluster;
  }

  private constructor(nodes: readonly OwnRedis[]) {
    this.nodes = nodes;
  }

  /** One of them: clients find the others. */
  get url(): string {
    return (this.nodes[0] as OwnRedis).url;
  }

  /** Which of the nodes has this hash slot. */
  async ownerOf(slot: number): Promise<OwnRedis> {
    const ranges = (await redis(this.url, 'CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const range = ranges.find(([from, to]) => from <= slot && slot <= to);
    return this.nodes.find(({ port }) => port === range?.[2][1]) as OwnRedis;
  }

  /** A hash slot on its way from one node to another. */
  async move(slot: number): Promise<SlotMove> {
    const from = await this.ownerOf(slot);
    const to = this.nodes[(this.nodes.indexOf(from) + 1) % NODES] as OwnRedis;
    return new SlotMove(slot, from, to, this.nodes);
  }
}

/** The steps that redis-cli takes, one at a time. */
export class SlotMove {
  readonly slot: number;
  readonly from: OwnRedis;
  readonly to: OwnRedis;
  readonly #all: readonly OwnRedis[];

  constructor(slot: number, from: OwnRedis, to: OwnRedis, all: readonly OwnRedis[]) {
    this.slot = slot;
    this.from = from;
    this.to = to;
    this.#all = all;
  }

  /** From now on keys that `from` does not have are asked of `to`. */
  async begin(): Promise<void> {
    const [source, target] = await Promise.all([idOf(this.from), idOf(this.to)]);
    await done(redis(this.to.url, 'CLUSTER', 'SETSLOT', this.slot, 'IMPORTING', source));
    await done(redis(this.from.url, 'CLUSTER', 'SETSLOT', this.slot, 'MIGRATING', target));
  }

  async keys(): Promise<string[]> {
    return (await redis(this.from.url, 'CLUSTER', 'GETKEYSINSLOT', this.slot, 1_000)) as string[];
  }

  async moveKey(key: string): Promise<void> {
    await done(redis(this.from.url, 'MIGRATE', '127.0.0.1', this.to.port, key, 0, 5_000));
  }

  /** From now on `to` has the slot, and the others know it. */
  async end(): Promise<void> {
    const target = await idOf(this.to);
    for (const node of [this.to, this.from, ...this.#all])
      await done(redis(node.url, 'CLUSTER', 'SETSLOT', this.slot, 'NODE', target));
  }
}

async function idOf(node: OwnRedis): Promise<string> {
  return String(await redis(node.url, 'CLUSTER', 'MYID'));
}

async function done(answer: Promise<unknown>): Promise<void> {
  const said = await answer;
  // A key that has expired meanwhile needs no moving.
  if (said !== 'OK' && said !== 'NOKEY') throw new Error(String(said));
}
