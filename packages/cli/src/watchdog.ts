import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Writable } from 'node:stream';

const SHELL = '/bin/sh';

/**
 * A second process that sees to it that the command does not run on when joblatch is killed with SIGKILL.
 *
 * It reads from a pipe that joblatch alone can write to. While joblatch lives it blocks in `read`; when
 * joblatch has gone, however it went, `read` meets the end of the pipe. A shell of two kilobytes is enough,
 * it works on every POSIX system, and unlike the parent-death signal of Linux it reaches grandchildren too.
 */
const SCRIPT = `
read -r target && [ "$target" != ended ] || exit 0
read -r ended && exit 0
kill -s TERM -- "$target"
kill -s CONT -- "$target"
left=$1
while [ "$left" -gt 0 ] && kill -s 0 -- "$target"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "$target"
`;

export interface Watchdog {
  /** To be told as soon as the command has started: whom to end. A process id, or a negative one for its group. */
  guard(target: number): void;
  /** The command has ended: there is nothing to guard any more. */
  dismiss(): void;
}

/** Windows has none, nor have some containers with nothing but Node in them. */
export function hasShell(): boolean {
  return process.platform !== 'win32' && existsSync(SHELL);
}

export function startWatchdog(graceMs: number): Watchdog {
  const seconds = String(Math.ceil(graceMs / 1_000));
  const shell = spawn(SHELL, ['-c', SCRIPT, 'joblatch-watchdog', seconds], {
    // A session of its own, so that whatever ends joblatch's process group does not end the watchdog first.
    detached: true,
    // No output: holding the command's stdout open would keep its reader waiting.
    stdio: ['pipe', 'ignore', 'ignore'],
    // Not in the folder of the command, which then could not be unmounted; nor with its secrets.
    cwd: '/',
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  });
  shell.on('error', () => {}); // As if it had been killed: the command is not worse off than without it.
  const pipe = shell.stdin;
  pipe.on('error', () => {}); // It has gone before us; there is nothing left to tell it.
  shell.unref();
  return {
    guard: (target) => void pipe.write(`${target}\n`),
    dismiss: () => void pipe.end('ended\n'),
  };
}

/**
 * Holds the command back until the watchdog knows it. Joblatch may be killed between the command's start and
 * the word to the watchdog, and on a busy machine that moment can be long; then the gate meets the end of its
 * pipe, and nothing is started.
 */
const GATE = 'read -r go <&3 || exit 75; exec 3<&-; exec "$@"';

/** The command, held back by a gate that then becomes it. */
export function throughGate(command: readonly string[]): [string, ...string[]] {
  return [SHELL, '-c', GATE, 'joblatch-gate', ...command];
}

/** To be called when the watchdog has been told of the process. */
export function openGate(child: ChildProcess): void {
  const pipe = child.stdio[3] as Writable | null | undefined;
  pipe?.on('error', () => {}); // Ended before it could start.
  pipe?.end('go\n');
}

/**
 * Whether a shell hands this environment on as it is. Some drop variables whose names they could not use
 * themselves, such as `spring.datasource.url`; such a command starts without a gate.
 */
export function canPassShell(env: NodeJS.ProcessEnv): boolean {
  return Object.keys(env).every((name) => /^[a-z_][a-z0-9_]*$/i.test(name));
}
