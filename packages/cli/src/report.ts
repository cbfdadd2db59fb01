import {
  accessSync,
  constants,
  fstatSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { LossDetection } from 'joblatch';
import { UsageError } from './errors.js';
import { writeFully } from './output.js';

/** What `--report` writes: the library's outcome, and the exit status of joblatch. */
export type Report = RanReport | SkippedReport | LostReport | ErrorReport;

interface RunReport {
  readonly token: number;
  readonly slot?: number | undefined;
  readonly tookMs: number;
}

export interface RanReport extends RunReport {
  readonly status: 'ran';
  /** The command's own; 128 + n if a signal ended it. */
  readonly exitCode: number;
  readonly signal?: NodeJS.Signals | undefined;
}

export interface SkippedReport {
  readonly status: 'skipped';
  readonly exitCode: number;
  readonly reason: 'held' | 'slot' | 'stopping';
  readonly leftMs?: number | undefined;
}

export interface LostReport extends RunReport {
  readonly status: 'lost';
  readonly exitCode: number;
  readonly detectedBy: LossDetection;
  /** How the command itself ended, as in {@link RanReport}. */
  readonly commandExitCode: number | undefined;
  readonly signal?: NodeJS.Signals | undefined;
}

export interface ErrorReport {
  readonly status: 'error';
  readonly exitCode: number;
  readonly code: string;
  readonly message: string;
}

/** Writes one report. */
export type Reporter = (report: Report & { readonly name: string }) => void;

/**
 * Checks at once whether a report can be written to this place: it must not turn out only after the command
 * has run.
 *
 * @throws UsageError
 */
export function openReport(place: string): Reporter {
  const fd = /^fd:(.*)$/.exec(place)?.[1] ?? /^\/dev\/fd\/(.*)$/.exec(place)?.[1] ?? DEVICES[place];
  return fd === undefined ? toFile(place) : toDescriptor(fd);
}

/** Where these lead to may be a file, and that file must not be replaced: it is open elsewhere. */
const DEVICES: Readonly<Record<string, string>> = { '/dev/stdout': '1', '/dev/stderr': '2' };

function toFile(path: string): Reporter {
  const folder = dirname(path);
  try {
    accessSync(folder, constants.W_OK);
  } catch {
    throw new UsageError(
      `--report: the folder ${JSON.stringify(folder)} is not there or can not be written to.`,
    );
  }
  if (isFolder(path))
    throw new UsageError(`--report: ${JSON.stringify(path)} is a folder. Accepted: a file, or fd:N.`);
  return (report) => replaceFile(path, line(report));
}

/** Readers see the old report or the new one, never a part. What is no regular file is written to as it is. */
function replaceFile(path: string, text: string): void {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat !== undefined && !stat.isFile()) {
    writeFileSync(path, text);
    return;
  }
  const target = stat === undefined ? path : realpathSync(path);
  const half = `${target}.${process.pid}.tmp`;
  try {
    writeFileSync(half, text);
    renameSync(half, target);
  } catch (error) {
    rmSync(half, { force: true });
    throw error;
  }
}

function toDescriptor(text: string): Reporter {
  const fd = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
  if (!isWritable(fd) || isOwn(fd)) {
    throw new UsageError(
      `--report fd:${text}: no such descriptor is open for writing. Accepted: fd:N with N>FILE in the same command, or a file.`,
    );
  }
  return (report) => writeFully(fd, line(report));
}

function line(report: object): string {
  return `${JSON.stringify(report)}\n`;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Writing nothing fails on what is closed or open for reading only. */
function isWritable(fd: number): boolean {
  try {
    const kind = fstatSync(fd);
    writeSync(fd, Buffer.alloc(0));
    return kind.isFile() || kind.isFIFO() || kind.isSocket() || kind.isCharacterDevice();
  } catch {
    return false;
  }
}

/**
 * Node's own pipes have low numbers too, and writing into one would confuse it. They are known by their other
 * end, which is open for reading in this very process.
 */
function isOwn(fd: number): boolean {
  const pipe = fstatSync(fd);
  if (!pipe.isFIFO()) return false;
  return openDescriptors().some((other) => {
    try {
      const stat = fstatSync(other);
      return other > 2 && stat.ino === pipe.ino && stat.dev === pipe.dev && !isWritable(other);
    } catch {
      return false; // Closed meanwhile, such as the one that read the folder.
    }
  });
}

function openDescriptors(): number[] {
  try {
    return readdirSync('/dev/fd').map(Number);
  } catch {
    return [];
  }
}
