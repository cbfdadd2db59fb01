/** What joblatch asks a client for: rows as arrays, of values as the client makes them by itself. */
export interface MysqlQuery {
  readonly sql: string;
  readonly rowsAsArray: true;
  readonly metaAsArray: false;
  readonly nestTables: false;
  readonly namedPlaceholders: false;
  typeCast(field: unknown, next: () => unknown): unknown;
}

/** What joblatch uses of a connection of `mysql2/promise` or `mariadb`. */
export interface MysqlConnection {
  query(query: MysqlQuery, values?: (string | null)[]): Promise<unknown>;
  execute(query: MysqlQuery, values?: (string | null)[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  destroy(): void;
}

/** A connection that a pool lends. */
export interface MysqlPoolConnection extends MysqlConnection {
  release(): unknown;
}

/** What joblatch uses of a pool of `mysql2/promise` or `mariadb`. */
export interface MysqlPool {
  getConnection(): Promise<MysqlPoolConnection>;
}

/** A pool or a connection of `mysql2` itself, which has the other one inside. */
export interface MysqlCallbackClient<T> {
  promise(): T;
}

/** The client that was given, and of which kind it is. */
export type Source =
  | { readonly kind: 'pool'; readonly pool: MysqlPool }
  | { readonly kind: 'connection'; readonly connection: MysqlConnection };

export const SOURCE_KINDS = ['pool', 'connection'] as const;

const WHAT: Readonly<Record<Source['kind'], string>> = {
  pool: 'a pool of mysql2 or mariadb',
  connection: 'a connection of mysql2 or mariadb that is used by nobody else',
};

export function whatFits(kind: Source['kind']): string {
  return WHAT[kind];
}

/** The kind of a client, and the client with promises; undefined if it is none. */
export function recognise(given: unknown): Source | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  if (has(given, 'promise')) {
    const inner = (given as MysqlCallbackClient<object>).promise();
    return typeof inner === 'object' && inner !== null && !has(inner, 'promise')
      ? recognise(inner)
      : undefined;
  }
  if (has(given, 'getConnection')) return { kind: 'pool', pool: given as unknown as MysqlPool };
  const isConnection = has(given, 'execute') && has(given, 'query') && has(given, 'destroy');
  return isConnection ? { kind: 'connection', connection: given as unknown as MysqlConnection } : undefined;
}

function has(given: object, method: string): boolean {
  return typeof (given as Record<string, unknown>)[method] === 'function';
}

/** What a statement was answered with, whichever client read it. */
export interface Reply {
  /** The texts in the only column of its rows. */
  readonly rows: readonly string[];
  /** How many rows were matched or changed: clients can be told to count either. */
  readonly changed: number;
  /** What the statement made of `last_insert_id`; 0 if nothing. */
  readonly insertId: number;
}

export function queryOf(sql: string): MysqlQuery {
  return {
    sql,
    rowsAsArray: true,
    metaAsArray: false,
    nestTables: false,
    namedPlaceholders: false,
    // Instead of one that the application has set up.
    typeCast: (_field, next) => next(),
  };
}

/** mysql2 answers `[rows or header, fields]`, mariadb `rows or header`. */
export function readReply(answer: unknown): Reply {
  const result: unknown = Array.isArray(answer) && isMysql2(answer) ? answer[0] : answer;
  if (Array.isArray(result)) {
    return { rows: result.map(firstText), changed: 0, insertId: 0 };
  }
  const { affectedRows = 0, insertId = 0 } = (result ?? {}) as {
    readonly affectedRows?: unknown;
    readonly insertId?: unknown;
  };
  return { rows: [], changed: Number(affectedRows), insertId: Number(insertId) };
}

/** `[rows, fields]` or `[header, undefined]`; rows of ours are arrays of one value. */
function isMysql2(answer: readonly unknown[]): boolean {
  if (answer.length !== 2) return false;
  const [result, fields] = answer;
  if (!Array.isArray(result)) return true;
  return Array.isArray(fields) && (result.length === 0 || Array.isArray(result[0]));
}

function firstText(row: unknown): string {
  const [value] = Array.isArray(row) ? row : Object.values(row as object);
  return Buffer.isBuffer(value) ? value.toString() : String(value);
}

const IN_TRANSACTION = 1;

/** Whether a transaction was open after a statement without rows. mysql2 tells it with the answer, mariadb does not. */
export function leftOpen(answer: unknown): boolean {
  const header = Array.isArray(answer)
    ? (answer[0] as { readonly serverStatus?: unknown } | undefined)
    : undefined;
  return isInTransaction(header?.serverStatus);
}

/** Whether one is open on the connection, by its answer to a statement without rows. */
export function isOpenOn(connection: object, answer: unknown): boolean {
  const { info } = connection as { readonly info?: { readonly status?: unknown } };
  return isInTransaction(info?.status) || leftOpen(answer);
}

function isInTransaction(status: unknown): boolean {
  return typeof status === 'number' && (status & IN_TRANSACTION) !== 0;
}
