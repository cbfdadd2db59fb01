import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { CommandError, UsageError } from './errors.js';
import { EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND } from './exit-codes.js';

/**
 * Refuses a command that can not be run, before the lock is asked for: a host on which it is not installed
 * must not use up the slot, or the time, in which another host could have run it.
 */
export function checkCommand(command: string, env: NodeJS.ProcessEnv = process.env): void {
  // Some shells would take it as an option of their `exec`, and whoever writes it has most likely misplaced one.
  if (command.startsWith('-')) {
    throw new UsageError(
      `The command ${JSON.stringify(command)} looks like an option. Accepted: ./${command}.`,
    );
  }
  // Windows adds extensions and has no executable bit; there the start itself finds out.
  if (process.platform === 'win32') return;
  const candidates = command.includes('/')
    ? [command]
    : (env.PATH ?? '/usr/bin:/bin').split(delimiter).map((folder) => join(folder || '.', command));
  const found = command === '' ? [] : candidates.filter(isThere);
  if (found.some(isExecutable)) return;
  throw found.length === 0 ? notFound(command) : notExecutable(command);
}

/** What the system said when the command was started, as the error that it means. */
export function startError(command: string, error: NodeJS.ErrnoException): CommandError {
  return error.code === 'ENOENT' || error.code === 'ENOTDIR'
    ? notFound(command)
    : notExecutable(command, error.code);
}

function notFound(command: string): CommandError {
  return new CommandError(`${JSON.stringify(command)}: command not found`, EXIT_NOT_FOUND);
}

function notExecutable(command: string, reason?: string): CommandError {
  const why = reason === undefined ? '' : ` (${reason})`;
  return new CommandError(`${JSON.stringify(command)}: can not be executed${why}`, EXIT_NOT_EXECUTABLE);
}

function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // A folder of the PATH that is a file, or that may not be looked into.
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
