import type { ContractOptions } from 'joblatch/testing';
import { type ClientName, closeClient, openClient, type TestConnection } from './mysql-clients.js';

/** For the contract: each transaction has a connection of its own. */
export function transactions(
  name: ClientName,
  url: () => string,
  setUp: () => string | undefined = () => undefined,
): Required<Pick<ContractOptions, 'beginTransaction' | 'notBegun'>> {
  const client: ClientName = name.startsWith('mysql2') ? 'mysql2 connection' : 'mariadb connection';
  const open = async () => (await openClient(client, url(), { setUp: setUp() })) as TestConnection;
  return {
    beginTransaction: async () => {
      const connection = await open();
      await connection.query('start transaction');
      const ends = (how: string) => async (): Promise<void> => {
        try {
          await connection.query(how);
        } finally {
          await closeClient(client, connection);
        }
      };
      return { transaction: connection, commit: ends('commit'), rollback: ends('rollback') };
    },
    notBegun: async () => {
      const connection = await open();
      return { transaction: connection, rollback: () => closeClient(client, connection) };
    },
  };
}
