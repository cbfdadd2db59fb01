// Counts the files of joblatch that importing the core loads: a cold start is paid for by each of them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MOST = 12;

const folder = mkdtempSync(join(tmpdir(), 'joblatch-modules-'));
try {
  // V8's coverage names every script that was loaded, in every version of Node alike.
  const { status } = spawnSync(process.execPath, ['--input-type=module', '--eval', "import 'joblatch'"], {
    cwd: import.meta.dirname,
    env: { ...process.env, NODE_V8_COVERAGE: folder },
    stdio: 'inherit',
  });
  assert.equal(status, 0);
  const loaded = readdirSync(folder)
    .flatMap((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')).result)
    .map(({ url }) => url.split('/node_modules/joblatch/')[1])
    .filter((file) => file !== undefined)
    .sort();
  assert.ok(loaded.length > 0, 'no module of joblatch seen');
  assert.ok(
    loaded.length <= MOST,
    `the core loads ${loaded.length} modules, at most ${MOST} were meant:\n${loaded.join('\n')}`,
  );
  console.log(`the core loads ${loaded.length} modules`);
} finally {
  rmSync(folder, { recursive: true });
}
