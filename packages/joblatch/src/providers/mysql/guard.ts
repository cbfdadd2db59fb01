import { LockOptionsError, LockStoreError } from '../../provider/errors.js';
import type { GuardRequest } from '../../provider/lock-provider.js';
import { createOwnerId, type Runtime } from '../../provider/runtime.js';
import { isOpenOn, type MysqlConnection, queryOf, type Reply, readReply, recognise } from './client.js';
import { isStaleRead } from './errors.js';
import { type Call, hex } from './statement.js';
import type { Statements } from './statements.js';

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
 * Locks the entry of the grant until the transaction ends. True if it is there: nobody has taken the key since, and
 * nobody can.
 */
export async function guardInside(
  connection: MysqlConnection,
  statements: Pick<Statements, 'guard' | 'limitIdle' | 'unlimitIdle'>,
  request: GuardRequest,
  runtime: Runtime,
): Promise<boolean> {
  try {
    // Together, and the limit first: a process may be paused between any two.
    const limited = limitIdle(connection, statements, request.leftMs, runtime);
    const guarded = ask(connection, statements.guard(request));
    const [{ rows }] = await Promise.all([guarded, limited]);
    const [row] = rows;
    if (row === undefined) return false;
    const [isOpen, isSeen] = JSON.parse(row) as readonly [number | null, number];
    if (isOpen === null ? await hasOpenTransaction(connection) : isOpen) {
      if (!isSeen) throw tooOld(request.key);
      return true;
    }
  } catch (error) {
    if (isStaleRead(error)) throw tooOld(request.key, error);
    throw error;
  }
  throw new LockOptionsError(
    'guard was given a connection with no transaction open, so there is nothing to guard. Begin one on it first.',
  );
}

/** Not prepared: the connection is the application's, and keeps nothing of ours. */
async function ask(connection: MysqlConnection, { text, values }: Call): Promise<Reply> {
  return readReply(await connection.query(queryOf(text), [...values]));
}

const LONGEST_LIMIT_S = 31_536_000;

/**
 * A holder that is paused in its transaction would keep its key until somebody ends it. So the server is told to
 * close the connection if nothing comes within what is left of the lease, and a second more. The setting is of the
 * session, not of the transaction: it is set back when that time has passed, which a process that lives is there to
 * do, before the limit hits anybody. One that is paused is not, and is cut off.
 */
async function limitIdle(
  connection: MysqlConnection,
  statements: Pick<Statements, 'limitIdle' | 'unlimitIdle'>,
  leftMs: number,
  runtime: Runtime,
): Promise<void> {
  const seconds = Math.min(LONGEST_LIMIT_S, Math.ceil(leftMs / 1_000) + 1);
  const id = hex(createOwnerId(runtime));
  const calls = statements.limitIdle(id, seconds);
  if (calls.length === 0) return;
  await Promise.all(calls.map((each) => ask(connection, each)));
  const restore = (): void => {
    // It may be closed by now, and then there is nothing to set.
    for (const each of statements.unlimitIdle(id, seconds)) ask(connection, each).catch(() => {});
  };
  runtime.setTimer(restore, Math.min(leftMs, seconds * 1_000), { background: true });
}

/** MySQL says so only with the answer to a statement that reads nothing. */
async function hasOpenTransaction(connection: MysqlConnection): Promise<boolean> {
  const answer: unknown = await connection.query(queryOf('do 0'));
  return isOpenOn(connection, answer);
}

function tooOld(key: string, cause?: unknown): LockStoreError {
  return new LockStoreError(
    `guard of ${JSON.stringify(key)}: the transaction has read before the lock was acquired, and sees everything as it was then. What it ` +
      'computes from that may be out of date. Roll back, and begin it after acquiring.',
    { operation: 'guard', key, cause },
  );
}
