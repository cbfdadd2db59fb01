import { writeSync } from 'node:fs';
import { printable, printableJson } from './printable.js';
import { redact } from './redact.js';

/**
 * Output goes straight to the descriptors. `process.stdout` and `process.stderr` would make a pipe
 * non-blocking when first touched, and a pipe is shared with the command that is run: it would then meet
 * EAGAIN on a stdout that is its own.
 */
export function writeFully(fd: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (!isErrno(error, 'EAGAIN')) throw error;
      // Somebody else has made the pipe non-blocking, and it is full.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** One line on stdout. A reader that has gone away (`| head`) ends the program quietly, as it does others. */
export function print(line: string): void {
  try {
    writeFully(1, `${line}\n`);
  } catch (error) {
    if (isErrno(error, 'EPIPE')) process.exit(0);
    throw error;
  }
}

export function printJson(value: unknown): void {
  print(printableJson(value));
}

/** One line on stderr. Safe for any text: control characters are shown, passwords are not. */
export function complain(text: string): void {
  try {
    writeFully(2, `joblatch: ${printableLine(redact(text))}\n`);
  } catch {
    // Nobody listens. What is told here never decides how the program goes on.
  }
}

/** Says something that `--quiet` leaves out. */
export type Notice = (text: string) => void;

export function noticesOf(flags: { readonly quiet?: boolean }): Notice {
  return flags.quiet === true ? () => {} : complain;
}

/** Messages hold names that were escaped already, by {@link printable} or as JSON: no second backslash. */
function printableLine(text: string): string {
  return text.split('\\').map(printable).join('\\');
}

export function isErrno(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
