import { GaveUp } from '../../provider/abandoning.js';
import { isLockError, LockOptionsError, LockStoreError, type StoreOperation } from '../../provider/errors.js';
import { messageOf } from '../sql/error-text.js';

/** The SQLSTATEs that we tell apart. */
const STATES = {
  lockNotAvailable: '55P03',
  serializationFailure: '40001',
  deadlock: '40P01',
  undefinedTable: '42P01',
  undefinedColumn: '42703',
  undefinedSchema: '3F000',
  noUniqueKey: '42P10',
  noRight: '42501',
  readOnly: '25006',
  failedTransaction: '25P02',
  duplicateKey: '23505',
  duplicateTable: '42P07',
  duplicateColumn: '42701',
  duplicateType: '42710',
  untranslatable: '22P05',
  badEncoding: '22021',
  cancelled: '57014',
  noSuchStatement: '26000',
  duplicateStatement: '42P05',
  protocolViolation: '08P01',
} as const;

/** The SQLSTATE of a server's error; '' for any other, such as one of the network. */
function stateOf(error: unknown): string {
  if (!(error instanceof Error) || !('code' in error)) return '';
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : '';
}

const isOneOf = (error: unknown, ...states: readonly string[]): boolean => states.includes(stateOf(error));

/**
 * The transaction had to give way to another one, and was undone: under REPEATABLE READ and SERIALIZABLE the
 * way in which the server says that somebody else was faster.
 */
export function isGivenWay(error: unknown): boolean {
  return isOneOf(error, STATES.serializationFailure, STATES.deadlock);
}

/** What we would have had to wait for was not let go in time. */
export function isLockedByOthers(error: unknown): boolean {
  return isOneOf(error, STATES.lockNotAvailable);
}

/** The table is not as it was found before. */
export function isOtherTable(error: unknown): boolean {
  return isOneOf(
    error,
    STATES.undefinedTable,
    STATES.undefinedColumn,
    STATES.undefinedSchema,
    STATES.noUniqueKey,
  );
}

/** Another process made the same table or column at the same time. */
export function isMadeByOthers(error: unknown): boolean {
  // A table brings a type of its name: which of them collides, and where, is chance.
  return isOneOf(
    error,
    STATES.duplicateKey,
    STATES.duplicateTable,
    STATES.duplicateColumn,
    STATES.duplicateType,
  );
}

/**
 * A pooler led a prepared statement to a connection of the server where it is not known, or known already. That is
 * found before anything is executed, so the call can be sent again. (Poolers use the last of these for much else.)
 */
export function isNotPrepared(error: unknown): boolean {
  if (isOneOf(error, STATES.noSuchStatement, STATES.duplicateStatement)) return true;
  return isOneOf(error, STATES.protocolViolation) && /prepared statement/.test(messageOf(error));
}

/** Whether the connection can be used again after this error. */
export function isSound(error: unknown): boolean {
  // Class 57P: the server ends the connection. Class 08, or no SQLSTATE at all: it is gone.
  return stateOf(error) !== '' && !/^(57P|08)/.test(stateOf(error));
}

/** The connection has a transaction open, which is not ours. */
export class OpenTransaction extends Error {
  constructor() {
    super('the connection has an open transaction');
  }
}

/** Why a table can not hold locks: found by us, not by the server. */
export class UnfitTable extends Error {}

export class MissingTable extends Error {}

/** What decides is newer than all that the transaction can see. */
export class OldSnapshot extends Error {
  constructor() {
    super('the lock was taken after the snapshot of the transaction');
  }
}

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
  if (isOneOf(error, STATES.untranslatable, STATES.badEncoding)) {
    return new LockOptionsError(
      `${asked}: the key has a character that the encoding of this database does not have (${textOf(error)}). ` +
        'Use a database with encoding UTF8, or other keys.',
      { key, cause: error },
    );
  }
  const cause = error instanceof GaveUp ? error.cause : error;
  const message = `${asked} failed on PostgreSQL table ${JSON.stringify(table)}: ${explain(error, operation)}`;
  return new LockStoreError(message, { operation, key, cause });
}

const MIGRATE =
  'Make it with the command `joblatch migrate` or the function `migratePostgres()`, or say `autoMigrate: true`; ' +
  'and is it the right database, schema and search_path?';

function explain(error: unknown, operation: StoreOperation): string {
  return (operation === 'guard' && explainGuard(error)) || explainAny(error);
}

/** What is different in a transaction of the application. */
function explainGuard(error: unknown): string | undefined {
  const found = textOf(error);
  if (error instanceof OldSnapshot || isGivenWay(error)) {
    return (
      `the transaction can not see who has the lock (${found}). Roll it back; and call guard first under REPEATABLE READ ` +
      'and SERIALIZABLE, before anything that reads: from then on the transaction sees what was committed until then.'
    );
  }
  switch (stateOf(error)) {
    case STATES.failedTransaction:
      return `an earlier statement of the transaction has failed (${found}). Roll it back.`;
    case STATES.readOnly:
      return `${found}. The record is locked: that takes a transaction that may write, on the primary.`;
    case STATES.noRight:
      return `${found}. The role of the transaction needs SELECT and UPDATE on the table.`;
    case STATES.undefinedTable:
    case STATES.undefinedSchema:
      return `${found}. The search_path of the transaction may be another one: give the provider the \`schema\`.`;
    default:
      return undefined;
  }
}

function explainAny(error: unknown): string {
  if (error instanceof GaveUp) {
    return (
      'no answer yet when the caller gave up. Is the server up, and is a connection free? A pool of which the ' +
      'caller holds all connections has none for joblatch.'
    );
  }
  if (error instanceof OpenTransaction || isOneOf(error, STATES.failedTransaction)) {
    return (
      'the connection has an open transaction, and its rollback would take a lock back that somebody already ' +
      'relies on. Give joblatch a pool, or a connection of its own.'
    );
  }
  const found = textOf(error);
  if (error instanceof UnfitTable) return `${found}.`;
  if (error instanceof MissingTable) return `${found}. ${MIGRATE}`;
  switch (stateOf(error)) {
    case STATES.undefinedTable:
    case STATES.undefinedSchema:
    case STATES.undefinedColumn:
      return `${found}. ${MIGRATE}`;
    case STATES.noUniqueKey:
      return `${found}. The column of the names must be the primary key.`;
    case STATES.noRight:
      return `${found}. joblatch needs SELECT, INSERT and UPDATE on the table, DELETE to purge, CREATE to migrate.`;
    case STATES.readOnly:
      return `${found}. Is this a standby, a client with a transaction open, or default_transaction_read_only on? Locks are written: connect to the primary.`;
    case STATES.lockNotAvailable:
      return `somebody else keeps the record or the table locked (${found}). Is a transaction left open?`;
    case STATES.serializationFailure:
    case STATES.deadlock:
      return `other transactions were in the way, again and again (${found}). Try again.`;
    case STATES.cancelled:
      return `${found}. Is statement_timeout too short?`;
    default:
      return `${found}.`;
  }
}

function textOf(error: unknown): string {
  const text = messageOf(error);
  return text.replace(/\.$/, '');
}
