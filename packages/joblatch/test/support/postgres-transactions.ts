import type { ContractOptions, ContractTransaction } from 'joblatch/testing';
import {
  type ClientName,
  closeClient,
  openClient,
  type openPglite,
  type PgRows,
  type TestClients,
} from './postgres-clients.js';

export const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const;
export type Isolation = (typeof ISOLATIONS)[number];

/** A transaction of the application, through whatever client. */
export interface TestTransaction extends ContractTransaction {
  query(sql: string, values?: (string | null)[]): Promise<Record<string, unknown>[]>;
}

/** Begins on a connection of the pool; without an isolation level, with the default one. */
export async function beginInPool(
  pool: TestClients['pg Pool'],
  isolation?: Isolation,
): Promise<TestTransaction> {
  const client = await pool.connect();
  try {
    return { ...(await beginOn(client, isolation)), ...ending(client, (broken) => client.release(broken)) };
  } catch (error) {
    client.release(true);
    throw error;
  }
}

type PgConnection = PgRows & TestClients['pg Client'];

async function beginOn(
  client: Pick<PgConnection, 'query'>,
  isolation: Isolation | undefined,
): Promise<Pick<TestTransaction, 'transaction' | 'query'>> {
  await client.query(begin(isolation));
  return { transaction: client, query: async (sql, values) => (await client.query(sql, values)).rows };
}

const begin = (isolation: Isolation | undefined): string =>
  isolation === undefined ? 'begin' : `begin isolation level ${isolation}`;

function ending(
  client: Pick<PgConnection, 'query'>,
  close: (broken: boolean) => Promise<void> | void,
): Pick<TestTransaction, 'commit' | 'rollback'> {
  const ends = (how: string) => async (): Promise<void> => {
    let broken = true;
    try {
      await client.query(how);
      broken = false;
    } finally {
      await close(broken);
    }
  };
  return { commit: ends('commit'), rollback: ends('rollback') };
}

/** What `sql.begin` hands over, as long as the transaction lasts. */
async function beginInPostgresJs(
  sql: TestClients['postgres.js'],
  isolation: Isolation | undefined,
): Promise<TestTransaction> {
  let end: (rollback: boolean) => void = () => {};
  const ended = new Promise<boolean>((resolve) => {
    end = resolve;
  });
  const rolledBack = new Error('rolled back by the test');
  return new Promise((resolve, reject) => {
    const run = sql.begin(isolation === undefined ? '' : `isolation level ${isolation}`, async (tx) => {
      resolve({
        transaction: tx,
        query: async (text, values) => [
          ...((await tx.unsafe(text, values)) as unknown as Record<string, unknown>[]),
        ],
        commit: async () => {
          end(false);
          await run;
        },
        rollback: async () => {
          end(true);
          await run.catch(() => {});
        },
      });
      if (await ended) throw rolledBack;
    });
    run.catch(reject);
  });
}

/** The only one of a PGlite: what its `transaction()` hands over. */
export async function beginInPglite(
  pglite: Awaited<ReturnType<typeof openPglite>>,
): Promise<ContractTransaction> {
  let end: (how: 'commit' | 'rollback') => void = () => {};
  const ended = new Promise<'commit' | 'rollback'>((resolve) => {
    end = resolve;
  });
  return new Promise((resolve, reject) => {
    const run = pglite.transaction(async (tx) => {
      const ends = (how: 'commit' | 'rollback') => async (): Promise<void> => {
        end(how);
        await run;
      };
      resolve({ transaction: tx, commit: ends('commit'), rollback: ends('rollback') });
      if ((await ended) === 'rollback') await tx.rollback();
    });
    run.catch(reject);
  });
}

/** For the contract: each transaction has a client of its own. */
export function transactions(
  name: ClientName,
  url: () => string,
  isolation: () => Isolation | undefined = () => undefined,
): Required<Pick<ContractOptions, 'beginTransaction' | 'notBegun'>> {
  return {
    beginTransaction: async () => {
      if (name === 'postgres.js') {
        const sql = await openClient('postgres.js', url(), { max: 1 });
        const tx = await beginInPostgresJs(sql, isolation());
        return closing(tx, () => closeClient('postgres.js', sql));
      }
      const pool = await openClient('pg Pool', url(), { max: 1 });
      return closing(await beginInPool(pool, isolation()), () => closeClient('pg Pool', pool));
    },
    notBegun: async () => {
      if (name === 'postgres.js') {
        const sql = await openClient('postgres.js', url(), { max: 1 });
        return { transaction: sql, rollback: () => closeClient('postgres.js', sql) };
      }
      const client = await openClient('pg Client', url());
      return { transaction: client, rollback: () => closeClient('pg Client', client) };
    },
  };
}

function closing(tx: TestTransaction, close: () => Promise<void>): TestTransaction {
  const then = (end: () => Promise<void>) => async (): Promise<void> => {
    try {
      await end();
    } finally {
      await close();
    }
  };
  return { ...tx, commit: then(tx.commit), rollback: then(tx.rollback) };
}
