import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { root, snippetsOf } from '../../../../test/support/snippets.js';
import { describeWithMariadb, home } from '../support/mysql-server.ts';

const PAGE = 'docs/mysql.md';

describeWithMariadb(`MariaDB: ${PAGE}`, (server) => {
  const at = home(server);
  // Beside the clients, so that they are found by name.
  const scratch = mkdtempSync(join(root, 'drivers/.snippets-'));
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  test.each(snippetsOf(PAGE).map((snippet) => [snippet.line, snippet] as const))(
    'line %i prints what the page says',
    async (line, { language, code, output }) => {
      expect(language).toBe('js');
      const file = join(scratch, `${line}.mjs`);
      writeFileSync(file, code);
      // Both clients understand this scheme; mariadb understands no other.
      const env = { ...process.env, DATABASE_URL: at.url.replace(/^mysql:/, 'mariadb:') };
      const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout: 20_000 });
      expect(stdout).toBe(output);
    },
  );
});
