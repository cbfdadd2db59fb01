import type { Client } from 'pg';
import { postgresClient } from '../stores/postgres-client.js';
import type { PostgresTarget } from '../stores/postgres-url.js';
import { type Finding, info, ok } from './finding.js';

/** How long the second connection may wait for the first: a pooler with one server connection never lets it in. */
const WAIT_MS = 1_000;

/**
 * Poolers do not say that they are there. But they answer the start of a connection themselves, and the number of
 * the server process that they name is not that of the process which then executes a statement.
 */
export async function examinePooler(client: Client, target: PostgresTarget): Promise<readonly Finding[]> {
  const code = 'pooler';
  const promised = (client as Client & { readonly processID?: number | null }).processID;
  const actual = await backendOf(client);
  if (promised === actual) return [ok(code, 'none: the connection leads to the server itself')];
  const mode = await modeOf(client, target, actual);
  return mode === 'session'
    ? [ok(code, 'there is one, and a client keeps its server connection (session mode)')]
    : [
        info(
          code,
          'there is one, and server connections change from one transaction to the next (transaction or statement mode)',
          'joblatch works through it: every step is one statement, prepared only where the pooler can do that, and no setting is left behind. With ' +
            'too few server connections attempts wait, and renewals with them',
          'leave room in default_pool_size for as many statements as run at once',
        ),
      ];
}

/**
 * A second client takes the server connection that was used last. If that is ours, and we then get another one, server
 * connections are handed around.
 */
async function modeOf(client: Client, target: PostgresTarget, first: number): Promise<'session' | 'shared'> {
  const { it: second, end } = postgresClient({ ...target.client, query_timeout: WAIT_MS });
  try {
    await second.connect();
    try {
      await second.query('begin');
    } catch (failure) {
      // Statement mode knows no transactions. Else the only server connection is ours, and stays so.
      return failure instanceof Error && /not allowed/.test(failure.message) ? 'shared' : 'session';
    }
    try {
      const theirs = await backendOf(second);
      return theirs === first || (await backendOf(client)) !== first ? 'shared' : 'session';
    } catch {
      return 'shared'; // The only server connection was ours, and is theirs now.
    }
  } finally {
    await end();
  }
}

async function backendOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return (rows as [{ pid: number }])[0].pid;
}
