import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { root, type Snippet } from './snippets.js';

/** Each snippet as a test: it is JavaScript, and prints what the page says, beside the clients in drivers/. */
export function testSnippets(snippets: readonly Snippet[], variables: () => Record<string, string>): void {
  const scratch = mkdtempSync(join(root, 'drivers/.snippets-'));
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  test.each(snippets.map((snippet) => [snippet.line, snippet] as const))(
    'line %i prints what the page says',
    async (line, { language, code, output }) => {
      expect(language).toBe('js');
      const file = join(scratch, `${line}.mjs`);
      writeFileSync(file, code);
      const env = { ...process.env, ...variables() };
      const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout: 20_000 });
      expect(stdout).toBe(output);
    },
  );
}
