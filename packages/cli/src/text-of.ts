/**
 * What an error says. Of several addresses that were all tried, Node's has no message of its own; clients of MariaDB put the
 * statement and the number of the connection around what the server said.
 */
export function textOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(textOf).join('; ');
  if (!(error instanceof Error)) return String(error);
  const { sqlMessage } = error as { readonly sqlMessage?: unknown };
  return typeof sqlMessage === 'string' && sqlMessage !== '' ? sqlMessage : error.message;
}
