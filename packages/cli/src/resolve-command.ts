import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
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
  const found = command === '' ? [] : placesOf(command, env).filter(isThere);
  const file = found.find(isExecutable);
  if (file === undefined) throw found.length === 0 ? notFound(command) : notExecutable(command);
  const missing = interpretersOf(file).find((name) => !placesOf(name, env).some(isExecutable));
  if (missing !== undefined) throw notFound(command, missing);
}

function placesOf(command: string, env: NodeJS.ProcessEnv): string[] {
  if (command.includes('/')) return [command];
  return (env.PATH ?? '/usr/bin:/bin').split(delimiter).map((folder) => join(folder || '.', command));
}

/** Linux reads no more of a first line than this. */
const FIRST_LINE_BYTES = 256;

/** What a script says it is run by: `#!/bin/sh` is one program, `#!/usr/bin/env python3` is two. */
function interpretersOf(file: string): string[] {
  const [program, argument] = /^#!\s*(\S+)(?:[ \t]+(\S+))?/.exec(firstBytes(file))?.slice(1) ?? [];
  if (program === undefined) return [];
  const isEnv = basename(program) === 'env' && argument !== undefined && !/^-|=/.test(argument);
  return isEnv ? [program, argument] : [program];
}

function firstBytes(file: string): string {
  const buffer = Buffer.alloc(FIRST_LINE_BYTES);
  try {
    const descriptor = openSync(file, 'r');
    try {
      return buffer.toString('latin1', 0, readSync(descriptor, buffer, 0, buffer.length, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return ''; // Executable but not readable: the system can run it all the same.
  }
}

/** What the system said when the command was started, as the error that it means. */
export function startError(command: string, error: NodeJS.ErrnoException): CommandError {
  return error.code === 'ENOENT' || error.code === 'ENOTDIR'
    ? notFound(command)
    : notExecutable(command, error.code);
}

function notFound(command: string, interpreter?: string): CommandError {
  const what = interpreter === undefined ? 'command' : `its interpreter ${JSON.stringify(interpreter)}`;
  return new CommandError(`${JSON.stringify(command)}: ${what} not found`, EXIT_NOT_FOUND);
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
