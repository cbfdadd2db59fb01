// One of several processes that take a key of a file that nobody has opened yet, at the same instant:
// node first-taker.js DRIVER PATH START TAKERS. Sends its results.

import { openSqlite } from './open-sqlite.js';

const [driver, path, start, takers] = process.argv.slice(2);
setTimeout(async () => {
  const provider = openSqlite(driver, path);
  const owners = Array.from({ length: Number(takers) }, (_, i) => `${process.pid}:${i}`);
  const results = await Promise.allSettled(
    owners.map((owner) => provider.acquire({ key: 'first', owner, leaseMs: 60_000 })),
  );
  await provider.close();
  process.send(
    results.map((r) => (r.status === 'rejected' ? r.reason.message : r.value.ok ? 'won' : r.value.reason)),
    () => process.exit(),
  );
}, Number(start) - Date.now());
