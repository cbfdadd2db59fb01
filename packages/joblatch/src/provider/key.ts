import { LockOptionsError } from './errors.js';

const KEY_MAX_CHARACTERS = 512;
const KEY_MAX_BYTES = 2_048;
/** More UTF-16 units than this can not be 512 characters; spares counting a huge string. */
const KEY_MAX_UNITS = KEY_MAX_CHARACTERS * 2;

/**
 * Checks a key and gives it back: a non-empty, well-formed string of at most 512 characters (code points;
 * 2,048 bytes of UTF-8) without NUL. Keys are compared byte for byte; nothing is folded, trimmed or cut.
 *
 * @throws LockOptionsError
 */
export function checkKey(key: unknown, what = 'key'): string {
  const problem = findProblem(key);
  if (problem === undefined) return key as string;
  throw new LockOptionsError(
    `The ${what} ${problem}. Accepted: 1 to ${KEY_MAX_CHARACTERS} characters, well-formed, no NUL.`,
    {
      key: typeof key === 'string' ? key.slice(0, KEY_MAX_CHARACTERS) : undefined,
    },
  );
}

function findProblem(key: unknown): string | undefined {
  if (typeof key !== 'string') return `is ${key === null ? 'null' : `of type ${typeof key}`}, not a string`;
  if (key === '') return 'is empty';
  if (key.length > KEY_MAX_UNITS)
    return `has ${key.length} UTF-16 units, more than ${KEY_MAX_CHARACTERS} characters can have`;
  if (key.includes('\0')) return `${JSON.stringify(key)} holds a NUL character`;
  if (!key.isWellFormed()) return `${JSON.stringify(key)} holds half of a surrogate pair`;
  const characters = [...key].length;
  if (characters > KEY_MAX_CHARACTERS) return `has ${characters} characters`;
  const bytes = Buffer.byteLength(key);
  if (bytes > KEY_MAX_BYTES) return `has ${bytes} bytes of UTF-8, more than ${KEY_MAX_BYTES}`;
  return undefined;
}
