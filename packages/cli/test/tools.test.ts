import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Running, sandboxes, until } from './sandbox.ts';

const box = sandboxes();

interface RecordJson {
  readonly key: string;
  readonly state: string;
  readonly owner?: string;
  readonly leftMs: number;
  readonly acquiredAgoMs?: number;
  readonly acquiredAt?: string;
  readonly freeAt?: string;
}

async function hold(name: string): Promise<Running> {
  const command = ['--', 'sh', '-c', `echo > ${name}.started; exec sleep 300`];
  const running = box().start(['run', '-n', name, '--at-most-for', '10m', ...command]);
  await box().line(`${name}.started`);
  return running;
}

describe('with one lock held, one kept and one free', () => {
  let holder: Running;
  beforeEach(async () => {
    holder = await hold('held');
    await box().ok(['run', '-n', 'kept', '--at-most-for', '10m', '--at-least-for', '5m', '--', 'true']);
    await box().ok(['run', '-n', 'free', '--at-most-for', '10m', '--once-per', '1h', '--', 'true']);
    return async () => {
      holder.child.kill('SIGTERM');
      await holder.done;
    };
  });

  it('list shows a line for each', async () => {
    const { code, stdout } = await box().run(['list']);
    expect(code).toBe(0);
    const [head, ...lines] = stdout.trimEnd().split('\n') as [string, ...string[]];
    expect(head).toMatch(/^NAME +STATE +HOLDER +SINCE +FREE +TOKEN +LAST SLOT$/);
    expect(lines[0]).toMatch(/^free +free +\S+ ago +now +\d+ +.* ago$/);
    expect(lines[1]).toMatch(
      new RegExp(`^held +held +.*, process ${holder.pid} +.* ago +in 9m \\d+s +\\d+$`),
    );
    expect(lines[2]).toMatch(/^kept +kept /);
  });

  it('list --json is one array', async () => {
    const records = await box().ask<RecordJson[]>('list');
    expect(records.map((record) => [record.key, record.state])).toEqual([
      ['free', 'free'],
      ['held', 'held'],
      ['kept', 'kept'],
    ]);
    const held = records[1] as RecordJson;
    expect(held.leftMs).toBeGreaterThan(9 * 60_000);
    expect(Date.parse(held.freeAt as string) - Date.parse(held.acquiredAt as string)).toBeCloseTo(
      600_000,
      -2,
    );
  });

  it('show tells why it did not run', async () => {
    const { code, stdout } = await box().run(['show', 'held'], { env: { TZ: 'Asia/Tokyo' } });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^held\n {2}state +held: a run is skipped now/);
    expect(stdout).toMatch(new RegExp(`holder +.*, process ${holder.pid}\n`));
    expect(stdout).toMatch(/since +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+09:00 \(.* ago\)\n/);
    expect(stdout).toMatch(/free +.* \+09:00 \(in 9m \d+s\)\n/);
    expect(stdout).toMatch(/last token +\d+\n/);
    expect((await box().run(['show', 'kept'])).stdout).toContain('--at-least-for has not');
    expect((await box().run(['show', 'free'])).stdout).toMatch(/last slot +\d{4}-.* ago\)/);
  });

  it('show --json is one object, and null with status 1 for a name without a record', async () => {
    expect(await box().ask('show', 'held')).toMatchObject({ key: 'held', state: 'held' });
    const { code, stdout, stderr } = await box().run(['show', 'nobody', '--json']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: 'null\n' });
    expect(stderr).toContain('no record of "nobody"');
  });

  it('release --force frees, and says from whom', async () => {
    const { code, stdout, stderr } = await box().run(['release', 'held', '--force']);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^released held, which was held by .*, process ${holder.pid}\n$`));
    expect(stderr).toContain('the holder goes on');
    expect(await box().state('held')).toBe('free');
    const again = await box().run(['release', 'held', '--force', '--json']);
    expect(again).toMatchObject({ code: 1, stdout: '{"key":"held","released":false}\n' });
    expect(await box().ask('release', 'kept', '--force')).toEqual({ key: 'kept', released: true });
  });

  it('purge forgets what has been free for long, and no slot that could still be asked for', async () => {
    await box().run(['run', '-n', 'idle', '--at-most-for', '1m', '--', 'true']);
    expect(await box().ask('purge', '--older-than', '1h')).toEqual({ purged: 0 });
    await sleep(20);
    expect((await box().run(['purge', '--older-than', '10ms'])).stdout).toBe('purged 1 record\n');
    expect((await box().ask<RecordJson[]>('list')).map((record) => record.key)).toEqual([
      'free',
      'held',
      'kept',
    ]);
  });
});

describe('an empty store', () => {
  it('is an empty list', async () => {
    const sandbox = box();
    await sandbox.run(['run', '-n', 'k', '--at-most-for', '1m', '--', 'true']);
    await sandbox.run(['purge', '--older-than', '1ms']);
    expect(await sandbox.ask('list')).toEqual([]);
    expect(await sandbox.run(['list'])).toMatchObject({ code: 0, stdout: '' });
  });
});

describe('a file that is not there', () => {
  it.each([['list'], ['show', 'k'], ['release', 'k', '--force'], ['purge', '--older-than', '1d']])(
    '%s says so, and does not make it',
    async (...args) => {
      const sandbox = box();
      const looked = await sandbox.run([...args, '--store', 'sqlite:mistyped.db']);
      expect(looked).toMatchObject({ code: 69, stdout: '' });
      expect(looked.stderr).toMatch(/^joblatch: there is no file .*mistyped\.db/);
      expect(existsSync(`${sandbox.folder}/mistyped.db`)).toBe(false);
    },
  );
});

describe('watch', () => {
  function follow(...args: readonly string[]): Running & { readonly lines: string[] } {
    const lines: string[] = [];
    const running = box().start(['watch', '--interval', '100ms', ...args]);
    running.child.stdout?.on('data', (chunk: Buffer) =>
      lines.push(...chunk.toString().trimEnd().split('\n')),
    );
    return { ...running, lines };
  }

  it('prints a line for every change when it is not on a terminal', async () => {
    const watcher = follow();
    const holder = await hold('job');
    await until(() => watcher.lines.length === 1, 'it was seen to be held');
    holder.child.kill('SIGTERM');
    await holder.done;
    await until(() => watcher.lines.length === 2, 'it was seen to be free');
    watcher.child.kill('SIGINT');
    expect((await watcher.done).code).toBe(130);
    expect(watcher.lines[0]).toMatch(/ {2}job {2}held by .*, process \d+, token \d+, free in /);
    expect(watcher.lines[1]).toMatch(/ {2}job {2}free$/);
  });

  it('--json prints a line of JSON for every change, of one name if it is given', async () => {
    const watcher = follow('job', '--json');
    const other = await hold('other');
    const holder = await hold('job');
    await until(() => watcher.lines.length > 0, 'it was seen to be held');
    await box().run(['release', 'job', '--force']);
    await until(() => watcher.lines.length > 1, 'it was seen to be free');
    await sleep(10);
    await box().run(['purge', '--older-than', '1ms']);
    await until(() => watcher.lines.length > 2, 'it was seen to be gone');
    watcher.child.kill('SIGTERM');
    expect((await watcher.done).code).toBe(143);
    const changes = watcher.lines.map((line) => JSON.parse(line) as { key: string; event: string });
    expect(changes.map(({ key, event }) => [key, event])).toEqual([
      ['job', 'held'],
      ['job', 'free'],
      ['job', 'gone'],
    ]);
    for (const { child, done } of [holder, other]) {
      child.kill('SIGTERM');
      await done;
    }
  });

  it('ends when its reader has gone', async () => {
    const watcher = follow('--json');
    await hold('job');
    await until(() => watcher.lines.length > 0, 'a line');
    watcher.child.stdout?.destroy();
    await box().run(['run', '-n', 'next', '--at-most-for', '1m', '--', 'true']);
    expect((await watcher.done).code).toBe(0);
  });

  it('69 when the store was never there', async () => {
    expect((await box().run(['watch', '-s', 'sqlite:/no/such/folder/x'])).code).toBe(69);
  });
});
