import { chmodSync, writeFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import { failureOf } from '../src/errors.ts';
import { runProgram } from '../src/program.ts';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--at-most-for', '1m'];

describe('the exit status', () => {
  it.each([0, 1, 3, 64, 255])('is that of the command: %i', async (status) => {
    const { code } = await box().run([...RUN, '--', 'sh', '-c', `exit ${status}`]);
    expect(code).toBe(status);
  });

  it.each([
    ['KILL', 137],
    ['TERM', 143],
    ['SEGV', 139],
  ])('is 128 + n when SIG%s ended the command', async (signal, status) => {
    const { code } = await box().run([...RUN, '--', 'sh', '-c', `kill -${signal} $$`]);
    expect(code).toBe(status);
  });

  it('is 127 for a command that is not there, and the lock was not used up', async () => {
    const failed = await box().run([
      ...RUN,
      '--once-per',
      '31d',
      '--at-least-for',
      '1m',
      '--',
      'no-such-command',
    ]);
    expect(failed.code).toBe(127);
    expect(failed.stderr).toContain('"no-such-command": command not found');
    const next = await box().run([...RUN, '--once-per', '31d', '--', 'echo', 'ran']);
    expect(next.stdout).toBe('ran\n');
  });

  it.each([
    '#!/no/such/interpreter',
    '#!/usr/bin/env no-such-interpreter',
    '#! /usr/bin/env no-such-interpreter -x',
  ])('is 127 for a script of %s, and the lock was not used up', async (firstLine) => {
    const sandbox = box();
    const script = `${sandbox.folder}/script`;
    writeFileSync(script, `${firstLine}\n`);
    chmodSync(script, 0o755);
    const failed = await sandbox.run([...RUN, '--once-per', '31d', '--', script]);
    expect(failed.code).toBe(127);
    expect(failed.stderr).toMatch(/^joblatch: .*its interpreter "[^"]+" not found/);
    const next = await sandbox.run([...RUN, '--once-per', '31d', '--', 'echo', 'ran']);
    expect(next.stdout).toBe('ran\n');
  });

  it.each(['./plain.txt', './folder', '/dev/null'])(
    'is 126 for %s, that can not be executed',
    async (path) => {
      writeFileSync(box().path('plain.txt'), 'hello');
      await box().run([...RUN, '--', 'mkdir', 'folder']);
      const { code, stderr } = await box().run([...RUN, '--', path]);
      expect(code).toBe(126);
      expect(stderr).toContain(`"${path}": can not be executed`);
    },
  );

  it('is that of a script without a first line that names its interpreter', async () => {
    writeFileSync(box().path('script'), 'exit 9\n');
    chmodSync(box().path('script'), 0o755);
    expect((await box().run([...RUN, '--', './script'])).code).toBe(9);
  });

  it.each([
    ['a folder that is not there', 'sqlite:/no/such/folder/locks.db'],
    ['a file that is no database', './text.db'],
  ])('is 69 when the store is %s, and nothing ran', async (_what, store) => {
    writeFileSync(box().path('text.db'), 'x'.repeat(5_000));
    const { code, stdout, stderr } = await box().run([...RUN, '--store', store, '--', 'echo', 'ran']);
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' });
    expect(stderr).toMatch(/^joblatch: acquire of "job" failed on .*\n$/);
    expect((await box().run(['list', '--store', store])).code).toBe(69);
  });

  it('is 0 when skipped, or what --skip-exit-code says', async () => {
    await box().run([...RUN, '--at-least-for', '1m', '--', 'true']);
    const skipped = await box().run([...RUN, '--', 'echo', 'ran']);
    expect(skipped).toMatchObject({ code: 0, stdout: '' });
    expect(skipped.stderr).toContain('skipped: "job" is held');
    const named = await box().run([...RUN, '--skip-exit-code', '99', '--', 'echo', 'ran']);
    expect(named).toMatchObject({ code: 99, stdout: '' });
  });
});

describe('bad usage is 64, and says what was given and what is accepted', () => {
  test.each<[given: string[], said: string | RegExp]>([
    [[], 'Usage: joblatch'],
    [['frobnicate'], "unknown command 'frobnicate'"],
    [[...RUN, '--store', 'memory:', '--', 'true'], 'would exclude nobody'],
    [[...RUN, '--store', 'sqlite::memory:', '--', 'true'], 'would exclude nobody'],
    [[...RUN, '--store', 'sqlite:', '--', 'true'], 'names no file'],
    [[...RUN, '--store', 'sqlite://host/locks.db', '--', 'true'], 'three slashes'],
    [[...RUN, '--store', 'mysql://h', '--', 'true'], /none was given\. Accepted: mariadb:/],
    [[...RUN, '--store', 'gopher://h', '--', 'true'], /not one that joblatch knows\. Accepted: sqlite:PATH;/],
    [[...RUN, '--store', '', '--', 'true'], '--store is empty'],
    [[...RUN, '--report', '/no/such/folder/r.json', '--', 'true'], '"/no/such/folder"'],
    [[...RUN, '--report', '.', '--', 'true'], 'is a folder'],
    [[...RUN, '--report', 'fd:77', '--', 'true'], 'no such descriptor is open for writing'],
    [[...RUN, '--report', 'fd:0', '--', 'true'], 'fd:0'],
    [[...RUN, '--report', 'fd:x', '--', 'true'], 'fd:x'],
    [[...RUN, '--', '--wait', '1s', 'true'], '"--wait" looks like an option'],
  ])('%j', async (given, said) => {
    const { code, stdout, stderr } = await box().run(given);
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    if (typeof said === 'string') expect(stderr).toContain(said);
    else expect(stderr).toMatch(said);
  });

  // What is found out before anything is done needs no process of its own.
  test.each<[given: string[], said: string]>([
    [['lst'], 'Did you mean list?'],
    [['run', '--nme', 'x', '--', 'true'], "unknown option '--nme' (Did you mean --name?)"],
    [
      ['run', '--at-most-for', '1m', '--', 'true'],
      '--name is missing. For example: joblatch run --name report',
    ],
    [['run', '-n', 'x', '--', 'true'], '--at-most-for is missing. For example: '],
    [['run', '-n', 'x', '--at-most-for', '1m'], 'the command is missing. For example: '],
    [['run', 'echo', 'hi'], '--name and --at-most-for are missing. For example: '],
    [['run'], '--name, --at-most-for and the command are missing. For example: '],
    [['run', '-n', '', '--at-most-for', '1m', '--', 'true'], 'The name is empty'],
    [['run', '-n', 'x', '--at-most-for', '300', '--', 'true'], '"300", without a unit: write 300s or 300ms'],
    [['run', '-n', 'x', '--at-most-for', 'soon', '--', 'true'], '"soon". Accepted: 90s, 1h30m'],
    [['run', '-n', 'x', '--at-most-for', '0', '--', 'true'], '--at-most-for is "0"'],
    [['run', '-n', 'x', '--at-most-for', '-5s', '--', 'true'], '--at-most-for is "-5s"'],
    [
      [...RUN, '--at-least-for', '2m', '--', 'true'],
      '--at-least-for is 2m, longer than --at-most-for, which is 1m',
    ],
    [[...RUN, '--once-per', '1ms', '--', 'true'], 'from 1s to 31d'],
    [[...RUN, '--per-slot', 'at-least-once', '--', 'true'], 'says nothing without --once-per'],
    [[...RUN, '--once-per', '1h', '--per-slot', 'twice', '--', 'true'], 'at-most-once, at-least-once'],
    [[...RUN, '--skip-exit-code', '256', '--', 'true'], '"256". Accepted: a whole number from 0 to 255'],
    [[...RUN, '--skip-exit-code', '1e2', '--', 'true'], '"1e2"'],
    [['release', 'x'], 'needs --force'],
    [['purge'], '--older-than is missing'],
    [['purge', '--older-than', '30'], 'without a unit'],
    [['show'], "missing required argument 'name'"],
    [['list', 'extra'], 'too many arguments'],
    [['watch', '--interval', '1ms'], 'from 100ms'],
  ])('%j', async (given, said) => {
    const failure = await runProgram(given).then(() => undefined, failureOf);
    expect(failure).toMatchObject({ exitCode: 64, message: expect.stringContaining(said) });
  });
});

describe('asked for', () => {
  it('help goes to stdout, with status 0', async () => {
    const { code, stdout, stderr } = await box().run(['run', '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(
      'Usage: joblatch run --name NAME --at-most-for TIME [options] -- COMMAND [ARGUMENT...]',
    );
    expect(stdout).toContain('75  the lock was lost');
  });

  it('the version is that of the package', async () => {
    expect((await box().run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it('options after the command are the command’s own', async () => {
    const { stdout } = await box().run([...RUN, 'echo', '--name', 'y', '--help', '-q', '--', '--version']);
    expect(stdout).toBe('--name y --help -q -- --version\n');
  });
});
