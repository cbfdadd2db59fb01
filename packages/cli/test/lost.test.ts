import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { isAlive, type Running, sandboxes, until } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--report', 'report'];
const FAMILY = ['--', 'sh', '-c', 'sleep 300 & echo $$ $! > family; wait'];
const DEAF_FAMILY = [
  '--',
  'sh',
  '-c',
  "trap '' TERM; sleep 300 & echo $$ $! > family; while :; do sleep 0.1; done",
];

async function start(args: readonly string[]): Promise<{ running: Running; pids: number[] }> {
  const running = box().start([...RUN, ...args]);
  return { running, pids: (await box().line('family')).split(' ').map(Number) };
}

async function expectLost(running: Running, pids: readonly number[], detectedBy: string): Promise<void> {
  const { code, stderr } = await running.done;
  expect(code).toBe(75);
  expect(stderr).toContain(`lost the lock "job" (${detectedBy})`);
  expect(await box().json('report')).toMatchObject({ name: 'job', status: 'lost', exitCode: 75, detectedBy });
  await until(() => !pids.some(isAlive), 'the command and what it started have ended');
}

describe('when the lock is lost, the command and what it started are ended, and the status is 75', () => {
  it('released by force', async () => {
    const { running, pids } = await start(['--at-most-for', '5m', '--keep-alive', ...FAMILY]);
    // The next renewal, up to 10 s later, finds it out.
    expect((await box().run(['release', 'job', '--force'])).code).toBe(0);
    await expectLost(running, pids, 'renewal');
  });

  it('released by force, and the command ends before anybody notices', async () => {
    const short = ['--', 'sh', '-c', 'echo $$ $$ > family; while [ ! -e done ]; do sleep 0.05; done'];
    const { running, pids } = await start(['--at-most-for', '5m', ...short]);
    await box().ok(['release', 'job', '--force']);
    await box().ok(['run', '-n', 'other', '--at-most-for', '1m', '--', 'touch', 'done']);
    await expectLost(running, pids, 'release');
    expect(await box().json('report')).toMatchObject({ commandExitCode: 0 });
  });

  it('the command outlives --at-most-for', async () => {
    const { running, pids } = await start(['--at-most-for', '1s', ...FAMILY]);
    await expectLost(running, pids, 'deadline');
    expect((await running.done).stderr).toContain('SIGKILL after 10s');
  });

  it('the command outlives --at-most-for with --keep-alive', async () => {
    const { running, pids } = await start(['--at-most-for', '1s', '--keep-alive', ...FAMILY]);
    await expectLost(running, pids, 'cap');
  });

  it('joblatch was stopped past the lease', async () => {
    const { running, pids } = await start(['--at-most-for', '2s', '--keep-alive', ...FAMILY]);
    running.child.kill('SIGSTOP');
    await sleep(2_500);
    const next = await box().run(['run', '-n', 'job', '--at-most-for', '1m', '--', 'echo', 'ran']);
    expect(next.stdout).toBe('ran\n');
    running.child.kill('SIGCONT');
    const { code } = await running.done;
    expect(code).toBe(75);
    await until(() => !pids.some(isAlive), 'the command and what it started have ended');
  });

  it('Ctrl-Z past the lease: the command does not take another step', async () => {
    const count = ['--', 'sh', '-c', 'echo $$ $$ > family; while :; do echo x >> steps; sleep 0.02; done'];
    const { running, pids } = await start(['--at-most-for', '2s', ...count]);
    running.child.kill('SIGTSTP');
    await sleep(2_500);
    const before = await box().line('steps');
    running.child.kill('SIGCONT');
    expect((await running.done).code).toBe(75);
    expect(await box().line('steps')).toBe(before);
    expect(pids.some(isAlive)).toBe(false);
  });

  it('those that ignore SIGTERM get SIGKILL after the grace', async () => {
    const { running, pids } = await start(['--at-most-for', '1s', '--grace', '700ms', ...DEAF_FAMILY]);
    await expectLost(running, pids, 'deadline');
    expect(await box().json('report')).toMatchObject({ commandExitCode: 137, signal: 'SIGKILL' });
  });

  it('the command ended, but left something behind that runs on', async () => {
    const left = [
      '--',
      'sh',
      '-c',
      "trap 'exit 0' TERM; (trap '' TERM; exec sleep 300) & echo $$ $! > family; wait",
    ];
    const { running, pids } = await start(['--at-most-for', '1s', '--grace', '700ms', ...left]);
    await expectLost(running, pids, 'deadline');
    expect(await box().json('report')).toMatchObject({ commandExitCode: 0 });
  });
});
