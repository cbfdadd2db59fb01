import { beforeAll } from 'vitest';
import type { ClientName } from '../support/mysql-clients.js';
import { describeWithMariadb, home, keepsTheContract } from '../support/mysql-server.ts';
import { type ISOLATIONS, optionsFor, setUpsOf, TABLES } from '../support/mysql-sessions.ts';
import { loadPrague } from '../support/mysql-zones.ts';

/** The whole contract in some combinations: each client and kind of shared table; our own is in mysql.test.ts. */
const WHOLE: readonly (readonly [ClientName, (typeof ISOLATIONS)[number], keyof typeof TABLES])[] = [
  ['mariadb pool', 'SERIALIZABLE', 'ShedLock, TIMESTAMP, completed'],
  ['mysql2 pool', 'READ-COMMITTED', 'ShedLock, DATETIME, completed'],
  ['mysql2 pool', 'REPEATABLE-READ', 'ShedLock, TIMESTAMP'],
];

/** Without the index of guards the row itself is locked, and a renewal waits; see mysql-table.test.ts. */
const IS_RENEWED = 'a guarded grant is renewed, and lives on after the transaction';

/** Its keys differ in case and accents only, which the collation of ShedLock's table takes for one. */
const FALLS_TOGETHER = 'all records are listed, sorted by the bytes of their keys';

for (const [name, isolation, kind] of WHOLE) {
  describeWithMariadb(`sessions of four zones, ${isolation}, through ${name}, table: ${kind}`, (server) => {
    const at = home(server);
    const table = at.freshTable();
    beforeAll(async () => {
      await loadPrague(at.console);
      await TABLES[kind](at, table);
    });
    const bare = kind === 'ShedLock, TIMESTAMP';
    keepsTheContract(
      optionsFor(name, at, table, setUpsOf(isolation)),
      ['interrupt', ...(bare ? (['fencing', 'slots'] as const) : (['noSlots'] as const))],
      FALLS_TOGETHER,
      bare ? [IS_RENEWED] : [],
    );
  });
}
