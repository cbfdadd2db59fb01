import { createHash } from 'node:crypto';

/** A statement with places for values. Its text is the same for every call, so that it can be prepared. */
export interface Statement {
  readonly text: string;
  /** By which it is prepared. The same text has the same name everywhere, and no other text has it. */
  readonly name: string;
  /** It answers a row at least, unless a transaction was open before; see `ALONE` in statements.ts. */
  readonly answers: boolean;
}

/** A statement and the values for its places, as texts: what a client knows of types does not matter. */
export interface Call {
  readonly statement: Statement;
  readonly values: readonly (string | null)[];
}

export type Value = string | number | boolean | null | undefined;

const NAME_LENGTH = 20;

export function statement(text: string, { answers = true }: { readonly answers?: boolean } = {}): Statement {
  const hash = createHash('sha256').update(text).digest('base64url').slice(0, NAME_LENGTH);
  return { text, name: `joblatch_${hash}`, answers };
}

export function call(of: Statement, ...values: readonly Value[]): Call {
  return { statement: of, values: values.map((value) => (value == null ? null : String(value))) };
}
