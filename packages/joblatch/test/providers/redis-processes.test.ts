import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { CLIENTS } from '../support/redis-clients.js';
import { describeWithOwnRedis, OwnRedis } from '../support/redis-servers.ts';

const PROGRAM = fileURLToPath(new URL('../support/redis-process.js', import.meta.url));
const SKEWED = new URL('../support/skewed-clock.js', import.meta.url).href;
const MINUTE = 60_000;
const names = Object.keys(CLIENTS);
const faketime = ['/usr/bin/faketime', '/usr/local/bin/faketime'].find((path) => existsSync(path));
const LIMIT_MS = 28_000;

async function ends(child: ChildProcess): Promise<unknown> {
  const killer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  const [code, signal] = await once(child, 'exit');
  clearTimeout(killer);
  return signal ?? code;
}

describeWithOwnRedis('a process of its own', () => {
  let server: OwnRedis;
  beforeAll(async () => {
    server = await OwnRedis.start();
  });

  test.each(names)(
    '%s: with its server gone while it holds a lock, it ends when it is told to',
    async (name) => {
      const child = spawn(process.execPath, [PROGRAM, name, server.url, 'exit'], {
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      let complaints = '';
      child.stderr?.on('data', (data) => {
        complaints += data;
      });
      const ended = ends(child);
      const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })[
        Symbol.asyncIterator
      ]();
      expect([(await lines.next()).value, complaints]).toEqual(['{"held":true}', '']);
      await server.kill();
      child.stdin?.end('end\n');
      const last = (await lines.next()).value as string | undefined;
      await server.start();
      expect([await ended, complaints]).toEqual([0, '']);
      expect(JSON.parse(last ?? '{}')).toMatchObject({ again: 'STORE' });
    },
  );

  /** With faketime, where it is there, the whole process; otherwise what JavaScript sees of the clock. */
  const launchers: readonly (readonly [string, string | undefined])[] = [
    ['as JavaScript sees it', undefined],
    ...(faketime === undefined ? [] : [['as libfaketime has it', faketime] as const]),
  ];

  test.each(launchers)('a clock of a host that is minutes off changes nothing: %s', async (_how, program) => {
    const run = promisify(execFile);
    const at = async (name: string, minutes: number) => {
      const env = {
        ...process.env,
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
        DONT_FAKE_MONOTONIC: '1',
        CLOCK_OFFSET_MS: String(minutes * MINUTE),
      };
      const args = [PROGRAM, name, server.url, 'clock'];
      const sign = minutes < 0 ? '-' : '+';
      const { stdout } = await (program === undefined
        ? run(process.execPath, ['--import', SKEWED, ...args], { env, timeout: LIMIT_MS })
        : run(program, ['-f', `${sign}${Math.abs(minutes)}m`, process.execPath, ...args], {
            env,
            timeout: LIMIT_MS,
          }));
      return JSON.parse(stdout) as Seen;
    };
    for (const name of ['ioredis 5', 'node-redis 6', 'Valkey GLIDE']) {
      const { now, fresh } = await at(name, 7);
      expect(now - Date.now()).toBeGreaterThan(5 * MINUTE);
      expect(Math.abs(fresh.token / 1000 - Date.now())).toBeLessThan(MINUTE);
    }
    // The very first of all had both, and nobody since.
    for (const [name, minutes] of [
      ['ioredis 6', -9],
      ['node-redis 5', 9],
      ['ioredis 5', 40 * 24 * 60],
    ] as const) {
      const { held, once } = await at(name, minutes);
      expect(held).toMatchObject({ ok: false, reason: 'held' });
      expect(once).toMatchObject({ ok: false, reason: 'slot' });
    }
  });
});

interface Seen {
  readonly now: number;
  readonly held: { readonly ok: boolean };
  readonly once: { readonly ok: boolean };
  readonly fresh: { readonly token: number };
}
