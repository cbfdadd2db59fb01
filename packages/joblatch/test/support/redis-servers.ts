import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, test } from 'vitest';
import { findBinary } from '../../../../scripts/stores/table.js';
import { redis } from './resp.js';

/** The server that the tests may use; `npm run stores -- --exec "npm test"` says where it is. */
export const redisUrl: string | undefined = process.env.JOBLATCH_TEST_REDIS;

const NO_SERVER = 'JOBLATCH_TEST_REDIS is not set; npm run stores -- --only redis --exec "npm test" sets it';

/** Describes something that needs the server; without it a skipped test says why. */
export function describeWithRedis(what: string, body: (url: string) => void): void {
  describe(what, () => {
    if (redisUrl !== undefined) return body(redisUrl);
    skipAll(what, NO_SERVER);
  });
}

const binary: string | undefined = findBinary('redis-server');

/** The same for what needs servers of its own, to stop, to flush, or in cluster mode; and more, if that is missing. */
export function describeWithOwnRedis(what: string, body: () => void, missing?: string): void {
  describe(what, () => {
    // Who sets no server wants no tests of one.
    const reason =
      redisUrl === undefined
        ? NO_SERVER
        : binary === undefined
          ? 'redis-server is not on this machine; on Debian: apt-get install redis-server'
          : missing;
    if (reason !== undefined) return skipAll(what, reason);
    afterAll(() => Promise.all([...servers].map((server) => server.remove())));
    body();
  });
}

let told = false;

function skipAll(what: string, reason: string): void {
  if (!told) console.warn(`skipped, ${what} (and more of the kind): ${reason}`);
  told = true;
  test.skip(`not here: ${reason}`, () => {});
}

/** Those that the running suite has started, and that end with it. */
const servers = new Set<OwnRedis>();
// Whatever becomes of the suite.
process.on('exit', () => {
  for (const server of servers) server.abandon();
});

export class OwnRedis {
  readonly url: string;
  readonly port: number;
  readonly #folder = mkdtempSync(join(tmpdir(), 'joblatch-redis-'));
  #args: readonly string[];
  #child: ChildProcess | undefined;

  static async start(...args: readonly string[]): Promise<OwnRedis> {
    const server = new OwnRedis(await freePort(), args);
    await server.start();
    return server;
  }

  /** A Sentinel: it keeps what it knows in a file of its own. */
  static async sentinel(...settings: readonly string[]): Promise<OwnRedis> {
    const server = new OwnRedis(await freePort(), []);
    const file = join(server.#folder, 'sentinel.conf');
    writeFileSync(file, settings.map((line) => `${line}\n`).join(''));
    server.#args = [file, '--sentinel'];
    await server.start();
    return server;
  }

  private constructor(port: number, args: readonly string[]) {
    this.port = port;
    this.#args = args;
    this.url = `redis://127.0.0.1:${port}`;
    servers.add(this);
  }

  async start(): Promise<void> {
    const place = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#folder];
    // A file of settings comes first.
    const child = spawn(binary as string, [...this.#args, ...place, '--save', ''], { stdio: 'ignore' });
    this.#child = child;
    while ((await redis(this.url, 'PING').catch(() => undefined)) === undefined) {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`);
      await sleep(20);
    }
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  async remove(): Promise<void> {
    servers.delete(this);
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Without waiting for its end. */
  abandon(): void {
    this.#child?.kill('SIGKILL');
  }

  /** One node that has all hash slots. */
  static async cluster(...args: readonly string[]): Promise<OwnRedis> {
    const settings = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'];
    const server = await OwnRedis.start(...settings, ...args);
    await redis(server.url, 'CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    while (!String(await redis(server.url, 'CLUSTER', 'INFO')).includes('cluster_state:ok')) await sleep(20);
    return server;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  // In cluster mode a server also takes the port 10,000 above.
  return port + 10_000 < 65_536 ? port : freePort();
}
