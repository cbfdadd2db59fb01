import { testSnippets } from '../../../../test/support/snippet-tests.js';
import { snippetsOf } from '../../../../test/support/snippets.js';
import { describeWithMariadb, home } from '../support/mysql-server.ts';

const PAGE = 'docs/mysql.md';

describeWithMariadb(`MariaDB: ${PAGE}`, (server) => {
  const at = home(server);
  // Both clients understand this scheme; mariadb understands no other.
  testSnippets(snippetsOf(PAGE), () => ({ DATABASE_URL: at.url.replace(/^mysql:/, 'mariadb:') }));
});
