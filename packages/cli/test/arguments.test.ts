import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();
const ps = (pid: number): string =>
  execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' });

describe.skipIf(process.platform === 'win32')('the arguments of joblatch, as others see them', () => {
  it.each([
    [['-s', 'redis://u:hunter2@127.0.0.1:1'], 'redis://***@127.0.0.1:1'],
    [['--store=postgres://u:hun%40ter2@127.0.0.1:1/db'], 'postgres://***@127.0.0.1:1/db'],
  ])('hold no password: %j', async (store, shown) => {
    // It looks for the store as long as this takes.
    const command = ['sh', '-c', `ps -o args= -p $PPID; echo ready > ready; exec sleep 300`];
    const running = box().start([
      'run',
      '-n',
      'job',
      '--at-most-for',
      '1m',
      '--wait',
      '20s',
      ...store,
      '--',
      ...command,
    ]);
    const args = ps(running.pid);
    let last = args;
    for (let i = 0; i < 100 && last.includes('bin/joblatch.js'); i++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      last = ps(running.pid);
    }
    expect(last).toContain(shown);
    expect(last).toContain('joblatch run -n job');
    expect(last).not.toMatch(/hunter2|ter2/);
    running.child.kill('SIGKILL');
    await running.done;
  });

  it('stay as they are when there is nothing to hide', async () => {
    const { stdout } = await box().run([
      'run',
      '-n',
      'job',
      '--at-most-for',
      '1m',
      '--',
      'sh',
      '-c',
      'ps -o args= -p $PPID',
    ]);
    expect(stdout).toContain('bin/joblatch.js run -n job');
  });
});
