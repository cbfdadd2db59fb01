import { nodeRuntime } from 'joblatch';
import { migrateMysql } from 'joblatch/mysql';
import { afterAll, beforeAll } from 'vitest';
import { type ClientName, moduleUrl, openMysql } from '../support/mysql-clients.js';
import { behindTheBack, describeWithMariadb, home, keepsTheContract } from '../support/mysql-server.ts';
import { transactions } from '../support/mysql-transactions.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

/** A host whose wall clock is wrong. */
const skewed = (ms: number) => ({ ...nodeRuntime, wall: () => Date.now() + ms });

/** (The pool with callbacks has the pool with promises inside.) */
const CLIENTS: readonly ClientName[] = [
  'mysql2 pool',
  'mysql2 connection',
  'mariadb pool',
  'mariadb connection',
];
/** A single connection does not come back by itself. */
const RECONNECTS: readonly ClientName[] = ['mysql2 pool', 'mariadb pool'];

for (const name of CLIENTS) {
  describeWithMariadb(`MariaDB through ${name} keeps the contract`, (server) => {
    const at = home(server);
    const table = at.freshTable();
    let proxy: TcpProxy;
    beforeAll(async () => {
      await migrateMysql({ pool: at.console, table });
      proxy = await TcpProxy.to(at.url);
    });
    afterAll(() => proxy.cut());
    const throughProxy = (): string => {
      const url = new URL(at.url);
      url.port = new URL(proxy.url).port;
      return url.href;
    };
    const reconnects = RECONNECTS.includes(name);
    keepsTheContract(
      {
        open: () => openMysql(name, throughProxy(), { table }),
        openSkewed: (ms) => openMysql(name, at.url, { table, runtime: skewed(ms) }),
        ...behindTheBack(at, () => table),
        ...transactions(name, () => at.url),
        ...(reconnects && {
          interrupt: async () => {
            await proxy.cut();
            return () => proxy.restore();
          },
        }),
        moduleUrl: moduleUrl(name, at.url, table),
      },
      ['noSlots', ...(reconnects ? [] : (['interrupt'] as const))],
    );
  });
}
