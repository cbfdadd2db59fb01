import { expect, test } from 'vitest';
import { openSqlite } from '../support/open-sqlite.js';
import { describePerDriver, freshFile, scratchFolder } from '../support/sqlite-drivers.ts';

const folder = scratchFolder();

describePerDriver('a caller that awaits call after call', ({ name }) => {
  test('does not keep timers, and so renewals, from running', async () => {
    const provider = openSqlite(name, freshFile(folder));
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const until = performance.now() + 300;
    // The driver answers at once, so nothing in here ever leaves the microtasks by itself.
    for (let i = 0; performance.now() < until; i += 1) {
      await provider.acquire({ key: `k${i}`, owner: `o${i}`, leaseMs: 10_000 });
    }
    clearInterval(timer);
    expect(turns).toBeGreaterThan(2);
    await provider.close?.();
  });
});
