import { migrateMysql } from 'joblatch/mysql';
import { createPool } from 'mysql2/promise';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { noOwnMariadb, OwnMariadb } from '../../joblatch/test/support/mysql-own-server.ts';
import { skipAll } from '../../joblatch/test/support/skip-all.ts';
import { Authority, noOpenssl } from './certificates.ts';
import { sandboxes } from './sandbox.ts';
import { checksCertificates, ECHO, HERE, OTHER_HOST, RUN } from './tls-suite.ts';

const noMariadb = noOwnMariadb ?? noOpenssl;

describe('mariadb:// with sslmode', () => {
  if (noMariadb !== undefined) return skipAll('mariadb:// with sslmode', noMariadb);
  let right: Authority;
  let wrong: Authority;
  let server: OwnMariadb;
  let elsewhere: OwnMariadb;
  beforeAll(async () => {
    [right, wrong] = [new Authority(), new Authority()];
    const start = async (altName: string): Promise<OwnMariadb> => {
      const started = await OwnMariadb.start((folder) => {
        const { cert, key } = right.issue('here', altName, folder);
        return [`--ssl-cert=${cert}`, `--ssl-key=${key}`];
      });
      await started.query(
        "create user jobs@'%' identified by 'hunter2' require ssl; grant all on joblatch.* to jobs@'%'",
      );
      const pool = createPool(started.url);
      await migrateMysql({ pool });
      await pool.end();
      return started;
    };
    [server, elsewhere] = await Promise.all([start(HERE), start('DNS:localhost')]);
  });
  afterAll(async () => {
    await server?.remove();
    await elsewhere?.remove();
    right.remove();
    wrong.remove();
  });

  describe.each(['mysql2', 'mariadb'])('%s', (driver) => {
    const url = (host: string, ca: string, mode = 'verify-full', of = server) => {
      const { port, pathname } = new URL(of.url);
      const root = ca && `&sslrootcert=${encodeURIComponent(ca)}`;
      return `mariadb://jobs:hunter2@${host}:${port}${pathname}?driver=${driver}&sslmode=${mode}${root}`;
    };
    checksCertificates(() => ({ right, wrong, url }));

    describe('a certificate of another host', () => {
      const box = sandboxes();
      test('is refused by verify-full, taken by verify-ca, and no-verify checks nothing', async () => {
        const run = (store: string) => box().run([...RUN, '-s', store, ...ECHO]);
        const other = 'localhost';
        const refused = await run(url(other, right.file));
        expect(refused).toMatchObject({ code: 69, stdout: '', stderr: expect.stringMatching(OTHER_HOST) });
        expect(refused.stderr).not.toContain('hunter2');
        expect((await run(url(other, right.file, 'verify-ca'))).stdout).toBe('ran\n');
        expect(await run(url(other, wrong.file, 'verify-ca'))).toMatchObject({ code: 69, stdout: '' });
        expect((await run(url(other, wrong.file, 'no-verify'))).stdout).toBe('ran\n');
      });

      test('an address must be in it too: one for localhost is not taken for 127.0.0.1', async () => {
        const run = (host: string) =>
          box().run([...RUN, '-s', url(host, right.file, 'verify-full', elsewhere), ...ECHO]);
        expect(await run('127.0.0.1')).toMatchObject({ code: 69, stderr: expect.stringMatching(OTHER_HOST) });
        expect((await run('localhost')).stdout).toBe('ran\n');
      });
    });
  });
});
