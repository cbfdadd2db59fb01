import { type LockProvider, nodeRuntime } from 'joblatch';
import { migratePostgres, postgresProvider } from 'joblatch/postgres';
import { afterAll, beforeAll, describe } from 'vitest';
import {
  CLIENT_NAMES,
  type ClientName,
  moduleUrl,
  noClients,
  openPglite,
  openPostgres,
} from '../support/postgres-clients.js';
import { behindTheBack, describeWithPostgres, home, keepsTheContract } from '../support/postgres-server.ts';
import { beginInPglite, transactions } from '../support/postgres-transactions.ts';
import { skipAll } from '../support/skip-all.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

/** A host whose wall clock is wrong. (A process with a wrong clock: postgres-clocks.test.ts.) */
const skewed = (ms: number) => ({ ...nodeRuntime, wall: () => Date.now() + ms });

/** A single connection does not come back by itself. */
const RECONNECTS: readonly ClientName[] = ['pg Pool', 'postgres.js'];

for (const name of CLIENT_NAMES) {
  describeWithPostgres(`PostgreSQL through ${name} keeps the contract`, (server) => {
    const at = home(server);
    const table = at.freshTable();
    let proxy: TcpProxy;
    beforeAll(async () => {
      await migratePostgres({ pool: at.console, table });
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
        open: () => openPostgres(name, throughProxy(), { table }),
        openSkewed: (ms) => openPostgres(name, at.url, { table, runtime: skewed(ms) }),
        ...behindTheBack(at, () => table, 'now()'),
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

describe('PGlite keeps the contract', () => {
  if (noClients !== undefined) return skipAll('PGlite', noClients);
  let pglite: Awaited<ReturnType<typeof openPglite>>;
  beforeAll(async () => {
    pglite = await openPglite();
  }, 60_000);
  afterAll(() => pglite.close());
  const open = (): LockProvider => postgresProvider({ pglite, autoMigrate: true });
  keepsTheContract(
    {
      open,
      deleteRecord: async (key) => {
        await pglite.exec(`delete from shedlock where name = '${key}'`);
      },
      // It has one connection, and nobody else is served while a transaction is open.
      oneWriter: true,
      beginTransaction: () => beginInPglite(pglite),
      notBegun: async () => ({ transaction: pglite, rollback: async () => {} }),
      writeOldRecord: async (key) => {
        await pglite.exec(
          `insert into shedlock (name, lock_until, locked_at, locked_by) values ('${key}', now() - interval '1 day', now() - interval '1 day 1 second', 'old')`,
        );
      },
    },
    // One process, one connection, and the clock of the host.
    [
      'noSlots',
      'multiProcess',
      'serverClock',
      'openSkewed',
      'obstruct',
      'interrupt',
      'moduleUrl',
      'manyWriters',
    ],
  );
});
