/** The name of a table or column as it stands in a statement, whatever is in it. Values are bound, never written. */
export function quote(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}
