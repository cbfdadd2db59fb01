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
const names = Object.keys(CLIENTS);
const faketime = ['/usr/bin/faketime', '/usr/local/bin/faketime'].find((path) => existsSync(path));
const LIMIT_MS = 20_000;

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

  test.skipIf(faketime === undefined)('clocks of hosts that are minutes off change nothing', async () => {
    const run = promisify(execFile);
    const at = async (name: string, offset: string) => {
      const env = { ...process.env, FAKETIME_DONT_FAKE_MONOTONIC: '1', DONT_FAKE_MONOTONIC: '1' };
      const args = ['-f', offset, process.execPath, PROGRAM, name, server.url, 'clock'];
      const { stdout } = await run(faketime as string, args, { env, timeout: LIMIT_MS });
      return JSON.parse(stdout) as {
        now: number;
        held: { ok: boolean; token: number; reason?: string };
        once: { ok: boolean; reason?: string };
        fresh: { token: number };
      };
    };
    for (const name of ['ioredis 5', 'node-redis 6', 'Valkey GLIDE']) {
      const { now, fresh } = await at(name, '+7m');
      expect(now - Date.now()).toBeGreaterThan(5 * 60_000);
      expect(Math.abs(fresh.token / 1000 - Date.now())).toBeLessThan(60_000);
    }
    const results = [
      await at('ioredis 6', '-9m'),
      await at('node-redis 5', '+9m'),
      await at('ioredis 5', '+40d'),
    ];
    // The very first of all had both, and nobody since.
    for (const { held, once } of results) {
      expect(held).toMatchObject({ ok: false, reason: 'held' });
      expect(once).toMatchObject({ ok: false, reason: 'slot' });
    }
  });
});
