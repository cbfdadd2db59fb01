import { MYSQL_FORM, readMysqlUrl } from './mysql-url.js';
import { owning, type StoreKind } from './store-kind.js';

export const mysqlStore: StoreKind = {
  forms: [`${MYSQL_FORM}?table=…&sessionTimeZone=…&sslmode=…, and mysql://`],
  accepts: (url) => /^(?:mysql|mariadb):/i.test(url),
  async open(url) {
    const target = readMysqlUrl(url);
    const [{ mysqlProvider }, { mysqlPool }] = await Promise.all([
      import('joblatch/mysql'),
      import('./mysql-client.js'),
    ]);
    const { it: pool, end } = await mysqlPool(target);
    return owning(mysqlProvider({ pool, ...target.table, ...target.zone }), end);
  },
  async migrate(url, print) {
    const target = readMysqlUrl(url);
    const { table, server } = target;
    const { migrateMysql, mysqlMigrationSql } = await import('joblatch/mysql');
    if (print) {
      const sql = mysqlMigrationSql({ ...table, server }).trimEnd();
      return { statements: [`${HINTS[server]}\n${sql}`], note: '' };
    }
    const { mysqlPool } = await import('./mysql-client.js');
    const { it: pool, end } = await mysqlPool(target);
    try {
      const statements = await migrateMysql({ pool, ...table });
      const name = JSON.stringify([table.schema, table.table ?? 'shedlock'].filter(Boolean).join('.'));
      return { statements, note: `nothing to do: the table ${name} has all that joblatch needs` };
    } finally {
      await end();
    }
  },
  async examine(url) {
    const target = readMysqlUrl(url);
    const { examineMysql } = await import('../doctor/mysql.js');
    return examineMysql(target);
  },
};

/** No server is asked for what is only printed, and the two need different statements. */
const HINTS = {
  mariadb: '-- For MariaDB. For MySQL, let the URL of the store begin with mysql://',
  mysql:
    '-- For MySQL. For MariaDB, let the URL of the store begin with mariadb://\n' +
    '-- A table that is there already is left as it is: joblatch migrate, without --print, adds what it lacks.',
};
