import type { JobContext } from 'joblatch';
import { type Child, type ChildExit, startChild } from '../child.js';
import { exitCodeOfSignal } from '../exit-codes.js';
import type { Notice } from '../output.js';
import type { SignalRelay } from '../signals.js';
import { withoutPasswords } from '../store-url.js';
import type { RunRequest } from './run-request.js';

/** A command that has run, to whatever end. */
export interface CommandRun {
  readonly exitCode: number;
  readonly signal?: NodeJS.Signals | undefined;
  readonly token: number;
  readonly slot?: number | undefined;
  readonly tookMs: number;
}

/** Runs the command inside the lock, passes signals on, and ends it when the lock is lost. */
export async function runCommand(
  context: JobContext,
  request: RunRequest,
  relay: SignalRelay,
  notice: Notice,
): Promise<CommandRun> {
  const start = performance.now();
  const child = await startChild({
    command: request.command,
    env: environmentFor(context),
    graceMs: request.graceMs,
    foreground: request.foreground,
    notice,
  });
  relay.passTo({
    send: child.send,
    resumed: () => {
      // The lease may have run out while both were stopped: end it before it takes another step.
      if (!context.lock.held) void child.stop();
    },
  });
  const exit = await untilExit(child, context);
  return {
    exitCode: exit.signal === null ? (exit.code as number) : exitCodeOfSignal(exit.signal),
    signal: exit.signal ?? undefined,
    token: context.token,
    slot: context.slot,
    tookMs: Math.round(performance.now() - start),
  };
}

async function untilExit(child: Child, { signal }: JobContext): Promise<ChildExit> {
  const onLost = (): void => void child.stop();
  if (signal.aborted) onLost();
  else signal.addEventListener('abort', onLost, { once: true });
  try {
    const exit = await child.exit;
    // The command has ended, but what it started may go on: it must not, now that the lock is lost.
    if (signal.aborted) await child.stop();
    return exit;
  } finally {
    signal.removeEventListener('abort', onLost);
  }
}

/** The variables tell of this run alone: those of an outer joblatch do not show through. */
function environmentFor(context: JobContext): NodeJS.ProcessEnv {
  const { JOBLATCH_SLOT: _outer, ...env } = withoutPasswords(process.env);
  return {
    ...env,
    JOBLATCH_NAME: context.name,
    JOBLATCH_FENCING_TOKEN: String(context.token),
    ...(context.slot === undefined ? {} : { JOBLATCH_SLOT: String(context.slot) }),
  };
}
