import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, test } from 'vitest';
import { DRIVER_NAMES, loadDriver, type OpenHandle } from './sqlite-handles.js';

export interface SqliteTestDriver {
  /** With the major version, where several are tested. */
  readonly name: string;
  readonly open: OpenHandle;
  /** Why it can not be had under this Node. */
  readonly reason?: string;
}

export const sqliteDrivers: readonly SqliteTestDriver[] = DRIVER_NAMES.map((name) => {
  try {
    return { name, open: loadDriver(name) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const open = (): never => {
      throw error;
    };
    return { name, open, reason };
  }
});

/** Describes something once for each driver; for one that can not be had, a skipped test says why. */
export function describePerDriver(what: string, body: (driver: SqliteTestDriver) => void): void {
  for (const driver of sqliteDrivers) {
    describe(`${driver.name}: ${what}`, () => {
      if (driver.reason === undefined) return body(driver);
      console.warn(`skipped, ${driver.name}: ${driver.reason}`);
      test.skip(`not here: ${driver.reason}`, () => {});
    });
  }
}

/** A folder for the files of one test file, removed at its end. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'joblatch-sqlite-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

let files = 0;

export function freshFile(folder: string): string {
  files += 1;
  return join(folder, `${files}.db`);
}

const HOLD = fileURLToPath(new URL('./hold-sqlite.js', import.meta.url));

/**
 * Lets another process keep a write transaction open; resolves when it has begun. `released` resolves to the
 * instant just after its end.
 */
export async function holdWriteLock(
  driver: string,
  path: string,
  ms: number,
  kind: 'immediate' | 'exclusive' = 'immediate',
): Promise<{ readonly released: Promise<number>; kill(): void }> {
  const child = fork(HOLD, [driver, path, String(ms), kind], { stdio: 'ignore' });
  await once(child, 'message');
  return { released: once(child, 'message').then(([at]) => at as number), kill: () => child.kill() };
}
