/** A statement with places for values. Its text is the same for every call, so that it can be prepared. */
export interface Statement {
  readonly text: string;
  /** Which value stands at which place. */
  readonly places: readonly string[];
}

/**
 * A statement and the values for its places. All are digits, of numbers or (of what is a text) hexadecimal: so neither
 * the character set of a connection nor a client's idea of types can change them, and there is nothing to escape where
 * a client writes them into the statement. With the mode NO_BACKSLASH_ESCAPES they escape wrongly.
 */
export interface Call {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

export type Values = Readonly<Record<string, string | number | null | undefined>>;

/** Quoted names, which may hold anything, and places of values. */
const NAME_OR_PLACE = /`(?:[^`]|``)*`|:([a-z]\w*)/gi;

/** Reads a text whose places have names, such as `:owner`; the server knows them by their order only. */
export function statement(named: string): Statement {
  const places: string[] = [];
  const text = named.replace(NAME_OR_PLACE, (found, place: string | undefined) => {
    if (place === undefined) return found;
    places.push(place);
    return '?';
  });
  return { text, places };
}

export function call({ text, places }: Statement, values: Values = {}): Call {
  return {
    text,
    values: places.map((place) => {
      const value = values[place];
      return value == null ? null : String(value);
    }),
  };
}

/** A text as hexadecimal digits of its UTF-8. */
export function hex(text: string): string {
  return Buffer.from(text).toString('hex');
}

export function unhex(digits: string): string {
  return Buffer.from(digits, 'hex').toString();
}
