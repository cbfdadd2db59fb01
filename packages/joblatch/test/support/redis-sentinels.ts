import { setTimeout as sleep } from 'node:timers/promises';
import { OwnRedis } from './redis-servers.ts';
import { redis } from './resp.js';

/** How long a primary may be silent. All that follows takes about two seconds more. */
const DOWN_AFTER_MS = 1_500;
const LONGEST_MS = 25_000;
const REPLICAS = 2;
const SENTINELS = 3;
/** Replicas are served at once; by default they wait for others to come. */
const AT_ONCE = ['--repl-diskless-sync-delay', '0'];

/** A primary with replicas, watched by Sentinels that replace it when it is gone. */
export class RedisSentinels {
  /** What the Sentinels call it. */
  readonly name = 'main';
  readonly primary: OwnRedis;
  readonly replicas: readonly OwnRedis[];
  readonly sentinels: readonly OwnRedis[];

  static async start(): Promise<RedisSentinels> {
    const primary = await OwnRedis.start(...AT_ONCE);
    const replicas = await Promise.all(
      Array.from({ length: REPLICAS }, () =>
        OwnRedis.start(...AT_ONCE, '--replicaof', '127.0.0.1', String(primary.port)),
      ),
    );
    // Sentinels look for replicas when they start, and then only every ten seconds.
    await until('replicas are attached', async () =>
      (await Promise.all(replicas.map(({ url }) => redis(url, 'INFO', 'replication')))).every((text) =>
        String(text).includes('master_link_status:up'),
      ),
    );
    const sentinels = await Promise.all(
      Array.from({ length: SENTINELS }, () =>
        OwnRedis.sentinel(
          `sentinel monitor main 127.0.0.1 ${primary.port} 2`,
          `sentinel down-after-milliseconds main ${DOWN_AFTER_MS}`,
          'sentinel failover-timeout main 5000',
        ),
      ),
    );
    await until('Sentinels know each other and the replicas', async () => {
      const told = await Promise.all(sentinels.map(({ url }) => redis(url, 'SENTINEL', 'MASTER', 'main')));
      return told.every((one) => {
        const fields = one as string[];
        const count = (field: string): number => Number(fields[fields.indexOf(field) + 1]);
        return count('num-slaves') === REPLICAS && count('num-other-sentinels') === SENTINELS - 1;
      });
    });
    return new RedisSentinels(primary, replicas, sentinels);
  }

  private constructor(primary: OwnRedis, replicas: readonly OwnRedis[], sentinels: readonly OwnRedis[]) {
    this.primary = primary;
    this.replicas = replicas;
    this.sentinels = sentinels;
  }

  /** As joblatch's command line names it. */
  get url(): string {
    return `redis+sentinel://${this.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${this.name}`;
  }

  /** The replica that has taken over, when one has. */
  async successor(): Promise<OwnRedis> {
    let found: OwnRedis | undefined;
    await until('a replica has taken over', async () => {
      for (const replica of this.replicas)
        if (String(await redis(replica.url, 'INFO', 'replication')).includes('role:master')) found = replica;
      return found !== undefined;
    });
    return found as OwnRedis;
  }
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + LONGEST_MS;
  while (!(await condition().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`not so after ${LONGEST_MS} ms: ${what}`);
    await sleep(50);
  }
}
