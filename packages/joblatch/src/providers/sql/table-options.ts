import { LockOptionsError } from '../../provider/errors.js';
import { refuseUnknown } from '../../provider/values.js';

/** Names of the columns of a table of locks, where they are others. */
export interface SqlColumns {
  /** Default `'name'`. */
  readonly name?: string | undefined;
  /** Default `'lock_until'`. */
  readonly lockUntil?: string | undefined;
  /** Default `'locked_at'`. */
  readonly lockedAt?: string | undefined;
  /** Default `'locked_by'`. */
  readonly lockedBy?: string | undefined;
  /** Default `'fencing_token'`. */
  readonly fencingToken?: string | undefined;
  /** Default `'slot'`. */
  readonly slot?: string | undefined;
}

/** The names of a table and its columns: for people as they are, for SQL quoted. */
export interface SqlTableNames<C> {
  /** For messages. */
  readonly shown: string;
  readonly quoted: string;
  readonly schema: string | undefined;
  readonly table: string;
  readonly columns: Readonly<Record<keyof C, string>>;
}

export const DEFAULT_COLUMNS: Readonly<Record<keyof SqlColumns, string>> = {
  name: 'name',
  lockUntil: 'lock_until',
  lockedAt: 'locked_at',
  lockedBy: 'locked_by',
  fencingToken: 'fencing_token',
  slot: 'slot',
};

export const TABLE_OPTIONS: readonly string[] = ['schema', 'table', 'columns'];

/** What names are in a kind of database. */
export interface Naming<C> {
  readonly columns: Readonly<Record<keyof C, string>>;
  isName(name: string): boolean;
  /** For a message: what a name has to be. */
  readonly accepted: string;
  /** Whether the database takes two names of columns for one. */
  same(name: string): string;
  quote(name: string): string;
}

export function checkTable<C extends object>(
  options: {
    readonly schema?: string | undefined;
    readonly table?: string | undefined;
    readonly columns?: C | undefined;
  },
  { columns: usual, isName, accepted, same, quote }: Naming<C>,
  what: string,
): SqlTableNames<C> {
  const { schema, table = 'shedlock', columns = {} as C } = options;
  refuseUnknown(columns, new Set(Object.keys(usual)), `${what}: columns`);
  const checkName = (option: string, value: unknown): string => {
    const fits =
      typeof value === 'string' &&
      value !== '' &&
      !value.includes('\0') &&
      value.isWellFormed() &&
      isName(value);
    if (fits) return value;
    throw refuse(what, `${option} is ${JSON.stringify(value)}`, accepted);
  };
  const chosen = Object.entries<string>(usual).map(([column, name]) => {
    const value = columns[column as keyof C];
    return [column, value === undefined ? name : checkName(`columns.${column}`, value)] as const;
  });
  if (new Set(chosen.map(([, name]) => same(name))).size < chosen.length) {
    throw refuse(what, 'two columns have one name', 'a name for each');
  }
  const checkedSchema = schema === undefined ? undefined : checkName('schema', schema);
  const path = [...(checkedSchema === undefined ? [] : [checkedSchema]), checkName('table', table)];
  return {
    shown: path.join('.'),
    quoted: path.map(quote).join('.'),
    schema: checkedSchema,
    table,
    columns: Object.fromEntries(chosen) as Record<keyof C, string>,
  };
}

export function refuse(what: string, found: string, accepted: string, hint = ''): LockOptionsError {
  return new LockOptionsError(`${what}: ${found}. Accepted: ${accepted}.${hint}`);
}

/** @throws LockOptionsError unless these are true or false */
export function checkSwitches(switches: Readonly<Record<string, unknown>>, what: string): void {
  for (const [option, value] of Object.entries(switches)) {
    if (typeof value !== 'boolean') throw refuse(what, `${option} is ${String(value)}`, 'true or false');
  }
}

export const DEFAULT_TIMEOUT_MS = 5_000;

export function checkTimeout(timeoutMs: unknown, what: string): void {
  if (typeof timeoutMs !== 'number' || !(timeoutMs > 0 && timeoutMs < Number.POSITIVE_INFINITY)) {
    throw refuse(what, `timeoutMs is ${String(timeoutMs)}`, 'milliseconds, more than 0');
  }
}
