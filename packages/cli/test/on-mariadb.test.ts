import { expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';
import { describeOn } from './servers.ts';
import { promisesOn } from './store-suite.ts';

promisesOn('mariadb');

describeOn('mariadb', 'migrate', (server) => {
  const box = sandboxes(async () => `${await server.fresh()}_new`);

  it('a missing table is 69 and names the command that makes it; then there is one, and nothing to do', async () => {
    const early = await box().run(['run', '-n', 'job', '--at-most-for', '1m', '--', 'echo', 'ran']);
    expect(early).toMatchObject({ code: 69, stdout: '' });
    expect(early.stderr).toContain('joblatch migrate');
    const doctor = await box().run(['doctor']);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toMatch(/^error +table +there is no table/m);

    const printed = await box().run(['migrate', '--print']);
    expect(printed.stdout).toMatch(
      /^-- For MySQL\. .*\n-- .*\ncreate table if not exists `joblatch_cli_\w+`\.`locks_\w+_new` \(\n/,
    );
    expect(printed.stdout).toContain('utf8mb4_0900_bin');
    const store = box().store.replace(/^mysql:/, 'mariadb:');
    const fitting = await box().run(['migrate', '--print', '-s', store]);
    expect(fitting.stdout).toMatch(/^-- For MariaDB\. .*\ncreate table if not exists/);
    expect(fitting.stdout).toMatch(/utf8mb4_nopad_bin[\s\S]*\n\) engine = InnoDB;\nalter table .*;\n$/);
    expect((await box().run(['list'])).code).toBe(69);

    expect(await box().ask('migrate')).toMatchObject({
      statements: [expect.stringContaining('create table')],
    });
    expect((await box().run(['migrate'])).stdout).toMatch(/^nothing to do: the table "joblatch_cli_/);
    expect((await box().run(['run', '-n', 'job', '--at-most-for', '1m', '--', 'echo', 'ran'])).stdout).toBe(
      'ran\n',
    );
  });
});
