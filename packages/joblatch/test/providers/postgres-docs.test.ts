import { testSnippets } from '../../../../test/support/snippet-tests.js';
import { snippetsOf } from '../../../../test/support/snippets.js';
import { describeWithPostgres, home } from '../support/postgres-server.ts';

const PAGE = 'docs/postgres.md';

describeWithPostgres(`PostgreSQL: ${PAGE}`, (server) => {
  const at = home(server);
  testSnippets(snippetsOf(PAGE), () => ({ DATABASE_URL: at.url }));
});
