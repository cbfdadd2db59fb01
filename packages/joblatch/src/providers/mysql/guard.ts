import { LockOptionsError, LockStoreError } from '../../provider/errors.js';
import { isOpenOn, type MysqlConnection, queryOf, readReply, recognise } from './client.js';
import { isStaleRead } from './errors.js';
import type { Call } from './statement.js';

/** The connection that a transaction is open on. */
export function insideOf(transaction: object): MysqlConnection {
  const source = recognise(transaction);
  if (source?.kind === 'connection') return source.connection;
  throw new LockOptionsError(
    `guard was given ${source === undefined ? 'something else' : 'a pool'}. Accepted: the connection of mysql2 or mariadb on which ` +
      'the transaction is open (of a pool: what getConnection gave).',
  );
}

/**
 * Locks the entry of key and owner until the transaction ends. True if it is there: nobody has taken the key since, and
 * nobody can.
 */
export async function askInside(connection: MysqlConnection, { text, values }: Call): Promise<boolean> {
  // Not prepared: the connection is the application's, and keeps nothing of ours.
  try {
    const { rows } = readReply(await connection.query(queryOf(text), [...values]));
    const [row] = rows;
    if (row === undefined) return false;
    const [isOpen] = JSON.parse(row) as readonly [number | null];
    if (isOpen === null ? await hasOpenTransaction(connection) : isOpen) return true;
  } catch (error) {
    if (!isStaleRead(error)) throw error;
    throw new LockStoreError(
      'guard: the transaction has read before the lock was renewed or taken, so it can not be told which. Roll back and try again; ' +
        'with innodb_snapshot_isolation call guard first in the transaction.',
      { operation: 'guard', cause: error },
    );
  }
  throw new LockOptionsError(
    'guard was given a connection with no transaction open, so there is nothing to guard. Begin one on it first.',
  );
}

/** MySQL says so only with the answer to a statement that reads nothing. */
async function hasOpenTransaction(connection: MysqlConnection): Promise<boolean> {
  const answer: unknown = await connection.query(queryOf('do 0'));
  return isOpenOn(connection, answer);
}
