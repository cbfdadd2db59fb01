import { beforeAll } from 'vitest';
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
