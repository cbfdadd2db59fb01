import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { root, type Snippet, snippetsOf } from './support/snippets.js';

// Inside the repository, so that imports by name are found.
const scratch = mkdtempSync(join(root, 'test/.snippets-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let folders = 0;
function folder(): string {
  folders += 1;
  const path = join(scratch, String(folders));
  mkdirSync(path);
  return path;
}

async function run(dir: string, file: string): Promise<string> {
  // A warning of Node itself (an experimental SQLite) is not the snippet's.
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: dir, timeout: 20_000 });
  return stdout;
}

describe.each([
  'README.md',
  'docs/fencing.md',
  'docs/jobs.md',
  'docs/locks.md',
  'docs/sqlite.md',
  'docs/testing.md',
])('%s', (page) => {
  const snippets = snippetsOf(page);
  const titled = snippets.map((snippet) => [`line ${snippet.line}`, snippet] as const);

  const printing = titled.filter(([, { language, output }]) => language === 'js' && output !== undefined);
  if (printing.length > 0) {
    test.each(printing)('%s prints what the page says', async (_line, { code, output }) => {
      const dir = folder();
      writeFileSync(join(dir, 'snippet.mjs'), code);
      expect(await run(dir, 'snippet.mjs')).toBe(output);
    });
  }

  const compiled = titled.filter(([, { language }]) => language === 'ts');
  if (compiled.length > 0) {
    test.each(compiled)('%s, compiled, prints what the page says', async (_line, { code, output }) => {
      const dir = folder();
      writeFileSync(join(dir, 'snippet.mts'), code);
      const tsc = join(root, 'node_modules/typescript/bin/tsc');
      const options = [
        '--strict',
        '--target',
        'es2022',
        '--module',
        'nodenext',
        '--lib',
        'es2023,esnext.disposable',
      ];
      execFileSync(process.execPath, [tsc, ...options, '--types', 'node', 'snippet.mts'], { cwd: dir });
      expect(await run(dir, 'snippet.mjs')).toBe(output);
    });
  }

  test('every snippet is run by some test', () => {
    const unknown = snippets.filter((snippet) => !isRunHere(snippet) && !RUN_BELOW.has(nameOf(snippet)));
    expect(unknown.map(({ file, line, language }) => `${file}:${line} ${language}`)).toEqual([]);
  });
});

function isRunHere({ language, output }: Snippet): boolean {
  return language === 'ts' || (language === 'js' && output !== undefined);
}

/** The first line, which names the file or is the command. */
function nameOf({ code }: Snippet): string {
  return (code.split('\n')[0] as string).replace(/\s+#.*/, '');
}

const RUN_BELOW: ReadonlySet<string> = new Set([
  '// cleanup.js',
  '// settle.js',
  '// digest.js',
  // The demo has a test of its own, and this is the command that runs the tests.
  'npm ci && npm run demo',
  'npx joblatch run --store sqlite:locks.db --name nightly-report --at-most-for 10m --once-per 1d -- echo "the report"',
]);

function readme(name: string): string {
  const found = snippetsOf('README.md').find((snippet) => nameOf(snippet) === name);
  if (found === undefined) throw new Error(`The README has no snippet ${name}.`);
  return found.code;
}

describe('README.md, in three processes at once', () => {
  // What a line is about: its slot where it has one, else the second in which it ran.
  test.each([
    ['// cleanup.js', /^cleanup of (\S+) in process \d+$/],
    ['// settle.js', /^settled 2 for (\S+), fencing token \d{16}$/],
    ['// digest.js', /^digest at (\S+)\.\d{3}Z$/],
  ])('%s runs once a tick, and ends by itself', async (name, shape) => {
    const dir = folder();
    writeFileSync(join(dir, 'snippet.mjs'), readme(name));
    const lines: string[] = [];
    const errors: string[] = [];
    const processes = [1, 2, 3].map(() => spawn(process.execPath, ['snippet.mjs'], { cwd: dir }));
    for (const { stdout, stderr } of processes) {
      stdout.on('data', (chunk: Buffer) => lines.push(...chunk.toString().trim().split('\n')));
      stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString()));
    }
    const ended = processes.map((child) => new Promise((resolve) => child.once('exit', resolve)));
    const deadline = Date.now() + 20_000;
    while (lines.length < 4 && Date.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 100));
    for (const child of processes) child.kill('SIGTERM');
    const codes = await Promise.all(ended);

    expect(errors.filter((text) => !text.includes('ExperimentalWarning'))).toEqual([]);
    const ticks = lines.map((line) => shape.exec(line)?.[1]);
    expect(ticks.length).toBeGreaterThanOrEqual(4);
    expect(ticks).not.toContain(undefined);
    expect(new Set(ticks).size).toBe(ticks.length);
    // SIGTERM was handled: the pending work ended and the process with it.
    expect(codes).toEqual([0, 0, 0]);
  });
});

test('README.md, the command', async () => {
  const dir = folder();
  const code = readme(
    'npx joblatch run --store sqlite:locks.db --name nightly-report --at-most-for 10m --once-per 1d -- echo "the report"',
  );
  const lines = code
    .trim()
    .split('\n')
    .map((line) => line.replace(/^npx /, `${join(root, 'node_modules/.bin')}/`));
  const [runLine, showLine] = lines as [string, string];
  const sh = async (line: string): Promise<string> =>
    (await promisify(execFile)('sh', ['-c', line], { cwd: dir, timeout: 20_000 })).stdout;
  expect(await sh(runLine)).toBe('the report\n');
  expect(await sh(runLine)).toBe('');
  expect(await sh(showLine)).toMatch(/nightly-report/);
});
