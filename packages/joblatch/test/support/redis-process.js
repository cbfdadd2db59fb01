// A process of its own with one client: `node redis-process.js <client> <url> <what>`. Prints JSON and must end by itself.

import { createLocks } from 'joblatch';
import { redisProvider } from 'joblatch/redis';
import { CLIENTS } from './redis-clients.js';

const [name, url, what] = process.argv.slice(2);
const kind = CLIENTS[name];
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const code = (error) => error.code ?? String(error);

if (what === 'clock') {
  // The host's clock is off, and so is everything that this process believes of the time.
  const client = await kind.open(url);
  const provider = redisProvider({ client });
  const now = Date.now();
  const held = await provider.acquire({ key: 'clock-held', owner: `o${process.pid}`, leaseMs: 60_000 });
  const once = await provider.acquire({
    key: 'clock-once',
    owner: `p${process.pid}`,
    leaseMs: 60_000,
    oncePerMs: 31 * 86_400_000,
  });
  const fresh = await provider.acquire({ key: `clock-${now}`, owner: 'o', leaseMs: 60_000 });
  say({ now, held, once, fresh });
  await kind.close(client);
} else {
  // A fleet member that finds its server gone while it holds a lock, and is told to end.
  const client = await kind.open(url);
  const locks = createLocks({ provider: redisProvider({ client }), storeTimeout: 3_000 });
  const errors = [];
  locks.on('error', ({ error }) => errors.push(code(error)));
  const lock = await locks.acquire(`exit-${process.pid}`);
  say({ held: lock.held });
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.stdin.destroy();
  const released = await lock.release().catch(code);
  const again = await locks.tryAcquire('other').catch(code);
  await locks.close().catch(code);
  await kind.close(client);
  say({ released, again: again === undefined ? 'refused' : again });
}
