import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../examples/order-service/database.js';
import { raiseFence, refuseStale } from '../examples/order-service/fence.js';
import { verdict } from '../examples/order-service/tally.js';
import { createView } from '../examples/order-service/view.js';

const DEMO = fileURLToPath(new URL('../examples/order-service/demo.js', import.meta.url));
/** A run takes ten seconds on a machine that has nothing else to do. */
const LIMIT = 120_000;

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'joblatch-demo-test-'));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe('The demo, run without a terminal and from another folder', {
  concurrent: true,
  timeout: LIMIT,
}, () => {
  it('counts every thing once, though a worker is killed and one is paused', async ({ expect }) => {
    // What makes others colour their output even into a pipe.
    const demo = await start('with', [], { FORCE_COLOR: '1', CI: 'true' });
    const { code, output, errors } = await demo.end;
    expect({ code, errors }, output).toEqual({ code: 0, errors: '' });
    expect(output).toMatch(
      /(worker \d) KILLED in cancel-expired-orders(?:.|\n)*(?!\1)worker \d takes over cancel-exp/,
    );
    expect(output).toMatch(
      /(worker \d) PAUSED in publish-outbox(?:.|\n)*(?!\1)worker \d takes over publish-outbox/,
    );
    expect(output).toMatch(/(worker \d) CONTINUES(?:.|\n)*\1 gives publish-outbox up: its write was REFUSED/);
    expect(counts(output)).toEqual({
      'orders cancelled': [48, 48],
      'units of stock restored': [120, 120],
      'events published': [48, 48],
      duplicates: [0, 0],
      'orders left open': [0, 0],
      'events left unpublished': [0, 0],
    });
    expect(stripVTControlCharacters(output)).toBe(output);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
    expect(output).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    await demo.expectNothingLeft();
  });

  it('counts duplicates without the lock', async ({ expect }) => {
    const demo = await start('without', ['--without-lock']);
    const { code, output, errors } = await demo.end;
    expect({ code, errors }, output).toEqual({ code: 0, errors: '' });
    const { duplicates, ...rest } = counts(output);
    expect(duplicates?.[1]).toBeGreaterThan(0);
    expect(rest['events published']?.[1]).toBeGreaterThan(48);
    expect(output).toMatch(/has published event \d+ ONCE MORE/);
    await demo.expectNothingLeft();
  });

  it('leaves no process and no file behind when it is interrupted, with one worker killed and one paused', async ({
    expect,
  }) => {
    const demo = await start('interrupted');
    await demo.said('PAUSED');
    // As a terminal does it: the workers get it too.
    demo.signalAll('SIGINT');
    expect(await demo.end).toMatchObject({ code: 130, errors: '' });
    await demo.expectNothingLeft();
  });

  it('leaves no process behind even when it is killed while one worker is paused', async () => {
    const demo = await start('killed');
    await demo.said('PAUSED');
    demo.process.kill('SIGKILL');
    await demo.end;
    await demo.expectNoWorkerLeft();
  });

  it('refuses arguments that it does not know', async ({ expect }) => {
    const { code, output, errors } = await (await start('refused', ['--without-locks'])).end;
    expect({ code, output }).toEqual({ code: 2, output: '' });
    expect(errors).toContain('usage: npm run demo [-- --without-lock]');
  });
});

describe('The verdict of the demo', () => {
  const rows = (found: number, duplicates: number) => [
    { what: 'events published', expected: 9, found },
    { what: 'duplicates', expected: 0, found: duplicates },
  ];

  it.each([
    ['with-lock', 9, 0, true],
    ['with-lock', 10, 1, false],
    ['with-lock', 8, 0, false],
    ['without-lock', 12, 3, true],
    ['without-lock', 9, 0, false],
  ] as const)('%s, %d of 9 events, %d duplicates: %s', (mode, found, duplicates, ok) => {
    expect(verdict(rows(found, duplicates), mode).ok).toBe(ok);
  });

  it('says of a run without duplicates that it did not show anything', () => {
    expect(verdict(rows(9, 0), 'without-lock').text).toContain('did not show anything');
  });
});

