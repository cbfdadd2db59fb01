import { readFileSync } from 'node:fs';
import { UsageError } from '../errors.js';

/** The text of a file that a parameter of the store's URL names. @throws UsageError */
export function readParameterFile(path: string, parameter: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : error;
    throw new UsageError(`${parameter} names ${JSON.stringify(path)}, which can not be read (${reason}).`);
  }
}
