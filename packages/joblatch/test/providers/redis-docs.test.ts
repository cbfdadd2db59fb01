import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { root, snippetsOf } from '../../../../test/support/snippets.js';
import { describeWithRedis } from '../support/redis-servers.ts';

/** What the snippets import, in the latest version. */
const LIBRARIES = { ioredis: 'ioredis-6', redis: 'redis-6', '@valkey/valkey-glide': '@valkey/valkey-glide' };

describeWithRedis('docs/redis.md', (url) => {
  // Inside the repository, so that joblatch is found by its name.
  const folder = mkdtempSync(join(root, 'test/.snippets-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, installed] of Object.entries(LIBRARIES)) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, 'drivers/node_modules', installed), link);
  }
  const { host, hostname, port } = new URL(url);

  const snippets = snippetsOf('docs/redis.md');
  test.each(snippets.map((snippet) => [snippet.line, snippet] as const))(
    'line %i prints what the page says',
    async (line, { code, output }) => {
      const file = join(folder, `${line}.mjs`);
      const here = code
        .replaceAll('localhost:6379', host)
        .replaceAll("host: 'localhost', port: 6379", `host: '${hostname}', port: ${port}`)
        // The job of the page runs once an hour.
        .replaceAll("'digest'", `'digest-${process.pid}'`);
      writeFileSync(file, here);
      const { stdout } = await promisify(execFile)(process.execPath, [file], {
        cwd: folder,
        timeout: 20_000,
      });
      // GLIDE says there when the server does not have a script yet.
      const said = stdout.replace(/^.*logger_core.*NoScriptError.*\n/gm, '');
      expect(said).toBe(output);
    },
  );

  test('has a snippet for each client, and two of fenced writes', () => {
    expect(snippets).toHaveLength(Object.keys(LIBRARIES).length + 2);
  });
});
