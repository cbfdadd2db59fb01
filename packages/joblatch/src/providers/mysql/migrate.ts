import {
  checkMigrateOptions,
  checkMigrationSqlOptions,
  type MysqlMigrateOptions,
  type MysqlMigrationSqlOptions,
} from './options.js';
import { allStatements } from './schema.js';
import { Session } from './session.js';

/**
 * Makes the table of the locks, or adds to ShedLock's the columns and the index that it lacks; its own four columns are
 * left as they are, and Java goes on to use them. Does nothing, and needs no rights for it, where nothing is
 * missing. The database has to be there.
 *
 * @returns the statements that were needed
 * @throws LockStoreError if the table can not be made, or can not hold locks
 */
export async function migrateMysql(options: MysqlMigrateOptions): Promise<readonly string[]> {
  const session = new Session(checkMigrateOptions(options));
  try {
    return await session.migrate();
  } finally {
    session.close();
  }
}

/**
 * The same as SQL, for those who run their own migrations. For MariaDB it makes the table if it is not there and adds
 * what is missing if it is, so it may be run any number of times; for MySQL, which has no `add column if not
 * exists`, it only makes the table.
 */
export function mysqlMigrationSql(options: MysqlMigrationSqlOptions = {}): string {
  const { names, dialect } = checkMigrationSqlOptions(options);
  return allStatements(names, dialect)
    .map((statement) => `${statement};\n`)
    .join('');
}
