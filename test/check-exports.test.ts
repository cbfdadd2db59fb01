import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { exportFaults } from '../scripts/check-exports.js';

const MAIN = { types: './dist/index.d.ts', default: './dist/index.js' };
const BUILT = ['dist/index.js', 'dist/index.d.ts', 'src/index.ts'];

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'joblatch-exports-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

function faultsOf(manifest: object, files: readonly string[]): string[] {
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'p', ...manifest }));
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), '');
  }
  return exportFaults(folder);
}

it('is content with a package whose exports and build agree', () => {
  expect(faultsOf({ exports: { '.': MAIN, './package.json': './package.json' } }, BUILT)).toEqual([]);
});

it.each([
  ['a file that is not there', { '.': MAIN }, BUILT.slice(1), 'there is no ./dist/index.js'],
  ['types that are not there', { '.': MAIN }, ['dist/index.js', 'src/index.ts'], 'no ./dist/index.d.ts'],
  ['types behind the code', { '.': { default: MAIN.default, types: MAIN.types } }, BUILT, 'in this order'],
  ['an index that is not exported', { '.': MAIN }, [...BUILT, 'src/sqlite/index.ts'], 'not exported'],
  ['a pattern', { '.': MAIN, './*': './dist/*.js' }, BUILT, 'name each path'],
  ['what is left of an old build', { '.': MAIN }, [...BUILT, 'dist/old.js'], 'dist/old.js has no source'],
])('finds %s', (_, exports, files, words) => {
  expect(faultsOf({ exports }, files)).toEqual([expect.stringContaining(words)]);
});

it('finds a command that a shell can not run', () => {
  const manifest = { bin: { p: './bin/p.js', q: './bin/q.js' }, exports: { '.': MAIN } };
  expect(faultsOf(manifest, [...BUILT, 'bin/p.js'])).toEqual([
    expect.stringContaining('./bin/p.js does not start with'),
    expect.stringContaining('there is no ./bin/q.js'),
  ]);
});
