import {
  checkMigrateOptions,
  checkTableOptions,
  type PostgresMigrateOptions,
  type PostgresTableOptions,
} from './options.js';
import { allStatements } from './schema.js';
import { Session } from './session.js';

/**
 * Makes the table of the locks, or adds to ShedLock's the columns that it lacks; its own four are left as they are,
 * and Java goes on to use them. Does nothing, and needs no rights for it, where nothing is missing. The schema
 * has to be there.
 *
 * @returns the statements that were needed
 * @throws LockStoreError if the table can not be made, or can not hold locks
 */
export async function migratePostgres(options: PostgresMigrateOptions): Promise<readonly string[]> {
  const session = new Session(checkMigrateOptions(options));
  try {
    return await session.migrate();
  } finally {
    session.close();
  }
}

/**
 * The same as SQL, for those who run their own migrations: makes the table if it is not there and adds what
 * is missing if it is, so it may be run any number of times.
 */
export function postgresMigrationSql(options: PostgresTableOptions = {}): string {
  return allStatements(checkTableOptions(options))
    .map((statement) => `${statement};\n`)
    .join('');
}
