import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { isAlive, sandboxes, until } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job'];

/** Starts a grandchild that lives on its own, and tells the ids of both. */
const FAMILY = ['--', 'sh', '-c', 'sleep 300 & echo $$ $! > family; wait'];

async function family(): Promise<[child: number, grandchild: number]> {
  return (await box().line('family')).split(' ').map(Number) as [number, number];
}

describe.skipIf(process.platform === 'win32')('when joblatch is killed with SIGKILL', () => {
  it('the command and what it started end soon', async () => {
    const running = box().start([...RUN, '--at-most-for', '1m', ...FAMILY]);
    const [child, grandchild] = await family();
    running.child.kill('SIGKILL');
    expect((await running.done).signal).toBe('SIGKILL');
    await until(() => !isAlive(child) && !isAlive(grandchild), 'both have ended');
  });

  it('by the command itself, with the first thing that it does', async () => {
    const marker = `30${Math.floor(Math.random() * 1e6)}.5`;
    for (let i = 0; i < 10; i++) {
      const command = ['--', 'sh', '-c', `kill -9 $PPID; exec sleep ${marker}`];
      const { signal } = await box().run([...RUN, '--at-most-for', '1m', '-s', `${i}.db`, ...command], {
        stdio: 'ignore',
      });
      expect(signal).toBe('SIGKILL');
    }
    await until(() => !everyProcess().includes(marker), 'none of the commands runs on');
  });

  it('together with its whole process group, too', async () => {
    const running = box().start([...RUN, '--at-most-for', '1m', ...FAMILY], { detached: true });
    const [child, grandchild] = await family();
    process.kill(-running.pid, 'SIGKILL');
    await until(() => !isAlive(child) && !isAlive(grandchild), 'both have ended');
  });

  it('a command that ignores SIGTERM gets SIGKILL after the grace', async () => {
    const deaf = [
      '--',
      'sh',
      '-c',
      "trap '' TERM; sleep 300 & echo $$ $! > family; while :; do sleep 1; done",
    ];
    const running = box().start([...RUN, '--at-most-for', '1m', '--grace', '1s', ...deaf], {
      stdio: 'ignore',
    });
    const [child, grandchild] = await family();
    running.child.kill('SIGKILL');
    await until(() => !isAlive(child) && !isAlive(grandchild), 'both have ended');
  });

  it('a stopped command ends too', async () => {
    const running = box().start([...RUN, '--at-most-for', '1m', ...FAMILY]);
    const [child, grandchild] = await family();
    process.kill(-child, 'SIGSTOP');
    running.child.kill('SIGKILL');
    await until(() => !isAlive(child) && !isAlive(grandchild), 'both have ended');
  });

  it('with --foreground the command ends, as far as it goes', async () => {
    const running = box().start([
      ...RUN,
      '--at-most-for',
      '1m',
      '--foreground',
      '--',
      'sh',
      '-c',
      'echo $$ > pid; exec sleep 300',
    ]);
    const child = Number(await box().line('pid'));
    running.child.kill('SIGKILL');
    await until(() => !isAlive(child), 'it has ended');
  });

  it('the lock is taken after its lease, and not before', async () => {
    const leaseMs = 4_000;
    const holder = box().start([...RUN, '--at-most-for', `${leaseMs}ms`, ...FAMILY]);
    await family();
    const { acquiredAt } = await box().ask<{ acquiredAt: string }>('show', 'job');
    holder.child.kill('SIGKILL');
    await holder.done;
    const now = [process.execPath, '-p', 'Date.now()'];
    const late = await box().run([...RUN, '--at-most-for', '1m', '--wait', '30s', '--', ...now]);
    expect(late.code).toBe(0);
    // What is printed is rounded, so a few milliseconds are left out.
    expect(Number(late.stdout)).toBeGreaterThanOrEqual(Date.parse(acquiredAt) + leaseMs - 10);
  });

  it('with --keep-alive the lock is short, however long the command may take', async () => {
    const holder = box().start([...RUN, '--at-most-for', '2h', '--keep-alive', ...FAMILY]);
    await family();
    const { leftMs } = await box().ask<{ leftMs: number }>('show', 'job');
    expect(leftMs).toBeLessThanOrEqual(30_000);
    holder.child.kill('SIGTERM');
    await holder.done;
  });

  it('nothing is left of the watchdog when the command has ended by itself', async () => {
    const marker = `30${Math.floor(Math.random() * 1e6)}`;
    await box().run([...RUN, '--at-most-for', '1m', '--grace', `${marker}s`, '--', 'true']);
    await sleep(200);
    const { stdout } = await box().run([
      'run',
      '-n',
      'ps',
      '--at-most-for',
      '1m',
      '--',
      'ps',
      '-A',
      '-o',
      'args=',
    ]);
    expect(stdout).toContain('joblatch-watchdog 10');
    expect(stdout).not.toContain(`joblatch-watchdog ${marker}`);
  });
});

function everyProcess(): string {
  return execFileSync('ps', ['-A', '-o', 'args='], { encoding: 'utf8' });
}
