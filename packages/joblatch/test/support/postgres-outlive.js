// An application with a pool and nothing else: no listener for errors, nothing that keeps it alive.
// node postgres-outlive.js URL. Does what it is told by lines on its input, and ends by itself when told so.

import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { createLocks } from 'joblatch';
import { postgresProvider } from 'joblatch/postgres';

const require = createRequire(new URL('../../../../drivers/', import.meta.url));
const { Pool } = require('pg');

const pool = new Pool({ connectionString: process.argv[2] });
const provider = postgresProvider({ pool, autoMigrate: true });
const locks = createLocks({ provider, storeTimeout: 1_000 });
// Not the pool: that has no listener. Else joblatch would warn that the release failed.
locks.on('error', () => {});
const lock = await locks.acquire('outlive', { lease: 60_000 });
console.log('held');

const commands = createInterface({ input: process.stdin });
commands.on('line', async (line) => {
  if (line === 'attempt') {
    const outcome = await locks.tryAcquire('outlive').then(
      (taken) => (taken ? 'taken' : 'refused'),
      (error) => error.code,
    );
    console.log(outcome);
  } else {
    commands.close();
    process.stdin.unref();
    console.log(await lock.release().then(String, (error) => error.code));
    await locks.close();
    await pool.end();
  }
});
process.on('exit', (code) => console.log(`exit ${code}`));
await once(commands, 'close');
