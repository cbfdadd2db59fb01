import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));
const biome = join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome');

const REFUSED = [
  'export const at = Date.now();',
  'export const at = Date?.now();',
  "export const at = Date['now']();",
  'export const clock: () => number = Date.now;',
  'export const { now } = Date;',
  'export const at = Date();',
  'export const at = new Date();',
  'export const at = performance.now();',
  'export const from = performance.timeOrigin;',
  "export { performance } from 'node:perf_hooks';",
  'export const at = process.hrtime();',
  'export const at = process.hrtime.bigint();',
  "export { hrtime } from 'node:process';",
  'setTimeout(() => {}, 1);',
  'setInterval(() => {}, 1);',
  'setImmediate(() => {});',
  'globalThis.setTimeout(() => {}, 1);',
  "export { setTimeout } from 'node:timers';",
  "export { setTimeout } from 'node:timers/promises';",
  "export const timers = import('node:timers');",
  'export const signal = AbortSignal.timeout(1);',
  'export const chance = Math.random();',
  'export const { random } = Math;',
  'export const id = crypto.randomUUID();',
  "export { randomUUID } from 'node:crypto';",
];

const ALLOWED = [
  'export const at = new Date(0);',
  "export const at = Date.parse('2026-01-01T00:00:00Z');",
  'export const isDate = (value: unknown): boolean => value instanceof Date;',
  'export const whole = Math.floor(1.5);',
  'export const signal = AbortSignal.any([]);',
  'queueMicrotask(() => {});',
  'export const id = process.pid;',
  "export { hostname } from 'node:os';",
  "export { createHash } from 'node:crypto';",
];

describe('The Runtime rule', () => {
  let folder: string;
  /** Which files, named by folder and number of the line of code, the linter complained about. */
  let refused: Set<string>;

  beforeAll(async () => {
    // Linted in a scratch folder of the same shape, since a bad file in the real tree would break a build
    // that runs at the same time.
    folder = await mkdtemp(join(tmpdir(), 'joblatch-lint-'));
    const source = join(folder, 'packages', 'joblatch', 'src');
    await cp(join(root, 'biome.json'), join(folder, 'biome.json'));
    await cp(join(root, 'tools', 'lint'), join(folder, 'tools', 'lint'), { recursive: true });
    await mkdir(join(source, 'lock'), { recursive: true });
    await mkdir(join(source, 'provider'));
    await mkdir(join(folder, 'packages', 'joblatch', 'test'));
    for (const [index, code] of REFUSED.entries())
      await writeFile(join(source, 'lock', `refused-${index}.ts`), `${code}\n`);
    for (const [index, code] of ALLOWED.entries())
      await writeFile(join(source, 'lock', `allowed-${index}.ts`), `${code}\n`);
    await writeFile(join(source, 'provider', 'runtime.ts'), `${REFUSED[0]}\n`);
    await writeFile(join(folder, 'packages', 'joblatch', 'test', 'clock.ts'), `${REFUSED[0]}\n`);
    refused = await lint(folder);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each(REFUSED.map((code, index) => ({ code, index })))('refuses: $code', ({ index }) => {
    expect(refused).toContain(`refused-${index}.ts`);
  });

  it.each(ALLOWED.map((code, index) => ({ code, index })))('allows: $code', ({ index }) => {
    expect(refused).not.toContain(`allowed-${index}.ts`);
  });

  it('holds neither in the Runtime itself nor outside the library', () => {
    expect(refused).not.toContain('runtime.ts');
    expect(refused).not.toContain('clock.ts');
  });

  it('holds in the library as it is', async () => {
    expect([...(await lint(root, join(root, 'packages', 'joblatch', 'src')))]).toEqual([]);
  });
});

interface Report {
  readonly diagnostics: readonly {
    readonly category: string | null;
    readonly location: { readonly path: string };
  }[];
}

/** Biome's verdict, cut down to what the Runtime rule is made of. */
async function lint(cwd: string, path = '.'): Promise<Set<string>> {
  const args = [biome, 'lint', '--vcs-enabled=false', '--reporter=json', '--max-diagnostics=none', path];
  const { stdout } = await run(process.execPath, args, { cwd }).catch((failed) => failed);
  const report = JSON.parse(stdout) as Report;
  const ours = ['plugin', 'lint/style/noRestrictedGlobals', 'lint/style/noRestrictedImports'];
  return new Set(
    report.diagnostics
      .filter(({ category }) => category !== null && ours.includes(category))
      .map(({ location }) => location.path.split('/').pop() ?? ''),
  );
}
