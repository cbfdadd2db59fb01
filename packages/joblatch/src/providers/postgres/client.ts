/** What joblatch asks a pg client for: rows as arrays of the texts that the server sent, whatever types are set up. */
export interface PgQuery {
  readonly text: string;
  /** Of the prepared statement. Without it the text is parsed each time. */
  readonly name?: string;
  /** Absent for a script of several statements. */
  readonly values?: (string | null)[];
  readonly rowMode: 'array';
  readonly types: { getTypeParser(): (value: string) => string };
}

/** What joblatch uses of a `Pool` of `pg`. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** What joblatch uses of a connected `Client` of `pg`. */
export interface PgClient {
  query(query: PgQuery): Promise<unknown>;
  /** `'I'`: no transaction is open. From pg 8.21 on. */
  getTransactionStatus?(): string | null;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** A client that a `Pool` of `pg` lends. */
export interface PgPoolClient extends PgClient {
  /** With an error or `true` the connection is closed and not lent again. */
  release(error?: Error | boolean): void;
}

/** What joblatch uses of an `sql` of `postgres` (postgres.js). */
export interface PostgresJs {
  unsafe(query: string, values?: (string | null)[], options?: { prepare?: boolean }): PostgresJsQuery;
  /** The `sql` of a transaction or of a reserved connection has none. */
  readonly options?: { readonly max?: number };
}

export interface PostgresJsQuery {
  /** The bytes that the server sent: neither `types` nor `transform` have seen them. */
  raw(): PromiseLike<unknown>;
  cancel(): unknown;
  /** Whether it was sent. Not in the types of postgres.js. */
  readonly active?: unknown;
}

/** What joblatch uses of a `PGlite`. */
export interface Pglite {
  query(query: string, values?: (string | null)[], options?: PgliteOptions): Promise<unknown>;
  exec(query: string): Promise<unknown>;
  /** A PGlite, or the `tx` of its `transaction()`, that can not be used any more. */
  readonly closed?: boolean;
}

export interface PgliteOptions {
  rowMode?: 'array' | 'object';
  parsers?: Record<number, (value: string) => unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: as PGlite declares it
  serializers?: Record<number, (value: any) => string>;
}

/** The client that was given, and of which kind it is. */
export type Source =
  | { readonly kind: 'pool'; readonly pool: PgPool }
  | { readonly kind: 'client'; readonly client: PgClient }
  | { readonly kind: 'sql'; readonly sql: PostgresJs }
  | { readonly kind: 'pglite'; readonly pglite: Pglite };

/** How each kind is told from the others: a client that is given under the wrong name would only fail later. */
const SHAPES: Readonly<Record<Source['kind'], { readonly what: string; fits(given: object): boolean }>> = {
  pool: {
    what: 'a Pool of pg',
    fits: (given) => has(given, 'connect') && has(given, 'query') && 'totalCount' in given,
  },
  client: {
    what: 'a Client of pg that is connected and used by nobody else',
    fits: (given) => has(given, 'connect') && has(given, 'query') && !('totalCount' in given),
  },
  sql: { what: 'an sql of postgres (postgres.js)', fits: (given) => has(given, 'unsafe') },
  pglite: { what: 'a PGlite', fits: (given) => has(given, 'exec') && has(given, 'query') },
};

export const SOURCE_KINDS = Object.keys(SHAPES) as readonly Source['kind'][];

export function whatFits(kind: Source['kind']): string {
  return SHAPES[kind].what;
}

/** The kinds that a client could be given as; the first one is the likeliest. */
export function kindsOf(given: unknown): readonly Source['kind'][] {
  if ((typeof given !== 'object' && typeof given !== 'function') || given === null) return [];
  return SOURCE_KINDS.filter((kind) => SHAPES[kind].fits(given));
}

function has(given: object, method: string): boolean {
  return typeof (given as Record<string, unknown>)[method] === 'function';
}
