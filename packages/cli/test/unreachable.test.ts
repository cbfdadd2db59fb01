import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();
/** Six by themselves, on a machine that has nothing else to do. */
const LONGEST_MS = 25_000;

/** Accepts connections, and says nothing. */
let silent: Server;
let port: number;
const sockets = new Set<Socket>();

beforeAll(async () => {
  silent = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  port = (silent.address() as { port: number }).port;
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  silent.close();
});

const STORES = [
  'postgres://u:hunter2@HOST/db',
  'postgres://u:hunter2@HOST/db?sslmode=require',
  'mysql://u:hunter2@HOST/db?driver=mysql2',
  'mysql://u:hunter2@HOST/db?driver=mysql2&sslmode=require',
  'mariadb://u:hunter2@HOST/db?driver=mariadb',
  'redis://u:hunter2@HOST',
  'rediss://u:hunter2@HOST',
  'redis+cluster://u:hunter2@HOST',
  'redis+sentinel://u:hunter2@HOST/primary',
];

it('a run gives up as soon as a command that only looks: it waits for nothing that it could give back', async () => {
  const started = performance.now();
  const timed = async (args: readonly string[]): Promise<number> => {
    expect((await box().run(args, { env: { JOBLATCH_STORE: 'redis://127.0.0.1:1' } })).code).toBe(69);
    return performance.now() - started;
  };
  const run = timed(['run', '-n', 'job', '--at-most-for', '1m', '--', 'true']);
  const [ran, looked] = await Promise.all([run, timed(['list'])]);
  // Trying to give back what may have been granted took five seconds more.
  expect(ran - looked).toBeLessThan(3_500);
});

describe.each([
  ['refuses connections', () => '127.0.0.1:1'],
  ['accepts them and never answers', () => `127.0.0.1:${port}`],
])('a host that %s', (_what, host) => {
  it('is 69 within seconds for all stores and commands, and no password is shown', async () => {
    const run = ['run', '-n', 'job', '--at-most-for', '1m', '--report', 'fd:1', '--', 'echo', 'ran'];
    const doctor = ['doctor', '--json'];
    const started = performance.now();
    // All at once: they only wait.
    const results = await Promise.all(
      STORES.flatMap((store) =>
        (store.includes('+') ? [run] : [run, doctor]).map(async (command) => {
          const result = await box().run(command, { env: { JOBLATCH_STORE: store.replace('HOST', host()) } });
          return { ...result, asked: `${command[0]} ${store}`, ms: performance.now() - started };
        }),
      ),
    );
    for (const { asked, code, ms, stdout, stderr } of results) {
      expect({ asked, code }).toEqual({ asked, code: 69 });
      expect(ms, asked).toBeLessThan(LONGEST_MS);
      expect(stdout + stderr).not.toContain('hunter2');
      expect(stdout, asked).toMatch(/^\{.*\}\n$/);
      expect(stdout, asked).toContain(asked.startsWith('run') ? '"code":"STORE"' : '"code":"connection"');
      if (host().endsWith(':1')) expect(stdout, asked).toContain('ECONNREFUSED');
    }
  });
});
