import { POSTGRES_FORM, readPostgresUrl } from './postgres-url.js';
import { owning, type StoreKind } from './store-kind.js';

export const postgresStore: StoreKind = {
  forms: [`${POSTGRES_FORM}?table=…&schema=…&sslmode=…`],
  accepts: (url) => /^postgres(?:ql)?:/i.test(url),
  async open(url) {
    const { client, table } = readPostgresUrl(url);
    const [{ postgresProvider }, { postgresPool }] = await Promise.all([
      import('joblatch/postgres'),
      import('./postgres-client.js'),
    ]);
    const { it: pool, end } = postgresPool(client);
    return owning(postgresProvider({ pool, ...table }), end);
  },
  async migrate(url, print) {
    const { client, table } = readPostgresUrl(url);
    const { migratePostgres, postgresMigrationSql } = await import('joblatch/postgres');
    if (print) return { statements: [postgresMigrationSql(table).trimEnd()], note: '' };
    const { postgresPool } = await import('./postgres-client.js');
    const { it: pool, end } = postgresPool(client);
    try {
      const statements = await migratePostgres({ pool, ...table });
      const name = JSON.stringify([table.schema, table.table ?? 'shedlock'].filter(Boolean).join('.'));
      return { statements, note: `nothing to do: the table ${name} has all that joblatch needs` };
    } finally {
      await end();
    }
  },
  async examine(url) {
    const target = readPostgresUrl(url);
    const { examinePostgres } = await import('../doctor/postgres.js');
    return examinePostgres(target);
  },
};
