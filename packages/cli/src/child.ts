import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { isErrno, type Notice } from './output.js';
import { startError } from './resolve-command.js';
import { canPassShell, hasShell, openGate, startWatchdog, throughGate, type Watchdog } from './watchdog.js';

/** How often to look whether a process group has gone: nothing tells us that. */
const LOOK_AGAIN_MS = 25;

export interface ChildOptions {
  readonly command: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  /** Stay in joblatch's process group and session, so that the terminal's keys reach the command. */
  readonly foreground: boolean;
  readonly notice: Notice;
}

/** How a command ended: one of the two is there. */
export interface ChildExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A command that runs, with all the processes that it starts and leaves in its process group. */
export interface Child {
  readonly exit: Promise<ChildExit>;
  send(signal: NodeJS.Signals): void;
  /** SIGTERM, and SIGKILL for what is left after the grace. Resolves when nothing is left. */
  stop(): Promise<void>;
}

/** @throws CommandError if the system can not start it */
export async function startChild(options: ChildOptions): Promise<Child> {
  const { command, env, graceMs, foreground, notice } = options;
  const watchdog = hasShell() ? startWatchdog(graceMs) : undefined;
  if (watchdog === undefined) notice('no /bin/sh here: if joblatch is killed, the command will run on');
  const gated = watchdog !== undefined && canPassShell(env);
  const ownGroup = process.platform !== 'win32' && !foreground;
  const [file, ...args] = gated ? throughGate(command) : (command as [string, ...string[]]);
  const child = spawn(file, args, {
    stdio: ['inherit', 'inherit', 'inherit', ...(gated ? (['pipe'] as const) : [])],
    env,
    // A new session and process group, so that grandchildren can be reached, and joblatch's own neighbours in
    // a pipeline are not.
    detached: ownGroup,
    windowsHide: true,
  });
  if (child.pid !== undefined) watchdog?.guard(ownGroup ? -child.pid : child.pid);
  if (gated) openGate(child);
  try {
    await once(child, 'spawn');
  } catch (error) {
    watchdog?.dismiss();
    throw startError(file, error as NodeJS.ErrnoException);
  }
  return handle(child, ownGroup, watchdog, graceMs);
}

function handle(
  child: ChildProcess,
  ownGroup: boolean,
  watchdog: Watchdog | undefined,
  graceMs: number,
): Child {
  const pid = child.pid as number;
  let ended = false;
  const exit = new Promise<ChildExit>((resolve) => {
    child.once('exit', (code, signal) => {
      ended = true;
      resolve({ code, signal });
    });
  });
  child.on('error', () => {}); // A signal that could not be sent; send() says so by its result.

  /** False if there was nobody. Of a group some may be left when the command itself has ended. */
  const send = (signal: NodeJS.Signals | 0): boolean => {
    if (!ownGroup) return !ended && child.kill(signal);
    try {
      return process.kill(-pid, signal);
    } catch (error) {
      // EPERM is what macOS says of a group of which only the dead are left, and anyone of another user's.
      if (isErrno(error, 'ESRCH', 'EPERM')) return false;
      throw error;
    }
  };

  const stop = async (): Promise<void> => {
    send('SIGTERM');
    send('SIGCONT'); // A stopped process does not see SIGTERM.
    const deadline = performance.now() + graceMs;
    while (send(0) && performance.now() < deadline) await sleep(LOOK_AGAIN_MS);
    send('SIGKILL');
    await exit;
  };

  let stopping: Promise<void> | undefined;
  exit.then(async () => {
    await stopping;
    watchdog?.dismiss();
  });
  return {
    exit,
    send: (signal) => void send(signal),
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}
