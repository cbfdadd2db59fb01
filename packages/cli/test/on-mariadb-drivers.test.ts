import { writeFileSync } from 'node:fs';
import { createPool } from 'mysql2/promise';
import { expect, it } from 'vitest';
import { sandboxes, until } from './sandbox.ts';
import { describeOn } from './servers.ts';
import { promisesOn } from './store-suite.ts';

promisesOn('mariadb', '&driver=mariadb');

describeOn('mariadb', 'its drivers', (server) => {
  const box = sandboxes(server.fresh);
  /** As if these were not installed. */
  const without = (...names: string[]): Record<string, string> => {
    writeFileSync(
      box().path('hide.mjs'),
      `export async function resolve(specifier, context, next) {
         const name = ${JSON.stringify(names)}.find((one) => specifier.split('/')[0] === one);
         if (name === undefined) return next(specifier, context);
         throw Object.assign(new Error("Cannot find package '" + name + "' imported from here"), { code: 'ERR_MODULE_NOT_FOUND' });
       }`,
    );
    writeFileSync(
      box().path('hiding.mjs'),
      `import { register } from 'node:module'; register('./hide.mjs', import.meta.url);`,
    );
    return { NODE_OPTIONS: `--import=${box().path('hiding.mjs')}` };
  };
  const driver = async (query: string, env?: Record<string, string>): Promise<string | undefined> => {
    const { stdout, stderr } = await box().run(['doctor', '-s', box().store + query], {
      ...(env && { env }),
    });
    return /made in \d+ms with (\w+)/.exec(stdout)?.[1] ?? stderr;
  };

  it('mysql2 is the first choice, mariadb the second, and a URL may name one', async () => {
    expect(await driver('')).toBe('mysql2');
    expect(await driver('', without('mysql2'))).toBe('mariadb');
    expect(await driver('&driver=mariadb')).toBe('mariadb');
  });

  it('without any, nothing is run: status 69, and what to install', async () => {
    const run = ['run', '-n', 'job', '--at-most-for', '1m', '--', 'echo', 'ran'];
    const none = await box().run(run, { env: without('mysql2', 'mariadb') });
    expect(none).toMatchObject({ code: 69, stdout: '' });
    expect(none.stderr).toContain('need the driver mysql2 or mariadb');
    expect(none.stderr).toContain('npm install --global mysql2');
    const store = `${box().store}&driver=mariadb`;
    const other = await box().run(['doctor', '-s', store], { env: without('mariadb') });
    expect(other).toMatchObject({
      code: 69,
      stdout: expect.stringContaining('npm install --global mariadb'),
    });
  });
});

describeOn('mariadb', 'a connection that is cut off', (server) => {
  const box = sandboxes(server.fresh);

  it.each(['mysql2', 'mariadb'])('is made anew, and who watches sees what comes: %s', async (driver) => {
    const user = `watcher_${Math.random().toString(36).slice(2)}`;
    const pool = createPool({ uri: server.url.replace(/\?.*/, ''), connectionLimit: 1 });
    try {
      await pool.query(`create user ${user}@'%'`);
      await pool.query(`grant all on *.* to ${user}@'%'`);
      const store = `${box().store.replace('root@', `${user}@`)}&driver=${driver}`;
      const connections = async (): Promise<number[]> => {
        const [rows] = await pool.query('select id from information_schema.processlist where user = ?', [
          user,
        ]);
        return (rows as { id: number }[]).map(({ id }) => id);
      };
      const run = (name: string) => box().ok(['run', '-q', '-n', name, '--at-most-for', '1m', '--', 'true']);
      await run('before');
      const watcher = box().start(['watch', '-s', store, '--interval', '100ms', '--json']);
      let seen = '';
      watcher.child.stdout?.on('data', (chunk: Buffer) => {
        seen += chunk;
      });
      await until(() => seen.includes('"key":"before"'), 'it sees what is there');
      const before = await connections();
      for (const id of before) await pool.query(`kill ${id}`).catch(() => {});
      await until(
        async () => (await connections()).some((id) => !before.includes(id)),
        'it is connected anew',
      );
      await run('after');
      await until(() => seen.includes('"key":"after"'), 'it sees what is new');
      watcher.child.kill('SIGTERM');
      expect(await watcher.done).toMatchObject({ code: 143 });
    } finally {
      await pool.query(`drop user if exists ${user}@'%'`);
      await pool.end();
    }
  });
});
