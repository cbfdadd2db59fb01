import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { afterEach, describe, expect, it } from 'vitest';
import { JOBLATCH, sandboxes, until } from './sandbox.ts';

const box = sandboxes();
const hasScript = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0;

const terminals = new Set<ChildProcess>();
// A test that fails must not leave a terminal with a joblatch that watches for ever.
afterEach(() => {
  for (const child of terminals) child.kill('SIGHUP');
  terminals.clear();
});

/** Runs joblatch on a terminal of its own (util-linux `script`), and types. */
function onTerminal(args: string): {
  type(text: string): void;
  shown(): string;
  done: Promise<number | null>;
} {
  const command = `stty rows 24 cols 120; exec "${process.execPath}" "${JOBLATCH}" ${args}`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: box().folder,
    env: { ...process.env, JOBLATCH_STORE: box().store, TERM: 'xterm' },
  });
  terminals.add(child);
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  return {
    type: (keys) => void child.stdin.write(keys),
    shown: () => text,
    done: new Promise((resolve) => child.on('close', resolve)),
  };
}

const RUN = 'run -n job --at-most-for 1m';

describe.runIf(hasScript)('on a terminal', () => {
  it.each(['', '--foreground'])('the command has the terminal and reads what is typed %s', async (flag) => {
    const ask = 'test -t 0 && test -t 1 && echo ready && read -r line && echo "got $line"';
    const terminal = onTerminal(`${RUN} ${flag} -- sh -c '${ask}'`);
    await until(() => terminal.shown().includes('ready'), 'ready');
    terminal.type('hello\n');
    expect(await terminal.done).toBe(0);
    expect(terminal.shown()).toContain('got hello');
  });

  it('--foreground leaves it in the session of the terminal, otherwise it has one of its own', async () => {
    const open = 'if (: < /dev/tty) 2>/dev/null; then echo has tty; else echo no tty; fi';
    const foreground = onTerminal(`${RUN} --foreground -- sh -c '${open}'`);
    await foreground.done;
    expect(foreground.shown()).toContain('has tty');
    const own = onTerminal(`${RUN} -- sh -c '${open}'`);
    await own.done;
    expect(own.shown()).toContain('no tty');
  });

  it.each(['', '--foreground'])('Ctrl-C reaches the command once, and its status counts %s', async (flag) => {
    const count = 'trap "echo interrupted >> seen" INT; echo ready; sleep 1; sleep 1; exit 7';
    const terminal = onTerminal(`${RUN} ${flag} -- sh -c '${count}'`);
    await until(() => terminal.shown().includes('ready'), 'ready');
    terminal.type('\u0003');
    expect(await terminal.done).toBe(7);
    expect(await box().line('seen')).toBe('interrupted');
  });

  it('watch draws a table over itself, and Ctrl-C ends it', async () => {
    await box().run(['run', '-n', 'shown', '--at-most-for', '1m', '--', 'true']);
    const terminal = onTerminal('watch --interval 100ms');
    await until(() => terminal.shown().includes('shown'), 'drawn');
    await box().run(['run', '-n', 'second', '--at-most-for', '1m', '--', 'true']);
    await until(() => terminal.shown().includes('second'), 'drawn again');
    terminal.type('\u0003');
    expect(await terminal.done).toBe(130);
    expect(terminal.shown()).toContain('\u001b[?25h');
  });

  it('colours only without NO_COLOR', async () => {
    await box().run(['run', '-n', 'shown', '--at-most-for', '1m', '--', 'true']);
    const coloured = onTerminal('list');
    await coloured.done;
    expect(coloured.shown()).toContain('\u001b[');
    process.env.NO_COLOR = '1';
    try {
      const without = onTerminal('list');
      await without.done;
      expect(without.shown()).toContain('shown');
      expect(without.shown()).not.toContain('\u001b[');
    } finally {
      delete process.env.NO_COLOR;
    }
  });
});
