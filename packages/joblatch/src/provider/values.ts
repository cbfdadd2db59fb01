import { LockOptionsError } from './errors.js';

/**
 * A length of time: milliseconds as a number, text with units (`'90s'`, `'1h30m'`, `'250ms'`, `'2d'`), or
 * ISO-8601 (`'PT1H30M'`, `'P1D'`). Rounded up to whole milliseconds.
 */
export type Duration = number | string;

export const LONGEST_DURATION_MS: number = 3_652 * 24 * 3_600_000;

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

const NUMBER = String.raw`(\d+(?:\.\d+)?)`;
const UNITS = new RegExp(`^(?:${NUMBER}\\s*(ms|s|m|h|d|w)\\s*)+$`);
const UNIT = new RegExp(`${NUMBER}\\s*(ms|s|m|h|d|w)`, 'g');
const ISO = new RegExp(
  `^P(?!$)(?:${NUMBER}W)?(?:${NUMBER}D)?(?:T(?=\\d)(?:${NUMBER}H)?(?:${NUMBER}M)?(?:${NUMBER}S)?)?$`,
);
const ISO_UNITS = ['w', 'd', 'h', 'm', 's'] as const;

export interface DurationRange {
  /** Default 1 ms. */
  readonly min?: number;
  /** Default ten years. */
  readonly max?: number;
}

/**
 * Reads a duration as whole milliseconds, rounding a fraction up.
 *
 * @param what names the option in the message, for instance `lockAtMostFor of job "mail"`
 * @throws LockOptionsError with the value that was found and what is accepted
 */
export function parseDuration(value: unknown, what: string, range: DurationRange = {}): number {
  const min = range.min ?? 1;
  const max = range.max ?? LONGEST_DURATION_MS;
  const parsed =
    typeof value === 'number' ? value : typeof value === 'string' ? parseText(value) : Number.NaN;
  const ms = Math.ceil(parsed);
  if (ms >= min && ms <= max) return ms;
  throw new LockOptionsError(
    `${what} is ${show(value)}. Accepted: milliseconds as a number, '90s', '1h30m' or 'PT1H30M', ` +
      `from ${describe(min)} to ${describe(max)}.`,
  );
}

/** Texts that were read before: an application has a handful of them, and says them with each call. */
const parsedTexts = new Map<string, number>();
const PARSED_TEXTS_MAX = 1_000;

function parseText(text: string): number {
  const known = parsedTexts.get(text);
  if (known !== undefined) return known;
  const ms = readText(text);
  if (parsedTexts.size === PARSED_TEXTS_MAX) parsedTexts.clear();
  parsedTexts.set(text, ms);
  return ms;
}

function readText(text: string): number {
  const trimmed = text.trim();
  if (UNITS.test(trimmed)) {
    return [...trimmed.matchAll(UNIT)].reduce(
      (sum, [, n, unit]) => sum + Number(n) * (UNIT_MS[unit as string] as number),
      0,
    );
  }
  const iso = ISO.exec(trimmed);
  if (iso === null) return Number.NaN;
  return ISO_UNITS.reduce((sum, unit, i) => sum + Number(iso[i + 1] ?? 0) * (UNIT_MS[unit] as number), 0);
}

/** What was thrown, for messages: not everything that is thrown is an error. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : show(thrown);
}

/** For messages; never calls into the value, which may throw. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  return typeof value === 'function' ? 'a function' : String(value);
}

function describe(ms: number): string {
  if (ms >= LONGEST_DURATION_MS) return 'ten years';
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    const size = UNIT_MS[unit] as number;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

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
  // So short a string keeps both limits, whatever it holds.
  if (key.length <= KEY_MAX_CHARACTERS) return undefined;
  const characters = [...key].length;
  if (characters > KEY_MAX_CHARACTERS) return `has ${characters} characters`;
  const bytes = Buffer.byteLength(key);
  if (bytes > KEY_MAX_BYTES) return `has ${bytes} bytes of UTF-8, more than ${KEY_MAX_BYTES}`;
  return undefined;
}

/** How far in the store's future a named slot may lie. */
export const SLOT_AHEAD_MS = 60_000;

/** How long a store remembers a slot; an older one is refused. Also the longest period of `oncePerMs`. */
export const SLOT_MEMORY_MS: number = 31 * 24 * 3_600_000;

/** A misspelt option would silently change what is promised. */
export function refuseUnknown(options: unknown, known: ReadonlySet<string>, what: string): void {
  if (typeof options !== 'object' || options === null) {
    throw new LockOptionsError(`${what} takes an object of options, not ${show(options)}.`);
  }
  for (const name of Object.keys(options)) {
    if (!known.has(name)) {
      throw new LockOptionsError(
        `${what} has no option ${JSON.stringify(name)}. It takes: ${[...known].join(', ')}.`,
      );
    }
  }
}
