import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { isAlive, sandboxes, until } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--at-most-for', '1m'];

/** Says that it is there, and waits to be told to end. */
const SLEEPER = ['--', 'sh', '-c', 'echo $$ > started; exec sleep 300'];

/** Ends with status 7 when the signal comes, and notes which it was. */
const trapper = (signal: string): string[] => [
  '--',
  'sh',
  '-c',
  `trap 'echo ${signal} > seen; exit 7' ${signal}; echo $$ > started; while :; do sleep 0.05; done`,
];

describe('a signal to joblatch', () => {
  it.each<[NodeJS.Signals, number]>([
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
    ['SIGQUIT', 131],
  ])('%s ends the command, gives the lock back, and the status is %i', async (signal, status) => {
    const running = box().start([...RUN, ...SLEEPER]);
    const pid = Number(await box().line('started'));
    running.child.kill(signal);
    expect((await running.done).code).toBe(status);
    expect(isAlive(pid)).toBe(false);
    expect(await box().state('job')).toBe('free');
  });

  it.each<NodeJS.Signals>(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'])(
    '%s may be handled by the command, whose status counts',
    async (signal) => {
      const running = box().start([...RUN, ...trapper(signal.slice(3))]);
      await box().line('started');
      running.child.kill(signal);
      expect((await running.done).code).toBe(7);
      expect(await box().line('seen')).toBe(signal.slice(3));
    },
  );

  it('reaches the children of the command too', async () => {
    const running = box().start([...RUN, '--', 'sh', '-c', 'sleep 300 & echo $! > started; wait']);
    const grandchild = Number(await box().line('started'));
    running.child.kill('SIGTERM');
    await running.done;
    await until(() => !isAlive(grandchild), 'the grandchild has ended');
  });

  it('while it waits for the lock ends it at once, and nothing runs', async () => {
    const holder = box().start([...RUN, ...SLEEPER]);
    await box().line('started');
    const waiter = box().start([...RUN, '--wait', '1m', '--report', 'report', '--', 'echo', 'ran']);
    await until(() => catchesHangUp(waiter.pid), 'the waiter has taken over its signals');
    waiter.child.kill('SIGTERM');
    expect(await waiter.done).toMatchObject({ code: 143, stdout: '' });
    expect(await box().json('report')).toMatchObject({ status: 'error', code: 'INTERRUPTED', exitCode: 143 });
    holder.child.kill('SIGTERM');
    await holder.done;
  });

  it('SIGTSTP (Ctrl-Z) stops both, SIGCONT lets both go on', async () => {
    const running = box().start([...RUN, ...SLEEPER]);
    const pid = Number(await box().line('started'));
    running.child.kill('SIGTSTP');
    await until(() => isStopped(running.pid) && isStopped(pid), 'both stopped');
    running.child.kill('SIGCONT');
    await until(() => !isStopped(running.pid) && !isStopped(pid), 'both go on');
    running.child.kill('SIGTERM');
    expect((await running.done).code).toBe(143);
  });
});

function isStopped(pid: number): boolean {
  return execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
    .trim()
    .startsWith('T');
}

/** Node itself leaves SIGHUP alone, so who catches it has come as far as our code. */
function catchesHangUp(pid: number): boolean {
  const caught = execFileSync('ps', ['-o', 'caught=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  return (Number.parseInt(caught.slice(-1), 16) & 1) === 1;
}
