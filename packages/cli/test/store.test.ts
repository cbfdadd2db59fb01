import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--at-most-for', '1m'];
const NO_STORE = { JOBLATCH_STORE: undefined };

describe('without a store', () => {
  it.runIf(process.platform === 'linux')('a file in XDG_STATE_HOME, with one notice', async () => {
    const env = { ...NO_STORE, XDG_STATE_HOME: box().path('state') };
    const { code, stdout, stderr } = await box().run([...RUN, '--', 'echo', 'ran'], { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'ran\n' });
    const path = join(box().path('state'), 'joblatch', 'locks.db');
    expect(stderr).toBe(
      `joblatch: no store given, so ${path}: it excludes only processes of this user on this host\n`,
    );
    expect(existsSync(path)).toBe(true);
    expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700);
    expect((await box().run(['run', '-q', ...RUN.slice(1), '--', 'true'], { env })).stderr).toBe('');
  });

  it.runIf(process.platform === 'linux')('else in ~/.local/state', async () => {
    await box().run([...RUN, '--', 'true'], { env: NO_STORE });
    expect(existsSync(box().path('.local/state/joblatch/locks.db'))).toBe(true);
  });

  it.runIf(process.platform === 'linux')('69 when the folder can not be made', async () => {
    writeFileSync(box().path('file'), '');
    const env = { ...NO_STORE, XDG_STATE_HOME: box().path('file') };
    const { code, stderr } = await box().run([...RUN, '--', 'true'], { env });
    expect(code).toBe(69);
    expect(stderr).toContain('Name a store with --store or JOBLATCH_STORE');
  });
});

describe('a store is named', () => {
  it.each([['sqlite:other.db'], ['./other.db'], ['other.db'], ['sqlite:./other.db']])(
    'by --store %s',
    async (store) => {
      await box().run([...RUN, '--store', store, '--', 'true']);
      expect(existsSync(box().path('other.db'))).toBe(true);
      expect(existsSync(box().store)).toBe(false);
    },
  );

  it('by a URL with three slashes, escapes and all', async () => {
    await box().run([...RUN, '--store', `sqlite://${box().folder}/a%20%3F.db`, '--', 'true']);
    expect(existsSync(box().path('a ?.db'))).toBe(true);
  });

  it('by JOBLATCH_STORE_FILE', async () => {
    writeFileSync(box().path('where'), 'sqlite:other.db\n');
    const env = { ...NO_STORE, JOBLATCH_STORE_FILE: 'where' };
    expect((await box().run([...RUN, '--', 'true'], { env })).stderr).toBe('');
    expect(existsSync(box().path('other.db'))).toBe(true);
  });

  it('by both JOBLATCH_STORE and its file: refused', async () => {
    const { code, stderr } = await box().run([...RUN, '--', 'true'], {
      env: { JOBLATCH_STORE_FILE: 'where' },
    });
    expect(code).toBe(64);
    expect(stderr).toContain('Both JOBLATCH_STORE and JOBLATCH_STORE_FILE are set');
  });

  it('by a file that is not there: refused', async () => {
    const env = { ...NO_STORE, JOBLATCH_STORE_FILE: 'where' };
    const { code, stderr } = await box().run([...RUN, '--', 'true'], { env });
    expect(code).toBe(64);
    expect(stderr).toContain('JOBLATCH_STORE_FILE names "where", which can not be read (ENOENT)');
  });
});

describe('passwords do not appear in messages', () => {
  it.each([
    ['in the URL', { JOBLATCH_STORE: 'mysql://user:hunter2@host' }],
    ['with odd characters', { JOBLATCH_STORE: 'redis://user:p@ss/hunter2 "x@host' }],
    ['as a parameter', { JOBLATCH_STORE: 'postgres://host/db?password=hunter2' }],
    ['in the environment', { JOBLATCH_STORE: 'mysql://host', JOBLATCH_STORE_PASSWORD: 'hunter2' }],
    [
      'in a path that has the same text',
      { JOBLATCH_STORE: 'sqlite:/no/hunter2/x', JOBLATCH_STORE_PASSWORD: 'hunter2' },
    ],
  ])('%s', async (_where, env) => {
    const { code, stdout, stderr } = await box().run([...RUN, '--report', 'fd:1', '--', 'true'], { env });
    expect([64, 69]).toContain(code);
    expect(stderr).toContain('***');
    expect(stdout + stderr).not.toContain('hunter2');
  });
});

it('a client library is loaded only for its own kind of store', async () => {
  const loaded = async (store: string): Promise<string[]> => {
    const { stderr } = await box().run(['doctor', '-s', store], { env: { NODE_DEBUG: 'module' } });
    return ['pg', 'ioredis', 'mysql2', 'mariadb'].filter((name) => stderr.includes(`/node_modules/${name}/`));
  };
  expect(await loaded(box().store)).toEqual([]);
  // Shows that it would be seen.
  expect(await loaded('postgres://127.0.0.1:1/db')).toEqual(['pg']);
  expect(await loaded('mariadb://127.0.0.1:1/db')).toEqual(['mysql2']);
});
