import type { MysqlSession } from '../stores/mysql-client.js';
import type { MysqlTarget } from '../stores/mysql-url.js';

export interface Column {
  readonly name: string;
  /** As it is declared: `timestamp(3)`. */
  readonly type: string;
  /** Characters that fit, of a text. */
  readonly length: number | null;
  readonly charset: string | null;
  readonly collation: string | null;
}

/** By their names, in small letters. */
export type Columns = ReadonlyMap<string, Column>;

/** Whether a row of information_schema is about our table; as the library asks it. */
export const IS_OURS = `table_schema = coalesce(?, database())
  and (binary table_name = binary ? or (@@lower_case_table_names > 0 and lower(table_name) = lower(?)))`;

export function placeOf({ table: { table = 'shedlock', schema } }: MysqlTarget): readonly (string | null)[] {
  return [schema ?? null, table, table];
}

/** Empty if there is no such table, or none that we may see. */
export async function readColumns(session: MysqlSession, target: MysqlTarget): Promise<Columns> {
  const found = await session.ask<Column>(
    `select cast(json_object('name', column_name, 'type', column_type, 'length', character_maximum_length,
  'charset', character_set_name, 'collation', collation_name) as char)
from information_schema.columns where ${IS_OURS} order by ordinal_position`,
    placeOf(target),
  );
  return new Map(found.map((column) => [column.name.toLowerCase(), column]));
}
