import assert from 'node:assert/strict';
import { isLockError } from '../../provider/errors.js';
import { type CaseDefinition, define } from './case.js';
import { LONG_LEASE_MS, pick, type Scene, type Taken } from './scene.js';
import { show } from './show.js';

/** The longest key, in characters. */
const KEY_MAX = 512;

/** Families of keys that one store or another takes for the same, cuts, or chokes on. */
const FAMILIES: Readonly<Record<string, readonly string[]>> = {
  'letter case': ['Key', 'key', 'KEY', 'ß', 'ss', 'SS', 'ẞ', 'İ', 'I', 'i', 'ı', 'Σ', 'σ', 'ς'],
  blanks: [
    'k',
    ' k',
    'k ',
    'k  ',
    'k\t',
    'k\n',
    'k\r\n',
    'k\u00A0',
    'k\u200B',
    'k\u3000',
    'a k',
    'a  k',
    'ak',
  ],
  'Unicode forms': [
    '\u00E9',
    'e\u0301',
    'e',
    '\u212B',
    '\u00C5',
    'A\u030A',
    'A',
    '\uFB01',
    'fi',
    '\uFF41',
    'a',
    'ª',
  ],
  'characters beyond the basic plane': [
    'lock',
    'lock\u{1F512}',
    'lock\u{1F513}',
    'lock\u{1F512}\u{1F512}',
    'lock?',
    'lock????',
    'lock\uFFFD',
    '\u{1F468}\u200D\u{1F469}',
    '\u{1F468}\u{1F469}',
    '\u{10FFFF}',
    '\uFEFFlock',
  ],
  'quotes and SQL': [
    "o'clock",
    "o''clock",
    'o"clock',
    'o`clock',
    "'; DROP TABLE joblatch; --",
    "' OR '1'='1",
    '1; SELECT pg_sleep(1)',
    '/* key */',
    '-- key',
    '$1',
    '$$key$$',
    '?',
    ':name',
    '@name',
    '[key]',
    'E\\x41',
  ],
  'patterns and separators': [
    'a%',
    'a_',
    'ab',
    'a*',
    'a?',
    'a[b]',
    'a:b',
    'a/b',
    'a.b',
    'a|b',
    'a::b',
    'a\\b',
    'a\\\\b',
    'a\\n',
    'a//b',
    '../a',
    'a#b',
    'a,b',
    'a;b',
    'a=b',
    'a&b',
  ],
  'braces of hash slots': [
    '{a}',
    '{a}b',
    '{a}{b}',
    'a{b}',
    '{}',
    '{}a',
    '{',
    '}',
    '}{',
    '{{a}}',
    '{a',
    'a}',
    '{{}',
  ],
  'numbers and words of the language': [
    '1',
    '01',
    '1.0',
    '1e0',
    '0x1',
    '+1',
    ' 1',
    'true',
    'null',
    'undefined',
    'NaN',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
  ],
  'control characters': [
    'a\u0001',
    'a\u001F',
    'a\u007F',
    'a',
    'a\u0085',
    'a\u2028',
    'a\u202E',
    'a\b',
    'a\u001B[0m',
  ],
};

/** Keys are compared byte for byte; nothing is folded, trimmed, cut or interpreted. */
export const keys: readonly CaseDefinition[] = [
  ...Object.entries(FAMILIES).map(([family, labels]) =>
    define(`keys are kept apart exactly: ${family}`, [], (s) =>
      keptApart(
        s,
        labels.map((label) => s.key(label)),
      ),
    ),
  ),

  define(`keys are kept apart exactly: ${KEY_MAX} characters, and almost`, [], (s) => {
    const room = KEY_MAX - [...s.key('')].length;
    const long = [250, 255, room - 1, room].map((length) => 'x'.repeat(length));
    const last = ['y', ' ', '\u{1F512}'].map((end) => 'x'.repeat(room - 1) + end);
    return keptApart(
      s,
      [...long, ...last, '\u{1F512}'.repeat(room)].map((label) => s.key(label)),
    );
  }),
];

/**
 * All of them can be held at once, each by its own owner, and giving one back leaves the others held. A store
 * with a narrower limit may refuse a key, as an error; it must not take it for another.
 */
async function keptApart(s: Scene, all: readonly string[]): Promise<void> {
  const held: Taken[] = [];
  for (const key of all) {
    try {
      held.push(await s.take(key));
    } catch (error) {
      if (!isLockError(error, 'OPTIONS')) throw error;
      s.note(`${show(key)} is refused: ${error.message}`);
    }
  }
  for (const { key, owner } of held) {
    const record = await s.inspect(key);
    assert.equal(
      record?.owner ?? owner,
      owner,
      `Expected owner ${owner} of ${show(key)}, found ${record?.owner}.`,
    );
    assert.equal(record?.state, 'held', `Expected ${show(key)} to be held, found ${record?.state}.`);
  }
  for (let taken = held.pop(); taken !== undefined; taken = held.pop()) {
    await s.refused(taken.key);
    await s.released(taken);
    const answers = await s.renewMany(held.map((other) => ({ ...pick(other), leaseMs: LONG_LEASE_MS })));
    const lost = answers.indexOf('lost');
    assert.equal(
      lost,
      -1,
      `Expected ${show(held[lost]?.key)} to stay held when ${show(taken.key)} is released.`,
    );
  }
}
