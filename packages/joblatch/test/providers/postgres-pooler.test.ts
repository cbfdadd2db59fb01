import { migratePostgres } from 'joblatch/postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_NAMES, openClient, openPostgres } from '../support/postgres-clients.js';
import { noPgbouncer, startPgbouncer } from '../support/postgres-own-server.ts';
import { behindTheBack, describeWithPostgres, home, keepsTheContract } from '../support/postgres-server.ts';
import { transactions } from '../support/postgres-transactions.ts';
import { skipAll } from '../support/skip-all.ts';

for (const name of CLIENT_NAMES) {
  describeWithPostgres(
    `PostgreSQL through ${name} and pgbouncer in transaction mode keeps the contract`,
    (server) => {
      if (noPgbouncer !== undefined) return skipAll('pgbouncer', noPgbouncer);
      const at = home(server);
      // The pooler does not pass `options` on, so the table is in the schema that everybody has.
      const table = `joblatch_pooled_${process.pid}_${CLIENT_NAMES.indexOf(name)}`;
      let pooler: { url: string; stop(): Promise<void> };
      beforeAll(async () => {
        await migratePostgres({ pool: at.console, schema: 'public', table });
        pooler = await startPgbouncer(server);
      });
      afterAll(async () => {
        await at.console.query(`drop table public.${table}`);
        await pooler.stop();
      });
      keepsTheContract(
        {
          open: () => openPostgres(name, pooler.url, { table }),
          ...behindTheBack(at, () => `public.${table}`, 'now()'),
          ...transactions(name, () => pooler.url),
        },
        ['noSlots', 'openSkewed', 'interrupt', 'moduleUrl'],
      );

      test('and leaves nothing behind on its connections', async () => {
        const provider = await openPostgres(name, pooler.url, { table });
        const keys = Array.from({ length: 20 }, (_, i) => `key-${i}`);
        await Promise.all(keys.map((key) => provider.acquire({ key, owner: key, leaseMs: 60_000 })));
        await Promise.all(keys.map((key) => provider.release({ key, owner: key })));
        await provider.close?.();
        const pool = await openClient('pg Pool', pooler.url, { max: 3 });
        const looks = Array.from({ length: 12 }, () =>
          pool.query(
            "select current_setting('lock_timeout') as lock, current_setting('synchronous_commit') as sync, pg_sleep(0.05)::text as slept",
          ),
        );
        for (const { rows } of await Promise.all(looks))
          expect(rows).toEqual([{ lock: '0', sync: 'on', slept: '' }]);
        await pool.end();
      });
    },
  );
}
