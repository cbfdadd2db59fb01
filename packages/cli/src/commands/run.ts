import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type Job, type Locks, type LossDetection, type Outcome } from 'joblatch';
import { failureOf, InterruptedError } from '../errors.js';
import { EXIT_LOST } from '../exit-codes.js';
import { formatDuration } from '../format.js';
import { openStore } from '../open-store.js';
import { complain, type Notice, noticesOf } from '../output.js';
import type { Report, SkippedReport } from '../report.js';
import { checkCommand } from '../resolve-command.js';
import { relaySignals, type SignalRelay } from '../signals.js';
import { type CommandRun, runCommand } from './run-command.js';
import { type RunFlags, type RunRequest, readRunRequest } from './run-request.js';

/** How often to ask again while waiting, at the latest: between half and all of it, so that waiters do not march in step. */
const POLL_MS = 250;

/** Runs a command if the lock can be had. Gives the exit status of joblatch. */
export async function run(command: readonly string[], flags: RunFlags): Promise<number> {
  const request = readRunRequest(command, flags);
  const notice = noticesOf(flags);
  const relay = relaySignals(request);
  let report: Report;
  try {
    report = await runOnce(request, flags, relay, notice);
  } catch (error) {
    const failure = failureOf(error);
    complain(failure.message);
    report = { status: 'error', ...failure };
  }
  try {
    request.report?.({ name: request.job.name, ...report });
  } catch (error) {
    // The command has run, and its status is worth more than the report of it.
    complain(`the report could not be written: ${error instanceof Error ? error.message : error}`);
  }
  relay.close();
  return report.exitCode;
}

async function runOnce(
  request: RunRequest,
  flags: RunFlags,
  relay: SignalRelay,
  notice: Notice,
): Promise<Report> {
  checkCommand(request.command[0] as string);
  const locks = createLocks({ provider: await openStore(flags, 'lock', notice) });
  locks.on('error', ({ error }) => complain(failureOf(error).message));
  locks.on('lost', ({ key, detectedBy }) => complain(lossOf(key, detectedBy, request.graceMs)));
  try {
    return await runJob(locks, request, relay, notice);
  } finally {
    await closeSoon(locks);
  }
}

/** How long to try to give back what was granted when nobody waited for it any more. It ends by itself, too. */
const GIVE_BACK_MS = 500;

async function closeSoon(locks: Locks): Promise<void> {
  // What could not be given back is no reason to lose the command's status.
  const closed = locks.close({ grace: 0 }).catch((error: unknown) => complain(failureOf(error).message));
  const inTime = new AbortController();
  await Promise.race([closed, sleep(GIVE_BACK_MS, undefined, { signal: inTime.signal }).catch(() => {})]);
  inTime.abort();
  // Whatever still waits for an answer fails now, and is not tried again: the process is about to end.
  await locks.provider.close?.();
}

function lossOf(name: string, detectedBy: LossDetection, graceMs: number): string {
  const what = `lost the lock ${JSON.stringify(name)} (${detectedBy})`;
  return detectedBy === 'release'
    ? `${what}: the command has ended, but another one may have run at the same time`
    : `${what}: the command gets SIGTERM, and SIGKILL after ${formatDuration(graceMs)}`;
}

/** Thrown inside the job so that the library sees a failed run: the slot of an at-least-once job stays open. */
class CommandFailedError extends Error {}

async function runJob(
  locks: Locks,
  request: RunRequest,
  relay: SignalRelay,
  notice: Notice,
): Promise<Report> {
  let done: CommandRun | undefined;
  const job = locks.job(request.job, async (context) => {
    if (relay.interrupted.aborted) throw new InterruptedError(relay.interrupted.reason);
    done = await runCommand(context, request, relay, notice);
    if (done.exitCode !== 0) throw new CommandFailedError();
  });
  let outcome: Outcome<void> | undefined;
  try {
    outcome = await tryUntil(job, request.waitMs, relay.interrupted);
  } catch (error) {
    if (!(error instanceof CommandFailedError)) throw error;
  }
  if (outcome?.status === 'skipped') return skipped(outcome, request, notice);
  if (done === undefined) {
    // Nothing ran though the lock was had: lost at once, or the command could not be started.
    throw outcome?.status === 'lost' && outcome.error !== undefined
      ? outcome.error
      : new Error('the job ended without a run');
  }
  if (outcome?.status !== 'lost') return { status: 'ran', ...done };
  const { exitCode: commandExitCode, ...rest } = done;
  return { status: 'lost', exitCode: EXIT_LOST, detectedBy: outcome.detectedBy, commandExitCode, ...rest };
}

/** Tries the job until it is not held by somebody else, or the time is up. The last try is made at the very end. */
async function tryUntil(job: Job<void>, waitMs: number, interrupted: AbortSignal): Promise<Outcome<void>> {
  const end = performance.now() + waitMs;
  for (;;) {
    if (interrupted.aborted) throw new InterruptedError(interrupted.reason);
    const outcome = await job();
    const left = end - performance.now();
    if (outcome.status !== 'skipped' || outcome.reason !== 'held' || left <= 0) return outcome;
    const pause = Math.min(left, POLL_MS * (0.5 + Math.random() / 2), (outcome.leftMs ?? POLL_MS) + 1);
    await sleep(pause, undefined, { signal: interrupted }).catch(() => {});
  }
}

function skipped(
  outcome: Outcome<void> & { readonly status: 'skipped' },
  request: RunRequest,
  notice: Notice,
): SkippedReport {
  const { reason, leftMs } = outcome;
  const name = JSON.stringify(request.job.name);
  const left = leftMs === undefined ? '' : `, for ${formatDuration(leftMs)} if nothing changes`;
  const waited = request.waitMs > 0 ? ` after ${formatDuration(request.waitMs)} of waiting` : '';
  notice(
    reason === 'slot'
      ? `skipped: the present slot of ${name} is taken, it has run already`
      : `skipped${waited}: ${name} is held${left}; "joblatch show" tells by whom`,
  );
  return { status: 'skipped', exitCode: request.skipExitCode, reason, leftMs };
}
