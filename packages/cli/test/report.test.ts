import { spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { JOBLATCH, sandboxes } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--at-most-for', '1m'];

describe('--report', () => {
  it('ran', async () => {
    await box().run([...RUN, '--report', 'r.json', '--once-per', '1h', '--', 'true']);
    const report = await box().json('r.json');
    expect(report).toEqual({
      name: 'job',
      status: 'ran',
      exitCode: 0,
      token: expect.any(Number),
      slot: expect.any(Number),
      tookMs: expect.any(Number),
    });
    expect(await box().ask('show', 'job')).toMatchObject({ token: report.token, slot: report.slot });
  });

  it('ran, and failed', async () => {
    await box().run([...RUN, '--report', 'r.json', '--', 'sh', '-c', 'exit 3']);
    expect(await box().json('r.json')).toMatchObject({ status: 'ran', exitCode: 3 });
    await box().run([...RUN, '--report', 'r.json', '--', 'sh', '-c', 'kill -9 $$']);
    expect(await box().json('r.json')).toMatchObject({ status: 'ran', exitCode: 137, signal: 'SIGKILL' });
  });

  it('skipped', async () => {
    await box().run([...RUN, '--at-least-for', '1m', '--', 'true']);
    await box().run([...RUN, '--report', 'r.json', '--skip-exit-code', '9', '--', 'true']);
    expect(await box().json('r.json')).toEqual({
      name: 'job',
      status: 'skipped',
      exitCode: 9,
      reason: 'held',
      leftMs: expect.any(Number),
    });
  });

  it('error', async () => {
    await box().run([...RUN, '--report', 'r.json', '--', 'no-such-command']);
    expect(await box().json('r.json')).toMatchObject({ status: 'error', exitCode: 127, code: 'COMMAND' });
    await box().run([...RUN, '--report', 'r.json', '-s', 'sqlite:/no/such/folder/x', '--', 'true']);
    expect(await box().json('r.json')).toMatchObject({ status: 'error', exitCode: 69, code: 'STORE' });
    await box().run([...RUN, '--report', 'r.json', '-s', 'mysql://u:hunter2@h', '--', 'true']);
    expect(await box().json('r.json')).toMatchObject({ status: 'error', exitCode: 64, code: 'USAGE' });
    expect(readFileSync(box().path('r.json'), 'utf8')).not.toContain('hunter2');
  });

  it('replaces the file as a whole, through a symbolic link, and leaves nothing behind', async () => {
    writeFileSync(box().path('real.json'), 'old');
    symlinkSync('real.json', box().path('r.json'));
    const open = openSync(box().path('real.json'), 'r');
    await box().run([...RUN, '--report', 'r.json', '--', 'true']);
    expect(readFileSync(open, 'utf8')).toBe('old');
    closeSync(open);
    expect(await box().json('real.json')).toMatchObject({ status: 'ran' });
    expect(readdirSync(box().folder).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it.each(['fd:3', '/dev/fd/3'])('%s is written to that descriptor', async (place) => {
    const child = spawn(
      process.execPath,
      [JOBLATCH, ...RUN, '-s', box().store, '--report', place, '--', 'echo', 'hi'],
      {
        stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
      },
    );
    const texts = ['', ''];
    child.stdout?.on('data', (chunk) => {
      texts[0] += chunk;
    });
    child.stdio[3]?.on('data', (chunk) => {
      texts[1] += chunk;
    });
    await new Promise((resolve) => child.on('close', resolve));
    expect(texts[0]).toBe('hi\n');
    expect(JSON.parse(texts[1] as string)).toMatchObject({ status: 'ran', exitCode: 0 });
  });

  it('fd:1 and /dev/stderr add to what is there', async () => {
    const { stdout } = await box().run([...RUN, '--report', 'fd:1', '--', 'echo', 'hi']);
    expect(stdout).toMatch(/^hi\n\{.*\}\n$/);
    const log = openSync(box().path('log'), 'a');
    await box().run([...RUN, '--report', '/dev/stderr', '--', 'sh', '-c', 'echo first >&2'], {
      stdio: ['ignore', 'ignore', log],
    });
    closeSync(log);
    expect(readFileSync(box().path('log'), 'utf8')).toMatch(/^first\n\{.*\}\n$/);
  });

  it.each([3, 4, 5, 7, 10, 15, 20])('fd:%i is refused when nobody has opened it', async (fd) => {
    const { code, stdout } = await box().run([...RUN, '--report', `fd:${fd}`, '--', 'echo', 'ran']);
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
  });

  it('a report that fails at the end does not change the status of the command', async () => {
    const command = ['sh', '-c', 'chmod 000 reports; mv reports elsewhere; exit 5'];
    await box().run([...RUN, '--', 'mkdir', 'reports']);
    const { code, stderr } = await box().run([...RUN, '--report', 'reports/r.json', '--', ...command]);
    expect(code).toBe(5);
    expect(stderr).toContain('the report could not be written');
  });
});