describe('The fence', () => {
  let path: string;
  let database: Awaited<ReturnType<typeof openDatabase>>;
  let other: Awaited<ReturnType<typeof openDatabase>>;

  beforeEach(async () => {
    path = await mkdtemp(join(folder, 'fence-'));
    database = await openDatabase(join(path, 'shop.db'));
    other = await openDatabase(join(path, 'shop.db'));
  });

  afterEach(() => {
    database.close();
    other.close();
  });

  const write = (token: number) => database.transaction(() => refuseStale(database, 'job', token));

  it('lets the run write that raised it last, and refuses the earlier ones from then on', async () => {
    await raiseFence(database, 'job', 1);
    await write(1);
    await raiseFence(other, 'job', 2);
    await expect(write(1)).rejects.toThrow('job: token 1 is too old, 2 has been here');
    await write(2);
  });

  it('does not let an earlier run begin', async () => {
    await raiseFence(other, 'job', 2);
    await expect(raiseFence(database, 'job', 1)).rejects.toMatchObject({ name: 'StaleRunError' });
    await write(2);
  });

  it('is one for each job', async () => {
    await raiseFence(other, 'another job', 2);
    await raiseFence(database, 'job', 1);
    await write(1);
  });

  it('undoes what a refused transaction had written', async () => {
    await raiseFence(database, 'job', 1);
    await raiseFence(other, 'job', 2);
    const late = database.transaction(() => {
      database.run('insert into outbox (order_id) values (1)');
      refuseStale(database, 'job', 1);
    });
    await expect(late).rejects.toThrow('too old');
    expect(other.all('select * from outbox')).toEqual([]);
  });

  it('waits while another process writes', async () => {
    other.run('begin immediate');
    const written = write(1);
    await delay(300);
    other.run('commit');
    await written;
  });
});

