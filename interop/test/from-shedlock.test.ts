import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testSnippets } from '../../test/support/snippet-tests.js';
import { root, type Snippet, snippetsOf } from '../../test/support/snippets.js';
import { Java } from './support/java.ts';
import { describeShared, type Setting, type SharedStore } from './support/stores.ts';

const PAGE = 'docs/from-shedlock.md';
const snippets = snippetsOf(PAGE);
const about = (store: string): Snippet[] =>
  snippets.filter(({ language, code }) => language === 'js' && code.includes(`'joblatch/${store}'`));

/** With a Java process that runs `nightlyReport`. */
function prints(store: string, setting: Setting): void {
  const java = new Java(setting.zone);
  afterAll(() => java.close());
  let shared: SharedStore;
  beforeAll(async () => {
    shared = await setting.make(store === 'redis' ? 'prod' : 'shedlock');
    const shedlock = await java.open(shared.java);
    expect(await shedlock.lock('nightlyReport', 20_000)).toBeDefined();
  });
  const variables = () => ({ DATABASE_URL: shared.url, REDIS_URL: shared.url });
  testSnippets(about(store), variables);

  if (store === 'redis') return;
  const commands =
    snippets
      .find(({ language }) => language === 'sh')
      ?.code.trim()
      .split('\n') ?? [];
  test.each(commands)('%s', async (command) => {
    const PATH = [join(root, 'node_modules/.bin'), process.env.PATH].join(delimiter);
    const line = command.replace(/^npx /, '');
    // What doctor finds is told by its exit code, too; here it shall only be able to look.
    const ran = promisify(execFile)('sh', ['-c', line], {
      cwd: join(root, 'drivers'),
      env: { ...process.env, ...variables(), PATH },
      timeout: 20_000,
    });
    const { stdout } = await ran.catch((error: { code: number; stdout: string }) => error);
    expect(stdout).toMatch(command.includes('doctor') ? /shedlock/ : /fencing_token/);
  });
}

describe(PAGE, () => {
  test('its Java is what the tests run', () => {
    const source = readFileSync(
      `${root}/interop/java/src/main/java/dev/joblatch/interop/LockProviders.java`,
      'utf8',
    );
    const java = snippets.filter(({ language }) => language === 'java');
    expect(java).toHaveLength(2);
    for (const { code } of java) expect(source.replaceAll(/^ {4}/gm, '')).toContain(code);
  });

  test('each snippet is run by some test', () => {
    const known = [...about('postgres'), ...about('mysql'), ...about('redis')];
    const others = snippets.filter((snippet) => !known.includes(snippet));
    expect(known).toHaveLength(3);
    expect(others.map(({ language }) => language)).toEqual(['java', 'java', 'sh']);
  });

  describeShared.PostgreSQL((setting) => prints('postgres', setting), ["ShedLock's table, database time"]);
  describeShared.MariaDB((setting) => prints('mysql', setting), ["ShedLock's table, database time"]);
  describeShared.Redis((setting) => prints('redis', setting), ['safeUpdate']);
});
