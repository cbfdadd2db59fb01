import { createLocks } from 'joblatch';
import { mysqlProvider } from 'joblatch/mysql';
import { beforeAll, expect, test } from 'vitest';
import { tellsTheGuardStory } from '../support/guard-story.ts';
import { guardedModule, openGuarded } from '../support/mysql-guarded.js';
import { describeWithMariadb, home } from '../support/mysql-server.ts';

for (const client of ['mysql2 pool', 'mariadb pool'] as const) {
  describeWithMariadb(`MariaDB: guarded transactions through ${client}`, (server) => {
    const at = home(server);
    const counters = 'counters';
    let options: Parameters<typeof openGuarded>[0];
    beforeAll(async () => {
      options = { client, url: at.url, table: await at.madeTable(), counters };
      await at.console.query(`create table ${counters} (name varchar(64) primary key, n int not null)`);
    });
    tellsTheGuardStory({
      open: () => openGuarded(options),
      module: () => guardedModule(options),
      isolations: ['read committed', 'repeatable read', 'serializable'],
      // Serializable reads lock what they have read: nobody else writes it, guard or not, while their process is stopped.
      stops: ['read committed', 'repeatable read'],
      // And two who have read meet in a deadlock, which undoes one.
      loses: ['read committed', 'repeatable read'],
    });
  });
}

describeWithMariadb('MariaDB: a transaction that is older than the lock', (server) => {
  const at = home(server);

  test.each([
    ['REPEATABLE READ', false],
    ['READ COMMITTED', true],
  ])('%s: what it has read before is relied on: %s', async (isolation, isFresh) => {
    const table = await at.madeTable();
    await at.console.query(`create table ${table}_stock (amount int)`);
    await at.console.query(`insert into ${table}_stock values (8)`);
    const locks = createLocks({ provider: mysqlProvider({ pool: at.console, table }) });
    const connection = await at.console.getConnection();
    await connection.query(`set transaction isolation level ${isolation}`);
    await connection.query('start transaction');
    await connection.query(`select * from ${table}_stock`);
    const lock = await locks.acquire('k');
    if (isFresh) await lock.guard(connection);
    else {
      await expect(lock.guard(connection)).rejects.toMatchObject({
        code: 'STORE',
        message: expect.stringContaining('has read before the lock was acquired'),
      });
      expect(lock.held).toBe(true);
    }
    await connection.query('rollback');
    await connection.query('start transaction');
    await connection.query(`select * from ${table}_stock`);
    await lock.extend('1m');
    await lock.guard(connection);
    await connection.query('commit');
    connection.release();
    await lock.release();
  });
});