describe('The view of the demo', () => {
  const PICTURE = {
    atMs: 4_200,
    locked: true,
    workers: [
      { name: 'worker 1', pid: 11, status: 'working', jobs: ['publish-outbox'] },
      { name: 'worker 2', pid: 12, status: 'killed', jobs: [] },
      { name: 'worker 3', pid: 13, status: 'paused', jobs: ['cancel'] },
    ],
    jobs: [
      {
        name: 'publish-outbox',
        atLeastMs: 500,
        atMostMs: 2_000,
        runners: ['worker 1'],
        hold: { worker: 'worker 1', kept: false, agoMs: 1_000, leftMs: 1_000 },
      },
      { name: 'cancel', atLeastMs: 500, atMostMs: 2_000, runners: [] },
    ],
    counts: { open: 1, pending: 2, cancellations: 3, restored: 4, published: 5, duplicates: 0 },
  };

  function viewOn(
    { isTTY, rows = 40 }: { isTTY: boolean; rows?: number },
    env: NodeJS.ProcessEnv,
    picture = PICTURE,
  ) {
    const stream = Object.assign(new PassThrough(), { isTTY, rows, columns: 100 });
    const view = createView(stream as unknown as NodeJS.WriteStream, { env });
    view.event(1_000, 'something happened');
    view.show(picture);
    view.event(2_000, 'something else happened');
    const drawn = String(stream.read());
    view.done();
    return drawn;
  }

  it('draws who runs what, and the hold as a bar, in a terminal', () => {
    const drawn = viewOn({ isTTY: true }, { TERM: 'xterm' });
    const text = stripVTControlCharacters(drawn);
    expect(text).toMatch(
      /worker 1 {2}pid 11 +publish-outbox\n {2}worker 2 {2}pid 12 +killed\n {2}worker 3 .* paused\n/,
    );
    expect(text).toMatch(/publish-outbox +█{4}┊█{5}░{8} worker 1, at most 1.0 s more\n/);
    expect(text).toMatch(/cancel +░{4}┊░{13} free\n/);
    expect(text).toContain(
      'orders 1 open, 3 cancelled · events 2 pending, 5 published\n        0 duplicates',
    );
    expect(drawn).toContain('\u001b[32m');
    // The picture is drawn again below what was said meanwhile.
    expect(text.lastIndexOf('0 duplicates')).toBeGreaterThan(text.indexOf('something else happened'));
  });

  it('fits into 80 columns, however much there is to tell', () => {
    const long = (kept: boolean) => ({
      name: 'cancel-expired-orders',
      atLeastMs: 500,
      atMostMs: 20_000,
      runners: ['worker 1'],
      hold: { worker: 'worker 1', kept, agoMs: 1_000, leftMs: kept ? 1_000 : 19_000 },
    });
    const jobs = ['cancel-expired-orders', 'publish-outbox'];
    const drawn = viewOn(
      { isTTY: true },
      { TERM: 'xterm' },
      {
        ...PICTURE,
        atMs: 123_400,
        workers: [{ name: 'worker 1', pid: 1_234_567, status: 'working', jobs }],
        jobs: [long(true), long(false)],
        counts: { ...PICTURE.counts, open: 480, pending: 480, cancellations: 480, published: 1_234 },
      },
    );
    for (const line of stripVTControlCharacters(drawn).split('\n')) expect(line.length).toBeLessThan(80);
  });

  it('shows with NO_COLOR the same picture, without colours', () => {
    const drawn = viewOn({ isTTY: true }, { TERM: 'xterm', NO_COLOR: '1' });
    expect(drawn).toContain('at most 1.0 s more');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
    expect(drawn).not.toMatch(/\u001b\[[\d;]*m/);
  });

  it.each([
    ['no terminal', { isTTY: false }, { FORCE_COLOR: '1', CI: 'true' }],
    ['a dumb terminal, without colours', { isTTY: true }, { TERM: 'dumb', NO_COLOR: '1' }],
    ['a terminal of no size, without colours', { isTTY: true, rows: 0 }, { TERM: 'xterm', NO_COLOR: '1' }],
  ])('writes plain lines to %s', (_, stream, env) => {
    expect(viewOn(stream, env)).toBe(' 1.0 s  something happened\n 2.0 s  something else happened\n');
  });
});

/** Starts the demo with a folder of its own for temporary files. */
async function start(name: string, options: readonly string[] = [], env: NodeJS.ProcessEnv = {}) {
  const temporary = join(folder, name);
  await mkdir(temporary);
  const child: ChildProcess = spawn(process.execPath, [DEMO, ...options], {
    cwd: temporary,
    env: { ...process.env, NO_COLOR: undefined, FORCE_COLOR: undefined, TMPDIR: temporary, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  let errors = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const end = new Promise<{ code: number | null; output: string; errors: string }>((resolve) => {
    child.once('close', (code) => resolve({ code, output, errors }));
  });

  const expectNoWorkerLeft = async (): Promise<void> => {
    const pids = [...output.matchAll(/\(pid (\d+)\)/g)].map(([, pid]) => Number(pid));
    expect(pids).toHaveLength(3);
    await until(`the workers ${pids} to end`, () => !pids.some(isAlive));
  };
  return {
    process: child,
    signalAll: (signal: NodeJS.Signals) => process.kill(-(child.pid as number), signal),
    end,
    said: (text: string) =>
      until(`"${text}" in ${name}`, () => {
        if (child.exitCode !== null)
          throw new Error(`The demo ended before it said "${text}":\n${output}${errors}`);
        return output.includes(text);
      }),
    expectNoWorkerLeft,
    expectNothingLeft: async (): Promise<void> => {
      await expectNoWorkerLeft();
      expect(await readdir(temporary)).toEqual([]);
    },
  };
}

/** The table at the end: what was expected, what was found. */
function counts(output: string): Record<string, [expected: number, found: number]> {
  const rows = output.matchAll(/^(\w[\w ]*?) +(\d+) +(\d+) {2}(?:right|WRONG)$/gm);
  return Object.fromEntries(
    [...rows].map(([, what, expected, found]) => [what, [Number(expected), Number(found)]]),
  );
}

async function until(what: string, look: () => boolean): Promise<void> {
  for (const end = performance.now() + LIMIT / 2; !look(); await delay(50)) {
    if (performance.now() > end) throw new Error(`Waited in vain for ${what}.`);
  }
}

/** A process that has ended, and that nobody has asked for its exit code yet, is not alive. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const stat = `/proc/${pid}/stat`;
    return !existsSync(stat) || !/^\d+ \(.*\) Z /s.test(readFileSync(stat, 'utf8'));
  } catch {
    return false;
  }
}
