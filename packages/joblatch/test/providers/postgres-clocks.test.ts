import { execFile, execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { postgresProvider } from 'joblatch/postgres';
import { expect, test } from 'vitest';
import { describeWithPostgres, home } from '../support/postgres-server.ts';
import { skipAll } from '../support/skip-all.ts';

const SKEWED = fileURLToPath(new URL('../support/postgres-skewed.js', import.meta.url));
const OFFSETS_S = [-300, 0, 300];
const ROUNDS = 60;
const MINUTE = 60_000;

const NO_FAKETIME = ((): string | undefined => {
  try {
    execFileSync('faketime', ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'faketime is not on this machine; on Debian: apt-get install faketime';
  }
})();

interface Report {
  readonly now: number;
  readonly slots: number[];
  readonly skipped: number;
  readonly named: { ok: boolean; reason?: string };
  readonly held: { ok: boolean };
}

describeWithPostgres('PostgreSQL: hosts whose clocks are minutes off', (server) => {
  if (NO_FAKETIME !== undefined) return skipAll('wrong clocks', NO_FAKETIME);
  const at = home(server);

  test('run each slot of a period once, and none refuses or admits what another would not', async () => {
    const table = await at.madeTable();
    const provider = postgresProvider({ pool: at.console, table });
    expect(await provider.acquire({ key: 'held', owner: 'test', leaseMs: 5 * MINUTE })).toMatchObject({
      ok: true,
    });
    const started = Date.now();
    const reports = await Promise.all(
      OFFSETS_S.map(async (offset): Promise<Report> => {
        const { stdout } = await promisify(execFile)(
          'faketime',
          [
            '-f',
            `${offset < 0 ? '' : '+'}${offset}s`,
            process.execPath,
            SKEWED,
            at.url,
            table,
            String(ROUNDS),
          ],
          // Else libfaketime moves the monotonic clock too, and the test would show nothing.
          {
            env: { ...process.env, FAKETIME_DONT_FAKE_MONOTONIC: '1', DONT_FAKE_MONOTONIC: '1' },
            timeout: 60_000,
          },
        );
        return JSON.parse(stdout) as Report;
      }),
    );
    const ended = Date.now();
    // Their clocks were wrong indeed.
    for (const [i, { now }] of reports.entries())
      expect(Math.abs(now - ended - (OFFSETS_S[i] as number) * 1_000)).toBeLessThan(MINUTE);
    const slots = reports.flatMap((report) => report.slots);
    expect(slots.length).toBeGreaterThan(1);
    expect(new Set(slots).size).toBe(slots.length);
    for (const slot of slots) {
      expect(slot).toBeGreaterThanOrEqual(started - 1_000);
      expect(slot).toBeLessThanOrEqual(ended);
    }
    expect(reports.reduce((sum, { skipped }) => sum + skipped, 0)).toBeGreaterThan(slots.length);
    expect(reports.map(({ held }) => held.ok)).toEqual([false, false, false]);
    // A slot of the past can still be had; one that lies minutes ahead can not.
    expect(reports.map(({ named }) => named.ok)).toEqual([true, true, false]);
  }, 90_000);
});
