/**
 * Values and names as they stand in a statement.
 *
 * Statements go as simple queries, with their values in them. So an attempt is one message on every client
 * and through every pooler (nothing is prepared, nothing described first), what the application has told its
 * client about types is not asked, and `now()` is exactly `statement_timestamp()` unless a transaction was
 * open before (with bound parameters there are microseconds between them, or a round trip).
 */

/** Printable ASCII except the quote and the backslash: nothing here can end a literal, whatever the settings. */
const PLAIN = /^[ -&(-[\]-~]*$/;

/** A text. What is not plain goes as hexadecimal digits: no quoting rule, setting or encoding can change it. */
export function text(value: string): string {
  if (PLAIN.test(value)) return `'${value}'::text`;
  return `convert_from(decode('${Buffer.from(value).toString('hex')}', 'hex'), 'UTF8')`;
}

/** A whole number. */
export function int(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`Not a whole number: ${String(value)}.`);
  return `${value}::bigint`;
}

/** The name of a table or column, whatever is in it. */
export function name(value: string): string {
  return `"${value.replaceAll('"', '""')}"`;
}
