// One of several instances whose clocks differ: node postgres-skewed.js URL TABLE ROUNDS
// Runs a job once a second, by the clock of the database, and tells each slot that it ran; then how late its
// own clock is.

import { createLocks } from 'joblatch';
import { openPostgres } from './postgres-clients.js';

const [url, table, rounds] = process.argv.slice(2);
const provider = await openPostgres('pg Pool', url, { table });
const locks = createLocks({ provider });
const job = locks.job({ name: 'tick', lockAtMostFor: '10s', oncePer: '1s' }, ({ slot }) => slot);
const outcomes = [];
for (let i = 0; i < Number(rounds); i += 1) {
  outcomes.push(await job());
  await new Promise((resolve) => setTimeout(resolve, 50));
}
// A slot that the schedule of this host names.
const named = await provider.acquire({
  key: `named-${process.pid}`,
  owner: 'o',
  leaseMs: 1_000,
  slot: Date.now(),
});
const held = await provider.acquire({ key: 'held', owner: 'o', leaseMs: 60_000 });
await locks.close();
await provider.close();
process.stdout.write(
  JSON.stringify({
    now: Date.now(),
    slots: outcomes.filter(({ status }) => status === 'ran').map(({ value }) => value),
    skipped: outcomes.filter(({ status }) => status === 'skipped').length,
    named,
    held,
  }),
);
