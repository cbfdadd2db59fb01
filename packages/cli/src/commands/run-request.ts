import type { JobOptions } from 'joblatch';
import { SLOT_MEMORY_MS } from 'joblatch';
import { UsageError } from '../errors.js';
import { EXIT_OK } from '../exit-codes.js';
import { formatDuration } from '../format.js';
import type { StoreFlags } from '../open-store.js';
import { readDuration, readExitCode, readName } from '../parse.js';
import { openReport, type Reporter } from '../report.js';

const SHORTEST_PERIOD_MS = 1_000;

/** As the command line has them. */
export interface RunFlags extends StoreFlags {
  readonly name?: string;
  readonly atMostFor?: string;
  readonly atLeastFor?: string;
  readonly oncePer?: string;
  readonly perSlot?: 'at-most-once' | 'at-least-once';
  readonly keepAlive?: boolean;
  readonly wait?: string;
  readonly skipExitCode?: string;
  readonly report?: string;
  readonly grace: string;
  readonly foreground?: boolean;
}

/** What `run` is to do: checked, and in milliseconds. */
export interface RunRequest {
  readonly command: readonly string[];
  readonly job: JobOptions & { readonly name: string };
  readonly waitMs: number;
  readonly graceMs: number;
  readonly skipExitCode: number;
  readonly foreground: boolean;
  readonly report: Reporter | undefined;
}

/** @throws UsageError */
export function readRunRequest(command: readonly string[], flags: RunFlags): RunRequest {
  const { name, atMostFor } = requireAll(command, flags);
  const atMostMs = readDuration(atMostFor, '--at-most-for');
  const atLeastMs = readDuration(flags.atLeastFor ?? '0', '--at-least-for', { min: 0 });
  if (atLeastMs > atMostMs) {
    throw new UsageError(
      `--at-least-for is ${formatDuration(atLeastMs)}, longer than --at-most-for, which is ${formatDuration(atMostMs)}.`,
    );
  }
  if (flags.perSlot !== undefined && flags.oncePer === undefined) {
    throw new UsageError(
      `--per-slot ${flags.perSlot} says nothing without --once-per, which makes the slots.`,
    );
  }
  return {
    command,
    job: {
      name: readName(name),
      lockAtMostFor: atMostMs,
      lockAtLeastFor: atLeastMs,
      keepAlive: flags.keepAlive,
      oncePer: flags.oncePer === undefined ? undefined : readPeriod(flags.oncePer),
      perSlot: flags.perSlot,
    },
    waitMs: readDuration(flags.wait ?? '0', '--wait', { min: 0 }),
    graceMs: readDuration(flags.grace, '--grace', { min: 0 }),
    skipExitCode:
      flags.skipExitCode === undefined ? EXIT_OK : readExitCode(flags.skipExitCode, '--skip-exit-code'),
    foreground: flags.foreground === true,
    report: flags.report === undefined ? undefined : openReport(flags.report),
  };
}

/** All that is missing at once: whoever is told of one after the other tries as many times. */
function requireAll(
  command: readonly string[],
  { name, atMostFor }: RunFlags,
): { readonly name: string; readonly atMostFor: string } {
  if (name !== undefined && atMostFor !== undefined && command.length > 0) return { name, atMostFor };
  const missing = [
    ...(name === undefined ? ['--name'] : []),
    ...(atMostFor === undefined ? ['--at-most-for'] : []),
    ...(command.length === 0 ? ['the command'] : []),
  ];
  const last = missing.pop();
  const all = missing.length === 0 ? `${last} is` : `${missing.join(', ')} and ${last} are`;
  throw new UsageError(
    `${all} missing. For example: joblatch run --name report --at-most-for 10m -- ./report.sh`,
  );
}

function readPeriod(text: string): number {
  return readDuration(text, '--once-per', { min: SHORTEST_PERIOD_MS, max: SLOT_MEMORY_MS });
}
