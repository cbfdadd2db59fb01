import { expect, it } from 'vitest';
import type { Authority } from './certificates.ts';
import { sandboxes } from './sandbox.ts';

export const RUN = ['run', '-q', '-n', 'job', '--at-most-for', '1m'];
export const ECHO = ['--', 'echo', 'ran'];
export const HERE = 'IP:127.0.0.1';

export const OTHER_HOST =
  /does not match certificate's altnames.*servername=NAME for Redis, sslmode=verify-ca for the others\.\n$/;

/** What is asked of each store: `url` makes the store's URL of a host and the file of an authority. */
export function checksCertificates(
  places: () => { right: Authority; wrong: Authority; url(host: string, ca: string): string },
) {
  const box = sandboxes();
  const run = (store: string) => box().run([...RUN, '-s', store, ...ECHO]);

  it('with the right authority locks are taken, and doctor says that the certificate is checked', async () => {
    const { right, url } = places();
    expect(await run(url('127.0.0.1', right.file))).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    const { stdout, code } = await box().run(['doctor', '-s', url('127.0.0.1', right.file)]);
    expect(stdout).toMatch(/^ok +encryption +TLS, and the certificate is checked$/m);
    expect(code).toBe(0);
    expect(stdout).not.toContain('hunter2');
  });

  it.each([
    ['another authority', (wrong: Authority) => wrong.file],
    ['none', () => ''],
  ])('with %s nothing is run: status 69, what to do, and no password', async (_what, file) => {
    const { wrong, url } = places();
    const store = url('127.0.0.1', file(wrong));
    const started = performance.now();
    const [ran, asked] = await Promise.all([run(store), box().run(['doctor', '-s', store])]);
    expect(performance.now() - started).toBeLessThan(15_000);
    expect(ran).toMatchObject({ code: 69, stdout: '' });
    expect(ran.stderr).toMatch(/self[- ]signed certificate|unable to verify|certificate signature failure/i);
    expect(ran.stderr).toContain(
      "Name its authority in the store's URL: ca=FILE for Redis, sslrootcert=FILE",
    );
    expect(asked).toMatchObject({
      code: 69,
      stdout: expect.stringMatching(/^error +connection .*certificate/m),
    });
    for (const text of [ran.stderr, asked.stdout, asked.stderr])
      expect(text).not.toMatch(/hunter2|hun%74er2/);
  });
}
