import { expect, it } from 'vitest';
import { isAlive, type Sandbox, sandboxes, until } from './sandbox.ts';
import { describeOn, type ServerKind } from './servers.ts';

const RUN = ['run', '-q', '-n', 'job', '--at-most-for', '1m', '--skip-exit-code', '9'];
const ECHO = ['--', 'echo', 'ran'];
const NOW = ['--', process.execPath, '-p', 'Date.now()'];
const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];
/** Starts a grandchild that lives on its own, and tells the ids of both. */
const FAMILY = ['--', 'sh', '-c', 'sleep 300 & echo $$ $! > family; wait'];

async function family(box: Sandbox): Promise<number[]> {
  return (await box.line('family')).split(' ').map(Number);
}

/** What the command promises, on a real server. The files of each kind run at the same time. */
export function promisesOn(kind: ServerKind, query = ''): void {
  describeOn(kind, `the command ${query}`.trim(), (server) => {
    const box = sandboxes(async () => (await server.fresh()) + query);

    it('the status is that of the command, which finds its token; a skipped one is 0 or what was said', async () => {
      const failed = await box().run([
        ...RUN,
        '--at-least-for',
        '1m',
        '--',
        'sh',
        '-c',
        'echo $JOBLATCH_FENCING_TOKEN; exit 3',
      ]);
      expect(failed).toMatchObject({ code: 3, stderr: '' });
      expect(failed.stdout).toMatch(/^\d{16}\n$/);
      expect(await box().run([...RUN, ...ECHO])).toMatchObject({ code: 9, stdout: '', stderr: '' });
      const loud = await box().run(['run', '-n', 'job', '--at-most-for', '1m', ...ECHO]);
      expect(loud).toMatchObject({ code: 0, stdout: '' });
      expect(loud.stderr).toMatch(/^joblatch: skipped: "job" is held, for \d+s if nothing changes/);
    });

    it('eight processes at once: one runs, seven skip', async () => {
      const results = await Promise.all(
        EIGHT.map(() => box().run([...RUN, '--at-least-for', '1m', ...ECHO])),
      );
      expect(results.map(({ code, stdout }) => `${code} ${stdout}`).sort()).toEqual([
        '0 ran\n',
        ...Array.from({ length: 7 }, () => '9 '),
      ]);
    });

    it('eight that wait: all run, one after the other', async () => {
      const addOne = [
        '--',
        'sh',
        '-c',
        'n=$(cat count 2>/dev/null || echo 0); sleep 0.05; echo $((n + 1)) > count',
      ];
      const results = await Promise.all(EIGHT.map(() => box().run([...RUN, '--wait', '25s', ...addOne])));
      expect(results.map((result) => result.code)).toEqual(EIGHT.map(() => 0));
      expect(await box().line('count')).toBe('8');
    });

    it('the lock of a killed holder is taken after its lease, and not before; its command has ended', async () => {
      const leaseMs = 4_000;
      const holder = box().start(['run', '-n', 'job', '--at-most-for', `${leaseMs}ms`, ...FAMILY]);
      const pids = await family(box());
      const { acquiredAt } = await box().ask<{ acquiredAt: string }>('show', 'job');
      holder.child.kill('SIGKILL');
      const late = await box().run([...RUN, '--wait', '30s', ...NOW]);
      expect(late.code).toBe(0);
      // What is printed is rounded, so a few milliseconds are left out.
      expect(Number(late.stdout)).toBeGreaterThanOrEqual(Date.parse(acquiredAt) + leaseMs - 10);
      await until(() => !pids.some(isAlive), 'the command and what it started have ended');
    });

    it('--at-least-for keeps the lock that long, and then it is free', async () => {
      const keptMs = 3_000;
      await box().run([...RUN, '--at-least-for', `${keptMs}ms`, '--', 'false']);
      const { acquiredAt } = await box().ask<{ acquiredAt: string }>('show', 'job');
      const late = await box().run([...RUN, '--wait', '30s', ...NOW]);
      expect(Number(late.stdout)).toBeGreaterThanOrEqual(Date.parse(acquiredAt) + keptMs - 10);
    });

    it('--once-per: once in a period; with at-least-once again after a failure', async () => {
      const once = [...RUN, '--once-per', '31d'];
      const again = ['--per-slot', 'at-least-once'];
      expect((await box().run([...once, ...again, '--', 'false'])).code).toBe(1);
      expect((await box().run([...once, ...again, ...ECHO])).stdout).toBe('ran\n');
      expect((await box().run([...once, ...ECHO])).code).toBe(9);
    });

    it('a command that outlives its lock is ended, and the status is 75', async () => {
      const { code, stderr } = await box().run(['run', '-n', 'job', '--at-most-for', '1s', ...FAMILY]);
      expect(code).toBe(75);
      expect(stderr).toContain('lost the lock "job" (deadline)');
      const pids = await family(box());
      await until(() => !pids.some(isAlive), 'the command and what it started have ended');
    });

    it('list, show, watch, release and purge', async () => {
      const watcher = box().start(['watch', 'held', '--interval', '100ms', '--json']);
      let seen = '';
      watcher.child.stdout?.on('data', (chunk: Buffer) => {
        seen += chunk;
      });
      const holder = box().start(['run', '-n', 'held', '--at-most-for', '10m', ...FAMILY]);
      await family(box());
      await box().ok([...RUN, '-n', 'kept', '--at-least-for', '1m', '--', 'true']);
      await box().ok([...RUN, '-n', 'free', '--once-per', '1h', '--', 'true']);

      const listed = await box().ask<{ key: string; state: string }[]>('list');
      expect(listed.map(({ key, state }) => `${key} ${state}`)).toEqual([
        'free free',
        'held held',
        'kept kept',
      ]);
      const shown = await box().run(['show', 'held']);
      expect(shown.stdout).toMatch(new RegExp(`holder +.*, process ${holder.pid}\n`));

      await until(() => seen.includes('\n'), 'the watcher has seen the holder');
      const released = await box().run(['release', 'held', '--force']);
      expect(released.stdout).toMatch(
        new RegExp(`^released held, which was held by .*, process ${holder.pid}\n$`),
      );
      await until(() => seen.trimEnd().includes('\n'), 'the watcher has seen the release');
      watcher.child.kill('SIGTERM');
      expect((await watcher.done).code).toBe(143);
      expect(
        seen
          .trim()
          .split('\n')
          .map((line) => (JSON.parse(line) as { event: string }).event),
      ).toEqual(['held', 'free']);

      // The command ends by itself, and only then finds out.
      const [child] = await family(box());
      process.kill(-(child as number), 'SIGTERM');
      expect(await holder.done).toMatchObject({ code: 75 });
      // The record of "free" has a slot that could still be asked for.
      expect(await box().ask('purge', '--older-than', '1ms')).toEqual({ purged: 1 });
      expect((await box().ask<{ key: string }[]>('list')).map(({ key }) => key)).toEqual(['free', 'kept']);
    });
  });
}
