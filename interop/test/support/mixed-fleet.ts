import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { Java } from './java.ts';
import type { Setting, SharedStore } from './stores.ts';

const EACH = 150;
/** JOBLATCH_INTEROP_RUNS=10 asks for more. */
const RUNS = Number(process.env.JOBLATCH_INTEROP_RUNS ?? 1);

const incrementer = fileURLToPath(new URL('incrementer.js', import.meta.url));

async function incrementInNode({ moduleUrl }: SharedStore, key: string, file: string): Promise<number> {
  const parts = [incrementer, moduleUrl.href, key, String(EACH), file];
  const { stdout } = await promisify(execFile)(process.execPath, parts);
  return Number(stdout);
}

/** Two Java processes and two of Node count to 600 in a file that nothing but the lock protects. */
export function countsExactly(setting: Setting): void {
  for (let run = 1; run <= RUNS; run++) {
    test(`two JVMs and two Node processes: 600 increments, none lost (run ${run} of ${RUNS})`, async () => {
      const { count, refusals } = await mixedFleet(setting, ['counter', 'counter', 'counter', 'counter']);
      console.log(
        `${setting.name}: refused ${refusals.slice(0, 2)} times in Java, ${refusals.slice(2)} in Node`,
      );
      expect(count).toBe(4 * EACH);
      // Each met others.
      for (const number of refusals) expect(number).toBeGreaterThan(0);
    }, 120_000);
  }
}

/** What shows that the counter does need the lock. */
export function countsWrongWithoutCommonLock(setting: Setting): void {
  test('each process with a lock of its own: increments are lost', async () => {
    const { count } = await mixedFleet(setting, ['a', 'b', 'c', 'd']);
    expect(count).toBeLessThan(4 * EACH);
  }, 120_000);
}

async function mixedFleet(
  setting: Setting,
  [java1, java2, node1, node2]: readonly [string, string, string, string],
): Promise<{ count: number; refusals: number[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'joblatch-interop-'));
  const file = join(folder, 'counter');
  writeFileSync(file, '0');
  const store = await setting.make();
  const [far, near] = [new Java(setting.zone), new Java('UTC')];
  try {
    const [first, second] = [await far.open(store.java), await near.open(store.java)];
    const refusals = await Promise.all([
      first.increment(java1, EACH, file),
      second.increment(java2, EACH, file),
      incrementInNode(store, node1, file),
      incrementInNode(store, node2, file),
    ]);
    return { count: Number(readFileSync(file, 'utf8')), refusals };
  } finally {
    await Promise.all([far.close(), near.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}
