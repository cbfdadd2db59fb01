import type { MysqlSession } from '../stores/mysql-client.js';

/** Settings of this session, and what the server counts, by name; what the server does not know is missing. */
export type Variables = ReadonlyMap<string, string>;

export async function readVariables(session: MysqlSession, names: readonly string[]): Promise<Variables> {
  const list = names.map((name) => `'${name}'`).join(', ');
  const rows = [
    ...(await session.show(`show session variables where variable_name in (${list})`)),
    ...(await session.show(`show global status where variable_name in (${list})`)),
  ];
  return new Map(rows.map((row) => Object.values(row).map(String) as [string, string]));
}

/** MariaDB 12 has more words for `read_only` than two. */
export function isOn(value: string | undefined): boolean {
  return value !== undefined && !/^(?:off|0|no|)$/i.test(value);
}
