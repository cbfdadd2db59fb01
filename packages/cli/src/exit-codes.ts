import { constants } from 'node:os';

/** What the command's exit status says, where it is not the status of the command that was run. */
export const EXIT_OK = 0;
/** `show` and `release` found no such record, or nothing to give back; `doctor` found an error. */
export const EXIT_NOTHING = 1;
/** EX_USAGE of sysexits.h: the request can not be right. */
export const EXIT_USAGE = 64;
/** EX_UNAVAILABLE: the store failed or did not answer. Nothing was run. */
export const EXIT_STORE = 69;
/** EX_SOFTWARE: a fault of joblatch itself. */
export const EXIT_INTERNAL = 70;
/** EX_TEMPFAIL: the lock was lost before the command ended, so another one may have run at the same time. */
export const EXIT_LOST = 75;
/** As shells say it: the file is there but can not be executed. */
export const EXIT_NOT_EXECUTABLE = 126;
/** As shells say it: there is no such command. */
export const EXIT_NOT_FOUND = 127;

/** 128 + n, as shells say that signal n ended a command. */
export function exitCodeOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
