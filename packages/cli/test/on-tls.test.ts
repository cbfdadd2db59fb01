import { migratePostgres } from 'joblatch/postgres';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { noOwnServer, OwnServer } from '../../joblatch/test/support/postgres-own-server.ts';
import { describeWithOwnRedis, freePort, OwnRedis } from '../../joblatch/test/support/redis-servers.ts';
import { skipAll } from '../../joblatch/test/support/skip-all.ts';
import { Authority, noOpenssl } from './certificates.ts';
import { sandboxes } from './sandbox.ts';
import { checksCertificates, ECHO, HERE, OTHER_HOST, RUN } from './tls-suite.ts';

describeWithOwnRedis(
  'rediss://',
  () => {
    let right: Authority;
    let wrong: Authority;
    let port = 0;
    let elsewhere = 0;
    let clustered = 0;
    const url = (host: string, ca: string) =>
      `rediss://default:hunter2@${host}:${port}?env=tls${ca && `&ca=${encodeURIComponent(ca)}`}`;
    beforeAll(async () => {
      [right, wrong] = [new Authority(), new Authority()];
      const start = async (kind: 'start' | 'cluster', name: string, altName: string): Promise<number> => {
        const { cert, key } = right.issue(name, altName);
        const tlsPort = await freePort();
        await OwnRedis[kind](
          ...['--tls-port', String(tlsPort), '--tls-auth-clients', 'no'],
          ...['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', right.file],
          // Any password will do: the tests look behind the back without one.
          ...['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '--tls-cluster', 'yes'],
        );
        return tlsPort;
      };
      [port, elsewhere, clustered] = await Promise.all([
        start('start', 'here', HERE),
        start('start', 'elsewhere', 'DNS:redis.example'),
        start('cluster', 'member', HERE),
      ]);
    });
    afterAll(() => {
      right.remove();
      wrong.remove();
    });
    checksCertificates(() => ({ right, wrong, url }));

    describe('rediss+cluster://', () => {
      const box = sandboxes();
      it('takes the authority that signed, and says of another what is wrong', async () => {
        const store = (ca: string) =>
          url('127.0.0.1', ca).replace('rediss', 'rediss+cluster').replace(`:${port}?`, `:${clustered}?`);
        expect(await box().run([...RUN, '-s', store(right.file), ...ECHO])).toMatchObject({
          code: 0,
          stdout: 'ran\n',
        });
        const refused = await Promise.all(
          [[...RUN, ...ECHO], ['list'], ['doctor']].map(([command, ...rest]) =>
            box().run([command as string, '-s', store(wrong.file), ...rest]),
          ),
        );
        for (const { code, stdout, stderr } of refused) {
          expect(code).toBe(69);
          expect(stdout + stderr).toContain('Name its authority in');
          expect(stdout + stderr).not.toContain('hunter2');
        }
      });
    });

    describe('a certificate of another host', () => {
      const box = sandboxes();
      it('is refused, unless servername says that it is meant', async () => {
        const store = url('127.0.0.1', right.file).replace(`:${port}?`, `:${elsewhere}?`);
        const refused = await box().run([...RUN, '-s', store, ...ECHO]);
        expect(refused).toMatchObject({ code: 69, stdout: '' });
        expect(refused.stderr).toMatch(OTHER_HOST);
        expect(refused.stderr).not.toContain('hunter2');
        const meant = await box().run([...RUN, '-s', `${store}&servername=redis.example`, ...ECHO]);
        expect(meant).toMatchObject({ code: 0, stdout: 'ran\n' });
      });
    });
  },
  noOpenssl,
);

const noPostgres =
  process.env.JOBLATCH_TEST_POSTGRES === undefined
    ? 'JOBLATCH_TEST_POSTGRES is not set; npm run stores -- --only postgres --exec "npm test" sets it'
    : (noOwnServer ?? noOpenssl);

describe('postgres:// with sslmode', () => {
  if (noPostgres !== undefined) return skipAll('postgres:// with sslmode', noPostgres);
  let right: Authority;
  let wrong: Authority;
  let server: OwnServer;
  const url = (host: string, ca: string, mode = 'verify-full') => {
    const { port, pathname } = new URL(server.url);
    const root = ca && `&sslrootcert=${encodeURIComponent(ca)}`;
    return `postgres://joblatch:hunter2@${host}:${port}${pathname}?sslmode=${mode}${root}`;
  };
  beforeAll(async () => {
    [right, wrong] = [new Authority(), new Authority()];
    server = await OwnServer.start((folder) => {
      const { cert, key } = right.issue('here', HERE, folder);
      return ['ssl=on', `ssl_cert_file=${cert}`, `ssl_key_file=${key}`];
    });
    const pool = new Pool({ connectionString: server.url, max: 1 });
    await migratePostgres({ pool });
    await pool.end();
  });
  afterAll(async () => {
    await server?.remove();
    right.remove();
    wrong.remove();
  });
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
  });
});
