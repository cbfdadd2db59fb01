/**
 * What a terminal could take for an instruction, or what could make a line look like another one: control
 * characters (C0, DEL, C1), line and paragraph separators, and the marks that change the direction of text.
 * Joiners stay, emoji are made of them. A backslash is escaped too, so that the escaping is one-to-one.
 */
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\\]/gu;
/** JSON leaves these as they are, and a terminal obeys the C1 ones. */
const UNSAFE_IN_JSON = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

const SHORT: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\u001b': '\\e',
  '\\': '\\\\',
};

/** Makes one harmless line of any text: a name of a lock may hold whatever its maker put into it. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (c) => SHORT[c] ?? `\\u{${(c.codePointAt(0) as number).toString(16)}}`);
}

/** One line of JSON that can be printed on a terminal, and that any parser reads as the same value. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(
    UNSAFE_IN_JSON,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
