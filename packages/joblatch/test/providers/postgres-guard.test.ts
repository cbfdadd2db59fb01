import { beforeAll } from 'vitest';
import { tellsTheGuardStory } from '../support/guard-story.ts';
import { guardedModule, openGuarded } from '../support/postgres-guarded.js';
import { describeWithPostgres, home } from '../support/postgres-server.ts';
import { ISOLATIONS } from '../support/postgres-transactions.ts';

describeWithPostgres('PostgreSQL: guarded transactions', (server) => {
  const at = home(server);
  const counters = 'counters';
  let options: Parameters<typeof openGuarded>[0];
  beforeAll(async () => {
    options = { url: at.url, table: await at.madeTable(), counters };
    await at.console.query(`create table ${counters} (name text primary key, n int not null)`);
  });
  tellsTheGuardStory({
    open: () => openGuarded(options),
    module: () => guardedModule(options),
    isolations: ISOLATIONS,
    // The other two let the first one commit, and fail the second.
    loses: ['read committed'],
  });
});
