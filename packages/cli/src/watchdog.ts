import { spawn } from 'node:child_process';
import type { Notice } from './output.js';

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

/**
 * Started before the command, so that telling it the id is the one step between the command's start and its
 * being guarded: well under a millisecond.
 */
export function startWatchdog(graceMs: number, notice: Notice): Watchdog {
  const seconds = String(Math.ceil(graceMs / 1_000));
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'joblatch-watchdog', seconds], {
    // A session of its own, so that whatever ends joblatch's process group does not end the watchdog first.
    detached: true,
    // No output: holding the command's stdout open would keep its reader waiting.
    stdio: ['pipe', 'ignore', 'ignore'],
    // Not in the folder of the command, which then could not be unmounted; nor with its secrets.
    cwd: '/',
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  });
  shell.on('error', () => notice('no /bin/sh here: if joblatch is killed, the command will run on'));
  const pipe = shell.stdin;
  pipe.on('error', () => {}); // It has gone before us; there is nothing left to tell it.
  shell.unref();
  return {
    guard: (target) => void pipe.write(`${target}\n`),
    dismiss: () => void pipe.end('ended\n'),
  };
}
