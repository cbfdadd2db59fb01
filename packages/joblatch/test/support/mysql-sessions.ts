import { nodeRuntime } from 'joblatch';
import { migrateMysql } from 'joblatch/mysql';
import type { ContractOptions } from 'joblatch/testing';
import { type ClientName, moduleUrl, openMysql } from './mysql-clients.js';
import { behindTheBack, type Home, shedlockTable } from './mysql-server.ts';
import { transactions } from './mysql-transactions.ts';
import { PRAGUE } from './mysql-zones.ts';

const ZONES = ['-05:00', '+05:00', PRAGUE, '+00:00'];
export const ISOLATIONS = ['READ-COMMITTED', 'REPEATABLE-READ', 'SERIALIZABLE'] as const;
export const CLIENTS: readonly ClientName[] = ['mysql2 pool', 'mariadb pool'];

/** What each session is told as it begins: the zones side by side. */
export const setUpsOf = (isolation: string): string[] =>
  ZONES.map((zone) => `set time_zone = '${zone}', tx_isolation = '${isolation}'`);

export const TABLES = {
  ours: async (at: Home, table: string) => void (await migrateMysql({ pool: at.console, table })),
  'ShedLock, TIMESTAMP, completed': async (at: Home, table: string) => {
    await at.console.query(shedlockTable(table, 'timestamp(3)'));
    await migrateMysql({ pool: at.console, table });
  },
  'ShedLock, DATETIME, completed': async (at: Home, table: string) => {
    await at.console.query(shedlockTable(table, 'datetime(3)'));
    await migrateMysql({ pool: at.console, table });
  },
  'ShedLock, TIMESTAMP': async (at: Home, table: string) =>
    void (await at.console.query(shedlockTable(table, 'timestamp(3)'))),
} as const;

/** Each client that is opened, and each process, sets its sessions up in another way. */
export function optionsFor(
  name: ClientName,
  at: Home,
  table: string,
  setUps: readonly string[],
): ContractOptions {
  let opened = 0;
  const nextSetUp = (): string | undefined => {
    opened += 1;
    return setUps[opened % setUps.length];
  };
  const open = (runtime = nodeRuntime) =>
    openMysql(name, at.url, { table, runtime, clientOptions: { setUp: nextSetUp() } });
  return {
    open: () => open(),
    openSkewed: (ms) => open({ ...nodeRuntime, wall: () => Date.now() + ms }),
    ...behindTheBack(at, () => table),
    ...transactions(name, () => at.url, nextSetUp),
    moduleUrl: moduleUrl(name, at.url, table, setUps),
  };
}
