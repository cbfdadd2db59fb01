export type {
  PgClient,
  Pglite,
  PgliteOptions,
  PgPool,
  PgPoolClient,
  PgQuery,
  PostgresJs,
  PostgresJsQuery,
} from './client.js';
export { migratePostgres, postgresMigrationSql } from './migrate.js';
export type {
  PostgresClients,
  PostgresColumns,
  PostgresMigrateOptions,
  PostgresProviderOptions,
  PostgresTableOptions,
} from './options.js';
export { postgresProvider } from './provider.js';
