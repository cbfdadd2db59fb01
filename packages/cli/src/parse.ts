import { checkKey, parseDuration } from 'joblatch';
import { UsageError } from './errors.js';
import { formatDuration } from './format.js';

const TEN_YEARS_MS = 3_652 * 24 * 3_600_000;

/**
 * Reads a length of time from the command line, in milliseconds. A number without a unit is refused: in the
 * library it means milliseconds, here most people would mean seconds.
 */
export function readDuration(
  text: string,
  flag: string,
  range: { readonly min?: number; readonly max?: number } = {},
): number {
  const { min = 1, max = TEN_YEARS_MS } = range;
  const accepted = `Accepted: 90s, 1h30m, 250ms or PT1H30M, from ${formatDuration(min)} to ${formatDuration(max)}.`;
  const bare = /^\s*(\d+(?:\.\d+)?)\s*$/.exec(text)?.[1];
  if (bare !== undefined && Number(bare) === 0 && min === 0) return 0;
  if (bare !== undefined) {
    throw new UsageError(
      `${flag} is ${JSON.stringify(text)}, without a unit: write ${bare}s or ${bare}ms. ${accepted}`,
    );
  }
  try {
    return parseDuration(text, flag, { min, max });
  } catch {
    throw new UsageError(`${flag} is ${JSON.stringify(text)}. ${accepted}`);
  }
}

/** An exit status: a whole number from 0 to 255. */
export function readExitCode(text: string, flag: string): number {
  const code = /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  if (code <= 255) return code;
  throw new UsageError(`${flag} is ${JSON.stringify(text)}. Accepted: a whole number from 0 to 255.`);
}

export function readName(text: string): string {
  return checkKey(text, 'name');
}

/** Not left to the parser of the command line, which would complain of this before a misspelt option. */
export function required(value: string | undefined, example: string): string {
  if (value !== undefined) return value;
  throw new UsageError(`${example.split(' ')[0]} is missing. Accepted: ${example}.`);
}
