import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import envPaths from 'env-paths';
import { NoStoreError } from './errors.js';

/** Only the user may look into it: names of jobs can tell a lot. */
const PRIVATE = 0o700;

/** A file in the folder that the system has for what programs remember: `$XDG_STATE_HOME/joblatch` on Linux. */
export function defaultStorePath(): string {
  const paths = envPaths('joblatch', { suffix: '' });
  // What the library calls "log" is the state folder on Linux; elsewhere state belongs to the data.
  const isXdg = process.platform !== 'darwin' && process.platform !== 'win32';
  return join(isXdg ? paths.log : paths.data, 'locks.db');
}

export function makeDefaultStore(): string {
  const path = defaultStorePath();
  const folder = join(path, '..');
  try {
    mkdirSync(folder, { recursive: true, mode: PRIVATE });
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : error;
    throw new NoStoreError(
      `No --store was given, and the folder of the default one, ${JSON.stringify(folder)}, can not be made ` +
        `(${reason}). Name a store with --store or JOBLATCH_STORE.`,
    );
  }
  return path;
}
