/** What MariaDB and MySQL say differently. All else is said as both understand it. */
export interface Dialect {
  readonly server: 'mariadb' | 'mysql';
  /**
   * Begins a statement with settings that hold for it alone: the zone in which TIMESTAMP columns are read and
   * written, no strict mode (a wall time in a gap of that zone is moved to the gap's end instead of being an error;
   * nothing else of ours could be changed by it), no safe updates (they take an update of several rows for one of
   * all), and how long to wait for a row, or a table, that somebody has locked.
   */
  begin(verb: Verb, settings: { readonly zone: string; readonly waitS: number }): string;
  /** True if no transaction is open, and none begins with the statement. MySQL shows only half of it. */
  readonly alone: string;
  /** 1 if a transaction is open. MySQL does not say; its clients do. */
  readonly inTransaction: string;
  /** The session's limit, in seconds, for a transaction that does nothing: then the server closes the connection. */
  readonly idleLimit: string | undefined;
  /**
   * Whether {@link begin} bounds the wait for a row. Where it does not, a statement that must not wait locks the row
   * by a subquery that skips what is locked.
   */
  readonly boundsWait: boolean;
  /** Of our own table: compares byte for byte, also blanks at the end. */
  readonly collation: string;
  /** Older ones lack what is used: `skip locked`, `json_table`, the collation. */
  readonly oldest: readonly [major: number, minor: number, patch: number];
}

export type Verb = 'select' | 'insert' | 'update' | 'delete';

const mariadb: Dialect = {
  server: 'mariadb',
  begin: (verb, { zone, waitS }) =>
    `set statement time_zone = '${zone}', sql_mode = 0, sql_safe_updates = 0, innodb_lock_wait_timeout = ${waitS}, ` +
    `lock_wait_timeout = ${waitS} for ${verb}`,
  alone: '(@@in_transaction = 0 and @@autocommit = 1)',
  inTransaction: '@@in_transaction',
  idleLimit: 'idle_transaction_timeout',
  boundsWait: true,
  collation: 'utf8mb4_nopad_bin',
  oldest: [10, 6, 0],
};

const mysql: Dialect = {
  server: 'mysql',
  begin: (verb, { zone }) =>
    `${verb} /*+ set_var(time_zone = '${zone}') set_var(sql_mode = '') set_var(sql_safe_updates = 0) ` +
    'set_var(lock_wait_timeout = 1) */',
  alone: '(@@autocommit = 1)',
  inTransaction: 'null',
  idleLimit: undefined,
  boundsWait: false,
  collation: 'utf8mb4_0900_bin',
  oldest: [8, 0, 17],
};

export const DIALECTS: Readonly<Record<Dialect['server'], Dialect>> = { mariadb, mysql };

export function dialectOf(version: string): Dialect {
  return /mariadb/i.test(version) ? mariadb : mysql;
}

/** Whether the server is as old as to lack what is used. */
export function isTooOld({ oldest }: Dialect, version: string): boolean {
  const found = (/^(\d+)\.(\d+)\.(\d+)/.exec(version) ?? []).slice(1).map(Number);
  for (const [i, part] of oldest.entries()) {
    const other = found[i] ?? 0;
    if (other !== part) return other < part;
  }
  return false;
}
