import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--at-most-for', '1m', '--skip-exit-code', '9'];
const ECHO = ['--', 'echo', 'ran'];
const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

describe('a command in a fleet', () => {
  it('eight processes at once: one runs, seven skip', async () => {
    const command = ['--', 'sh', '-c', 'echo ran; sleep 3'];
    const results = await Promise.all(
      EIGHT.map(() => box().run([...RUN, '--at-least-for', '30s', ...command])),
    );
    expect(results.filter((result) => result.stdout === 'ran\n' && result.code === 0)).toHaveLength(1);
    expect(results.filter((result) => result.stdout === '' && result.code === 9)).toHaveLength(7);
  });

  it('eight that wait: all run, one after the other', async () => {
    // Reads, sleeps, writes: without the lock, counts are lost (the next test).
    const results = await Promise.all(EIGHT.map(() => box().run([...RUN, '--wait', '25s', ...addOne()])));
    expect(results.map((result) => result.code)).toEqual(EIGHT.map(() => 0));
    expect(await box().line('count')).toBe('8');
  });

  it('eight without a common name lose counts, so the test above shows something', async () => {
    const results = EIGHT.map((n) =>
      box().run(['run', '-n', `job ${n}`, '--at-most-for', '1m', ...addOne(1)]),
    );
    await Promise.all(results);
    expect(Number(await box().line('count'))).toBeLessThan(8);
  });

  function addOne(seconds = 0.05): string[] {
    return [
      '--',
      'sh',
      '-c',
      `n=$(cat count 2>/dev/null || echo 0); sleep ${seconds}; echo $((n + 1)) > count`,
    ];
  }

  it('names are independent', async () => {
    await box().run([...RUN, '--at-least-for', '1m', ...ECHO]);
    expect((await box().run(['run', '-n', 'other', '--at-most-for', '1m', ...ECHO])).stdout).toBe('ran\n');
  });
});

describe('--at-least-for', () => {
  it('keeps the lock after a command that was done at once, and after one that failed', async () => {
    await box().run([...RUN, '--at-least-for', '3s', '--', 'false']);
    expect((await box().run([...RUN, ...ECHO])).code).toBe(9);
    await sleep(3_000);
    expect((await box().run([...RUN, ...ECHO])).stdout).toBe('ran\n');
  });
});

describe('--once-per', () => {
  const ONCE = [...RUN, '--once-per', '31d'];

  it('runs once in a period, also when the run failed', async () => {
    expect((await box().run([...ONCE, '--', 'false'])).code).toBe(1);
    const again = await box().run([...ONCE, ...ECHO]);
    expect(again.code).toBe(9);
    expect(again.stderr).toContain('the present slot of "job" is taken');
  });

  it('does not wait for a slot that will never be had', async () => {
    await box().run([...ONCE, ...ECHO]);
    const start = performance.now();
    expect((await box().run([...ONCE, '--wait', '20s', ...ECHO])).code).toBe(9);
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  it('runs again in the next period', async () => {
    const often = [...RUN, '--once-per', '1s', ...ECHO];
    await box().run(often);
    await sleep(1_100);
    expect((await box().run(often)).stdout).toBe('ran\n');
  });

  it('--per-slot at-least-once: again after a failure and after a crash, not after a success', async () => {
    const until = [...ONCE, '--per-slot', 'at-least-once'];
    expect((await box().run([...until, '--', 'false'])).code).toBe(1);
    expect((await box().run([...until, '--', 'sh', '-c', 'kill -9 $$'])).code).toBe(137);
    expect((await box().run([...until, ...ECHO])).stdout).toBe('ran\n');
    expect((await box().run([...until, ...ECHO])).code).toBe(9);
  });

  it('--per-slot at-most-once is the default', async () => {
    const once = [...ONCE, '--per-slot', 'at-most-once'];
    expect((await box().run([...once, '--', 'false'])).code).toBe(1);
    expect((await box().run([...once, ...ECHO])).code).toBe(9);
  });
});

describe('--wait', () => {
  it('gives up when the time is over', async () => {
    await box().run([...RUN, '--at-least-for', '1m', ...ECHO]);
    const start = performance.now();
    const { code, stderr } = await box().run([...RUN, '--wait', '1s', ...ECHO]);
    expect(code).toBe(9);
    expect(stderr).toContain('skipped after 1s of waiting: "job" is held');
    expect(performance.now() - start).toBeGreaterThanOrEqual(1_000);
  });

  it('runs when the holder is done', async () => {
    const holder = box().run([...RUN, '--', 'sh', '-c', 'echo > started; sleep 1; echo > done']);
    await box().line('started');
    const waiter = await box().run([...RUN, '--wait', '20s', '--', 'ls', 'done']);
    expect(waiter).toMatchObject({ code: 0, stdout: 'done\n' });
    expect((await holder).code).toBe(0);
  });
});
