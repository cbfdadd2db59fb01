import { GaveUp } from '../../provider/abandoning.js';
import { isLockError, LockOptionsError, LockStoreError, type StoreOperation } from '../../provider/errors.js';
import { messageOf } from '../sql/error-text.js';

/** The numbers of the server's errors that we tell apart. */
const NUMBERS = {
  tableExists: 1050,
  columnExists: 1060,
  indexExists: 1061,
  duplicateKey: 1062,
  noTable: 1146,
  noDatabase: 1049,
  noDatabaseChosen: 1046,
  noColumn: 1054,
  noIndex: 1176,
  illegalMix: 1267,
  illegalMixOfMore: 1271,
  recordChanged: 1020,
  lockWait: 1205,
  deadlock: 1213,
  nowait: 3572,
  noRight: 1142,
  noRightOnDatabase: 1044,
  noRightOnColumn: 1143,
  readOnly: 1290,
  readOnlyTransaction: 1792,
  unknownZone: 1298,
  tooManyPrepared: 1461,
  notPrepared: 1243,
  notPreparable: 1295,
  interrupted: 1317,
  timedOut: 1969,
  timedOutMysql: 3024,
} as const;

/** The number of a server's error; 0 for any other, such as one of the network. */
function numberOf(error: unknown): number {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return 0;
  const { errno } = error;
  // Clients number their own errors elsewhere.
  return (errno >= 1_000 && errno < 2_000) || (errno >= 3_000 && errno < 5_000) ? errno : 0;
}

const isOneOf = (error: unknown, ...numbers: readonly number[]): boolean => numbers.includes(numberOf(error));

/** The transaction had to give way to another one, and was undone. */
export function isGivenWay(error: unknown): boolean {
  return isOneOf(error, NUMBERS.deadlock, NUMBERS.recordChanged);
}

/** Somebody has locked what we would have had to wait for, or has inserted the same key. Nothing was written. */
export function isTakenByOthers(error: unknown): boolean {
  return isOneOf(error, NUMBERS.lockWait, NUMBERS.nowait, NUMBERS.duplicateKey);
}

/** The row was changed after the transaction's first read. */
export function isStaleRead(error: unknown): boolean {
  return isOneOf(error, NUMBERS.recordChanged);
}

/** The table is not as it was found before. */
export function isOtherTable(error: unknown): boolean {
  return isOneOf(
    error,
    NUMBERS.noTable,
    NUMBERS.noColumn,
    NUMBERS.noIndex,
    // Its columns have another collation now.
    NUMBERS.illegalMix,
    NUMBERS.illegalMixOfMore,
  );
}

/** Another process made the same table, column or index at the same time. */
export function isMadeByOthers(error: unknown): boolean {
  return isOneOf(error, NUMBERS.tableExists, NUMBERS.columnExists, NUMBERS.indexExists);
}

/** The server has no room for another prepared statement, or a proxy has lost one. Nothing was executed. */
export function isNotPrepared(error: unknown): boolean {
  return isOneOf(error, NUMBERS.tooManyPrepared, NUMBERS.notPrepared, NUMBERS.notPreparable);
}

/** Whether the connection can be used again after this error. */
export function isSound(error: unknown): boolean {
  const isFatal = error instanceof Error && 'fatal' in error && error.fatal === true;
  return numberOf(error) !== 0 && !isFatal;
}

/** The connection has a transaction open, which is not ours, or begins one with each statement. */
export class OpenTransaction extends Error {
  constructor() {
    super('the connection has an open transaction, or autocommit is off');
  }
}

/** Why a table or a server can not hold locks: found by us, not by the server. */
export class Unfit extends Error {}

export class MissingTable extends Error {}

export interface Place {
  readonly operation: StoreOperation;
  readonly key?: string | undefined;
  /** As people write it, without the quotes of SQL. */
  readonly table: string;
}

/** The error for callers: what was asked, what was found, what to do. Errors of ours go through as they are. */
export function asStoreError(error: unknown, place: Place): unknown {
  if (isLockError(error)) return error;
  const { operation, key, table } = place;
  const asked = key === undefined ? operation : `${operation} of ${JSON.stringify(key)}`;
  if (isOneOf(error, NUMBERS.unknownZone)) {
    return new LockOptionsError(
      `${asked}: the server does not know the time zone (${textOf(error)}). Load its zone tables ` +
        '(mariadb-tzinfo-to-sql, mysql_tzinfo_to_sql), or give sessionTimeZone as an offset such as +01:00.',
      { key, cause: error },
    );
  }
  const cause = error instanceof GaveUp ? error.cause : error;
  const message = `${asked} failed on table ${JSON.stringify(table)}: ${explain(error)}`;
  return new LockStoreError(message, { operation, key, cause });
}

const MIGRATE =
  'Make it with the command `joblatch migrate` or the function `migrateMysql()`, or say `autoMigrate: true`; ' +
  'and is it the right database?';

const ALL_LENT = 'A pool of which the caller holds all connections has none for joblatch.';

function explain(error: unknown): string {
  if (error instanceof GaveUp) {
    return (
      'no answer yet when the caller gave up. Is the server up, is a connection free, and has nobody the table ' +
      `locked (alter table)? ${ALL_LENT}`
    );
  }
  if (error instanceof OpenTransaction) {
    return (
      `${error.message}, and a rollback would take a lock back that somebody already relies on. Give joblatch a ` +
      'pool of connections with autocommit on, or a connection of its own.'
    );
  }
  const found = textOf(error);
  if (error instanceof Unfit) return `${found}.`;
  if (error instanceof MissingTable) return `${found}. ${MIGRATE}`;
  switch (numberOf(error)) {
    case NUMBERS.noTable:
    case NUMBERS.noColumn:
      return `${found}. ${MIGRATE}`;
    case NUMBERS.noDatabaseChosen:
      return `${found}. Name the database in the connection, or as \`schema\`.`;
    case NUMBERS.noRight:
    case NUMBERS.noRightOnDatabase:
    case NUMBERS.noRightOnColumn:
      return `${found}. joblatch needs SELECT, INSERT and UPDATE on the table, DELETE to purge, CREATE, ALTER and INDEX to migrate.`;
    case NUMBERS.readOnly:
    case NUMBERS.readOnlyTransaction:
      return `${found}. Is this a replica? Locks are written: connect to the primary.`;
    case NUMBERS.lockWait:
    case NUMBERS.nowait:
      return `somebody else keeps the record or the table locked (${found}). Is a transaction left open, or does a guard hold it?`;
    case NUMBERS.deadlock:
    case NUMBERS.recordChanged:
      return `other transactions were in the way (${found}). Try again.`;
    case NUMBERS.interrupted:
    case NUMBERS.timedOut:
    case NUMBERS.timedOutMysql:
      return `${found}. Is max_statement_time or max_execution_time too short?`;
    default:
      return NO_CONNECTION.test(found) ? `${found}. ${ALL_LENT}` : `${found}.`;
  }
}

/** A pool of mariadb that has waited for long enough; one of mysql2 that does not wait, or has too many waiting. */
const NO_CONNECTION = /^(pool timeout|No connections available|Queue limit reached)/;

/** What the server said, without the statement and its values that a client adds; and why, where the client knows. */
function textOf(error: unknown): string {
  const said = error instanceof Error && 'sqlMessage' in error ? error.sqlMessage : undefined;
  const text = oneLine(typeof said === 'string' && said !== '' ? said : messageOf(error));
  const reason = error instanceof Error && error.cause !== undefined ? textOf(error.cause) : '';
  return text.includes(reason) ? text : `${text}: ${reason}`;
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ').replace(/\.$/, '');
}
