export type {
  MysqlCallbackClient,
  MysqlConnection,
  MysqlPool,
  MysqlPoolConnection,
  MysqlQuery,
} from './client.js';
export { migrateMysql, mysqlMigrationSql } from './migrate.js';
export type {
  MysqlClients,
  MysqlColumns,
  MysqlMigrateOptions,
  MysqlMigrationSqlOptions,
  MysqlProviderOptions,
  MysqlTableOptions,
} from './options.js';
export { mysqlProvider } from './provider.js';
