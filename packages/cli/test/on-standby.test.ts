import { migratePostgres } from 'joblatch/postgres';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noStandby, OwnServer } from '../../joblatch/test/support/postgres-own-server.ts';
import { skipAll } from '../../joblatch/test/support/skip-all.ts';
import { sandboxes, until } from './sandbox.ts';

const WHAT = 'a hot standby of PostgreSQL';
const RUN = ['run', '-q', '-n', 'job', '--at-most-for', '1m'];
const ECHO = ['--', 'echo', 'ran'];

const missing =
  process.env.JOBLATCH_TEST_POSTGRES === undefined
    ? 'JOBLATCH_TEST_POSTGRES is not set; npm run stores -- --only postgres --exec "npm test" sets it'
    : noStandby;

describe(WHAT, () => {
  if (missing !== undefined) return skipAll(WHAT, missing);
  let primary: OwnServer;
  let standby: OwnServer;
  const box = sandboxes(async () => standby.url);

  beforeAll(async () => {
    primary = await OwnServer.start();
    const pool = new Pool({ connectionString: primary.url, max: 1 });
    await migratePostgres({ pool });
    await pool.end();
    standby = await primary.standby();
  });
  afterAll(async () => {
    await standby?.remove();
    await primary?.remove();
  });

  it('nothing is run against it: status 69, and what to do', async () => {
    const { code, stdout, stderr } = await box().run([...RUN, ...ECHO]);
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' });
    expect(stderr).toMatch(/^joblatch: acquire of "job" failed on PostgreSQL .*(read-only|recovery)/);
    expect(stderr).toMatch(/standby/i);
  });

  it('doctor says that it is one, and what to do; of the primary, that it has one', async () => {
    const { code, stdout } = await box().run(['doctor']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^error +role +a standby$/m);
    expect(stdout).toMatch(
      /^error: role\n {2}it is read-only: no lock can be taken here\n {2}do: name the primary in the URL$/m,
    );
    const asked = await box().run(['doctor', '-s', primary.url]);
    expect(asked).toMatchObject({ code: 0 });
    expect(asked.stdout).toMatch(/^ok +role +primary$/m);
    expect(asked.stdout).toMatch(/^warning +replication +1 asynchronous replica$/m);
  });

  it('can be looked at, and shows what the primary has granted', async () => {
    await box().ok([...RUN, '-s', primary.url, '--at-least-for', '1m', ...ECHO]);
    await until(async () => (await box().state('job')) === 'kept', 'the standby has it');
    expect(await box().run(['release', 'job', '--force'])).toMatchObject({ code: 69 });
    expect(await box().state('job')).toBe('kept');
  });

  it('promoted, it goes on with what it has: the lock is refused, and the next token is greater', async () => {
    const before = await box().ask<{ token: number }>('show', 'job');
    await primary.stop('SIGQUIT');
    const pool = new Pool({ connectionString: standby.url, max: 1 });
    await pool.query('select pg_promote()');
    await pool.end();
    expect(await box().run([...RUN, '--skip-exit-code', '9', ...ECHO])).toMatchObject({
      code: 9,
      stdout: '',
    });
    await box().ok(['release', 'job', '--force']);
    const { stdout } = await box().run([...RUN, '--', 'sh', '-c', 'echo $JOBLATCH_FENCING_TOKEN']);
    expect(Number(stdout)).toBeGreaterThan(before.token);
  });
});
