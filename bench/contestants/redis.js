import { randomUUID } from 'node:crypto';
import { redisProvider } from 'joblatch/redis';
import { HELD, HELD_FOR_MS, LEASE_MS, PREFIX } from '../keys.js';
import { createLocks, joblatch } from './joblatch.js';
import { mustBe } from './recording.js';

const DELETE_OWN =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/**
 * The contestants of one client of Redis.
 *
 * @param bare what is done by hand: `evalsha(sha, keys, args)`, `load(lua)`, `get(key)`, `setNx(key, value, ms)`,
 * `set(key, value, ms)`, `info(section)`, `keys(pattern)`, `unlink(keys)`, and `watch(work)`, which answers the
 * `[sha, keys, args]` of the scripts that `work` has run through the client
 */
export async function redisContestants(client, bare, peers) {
  // A run that was killed left its own.
  await removeOurs(bare);
  const provider = redisProvider({ client, keyPrefix: PREFIX });
  const ours = await joblatch(provider);
  const scripts = await scriptsOf(provider, bare);
  const deleteOwn = await bare.load(DELETE_OWN);
  const lockKey = (key) => `${PREFIX}:default:${key}`;
  const recordKey = (key) => `${PREFIX}-record:default:${key}`;
  let calls = 0;

  const take = async (key, owner) => {
    calls += 1;
    const args = scripts.acquire.args({ owner, lease: String(LEASE_MS), call: `hand.${calls}` });
    return (await bare.evalsha(scripts.acquire.sha, [lockKey(key), recordKey(key)], args)).split(' ');
  };
  const byHand = async (key) => {
    const owner = randomUUID();
    const [verdict, token] = await take(key, owner);
    if (verdict !== 'ok' || !(Number(token) > 0)) throw new Error(`by hand: ${verdict}`);
    calls += 1;
    const args = scripts.release.args({ owner, call: `hand.${calls}` });
    mustBe('yes', await bare.evalsha(scripts.release.sha, [lockKey(key), recordKey(key)], args), 'by hand');
  };
  const withoutToken = async (key) => {
    const owner = randomUUID();
    mustBe('OK', await bare.setNx(key, owner, LEASE_MS), 'SET NX');
    mustBe(1, await bare.evalsha(deleteOwn, [key], [owner]), 'delete');
  };

  // For the peers, and for what is done by hand.
  for (const key of [HELD, `mutex:${HELD}`, `${PREFIX}:read`]) await bare.set(key, 'somebody', HELD_FOR_MS);

  return {
    store: await describe(bare),
    counter: () => counter(bare),
    takers: [
      { name: 'the same scripts, by hand', kind: 'floor', token: true, run: byHand },
      ...ours.takers,
      { name: 'SET NX and delete, by hand', kind: 'reference', token: false, run: withoutToken },
      ...peers.map(({ name, pair }) => ({ name, kind: 'peer', token: false, run: pair })),
    ],
    losers: [
      {
        name: 'GET',
        kind: 'floor',
        run: async () => mustBe('somebody', await bare.get(`${PREFIX}:read`), 'GET'),
      },
      ...ours.losers,
      {
        name: 'the same script, by hand',
        kind: 'reference',
        run: async (key) => mustBe('held', (await take(key, randomUUID()))[0], 'by hand'),
      },
      {
        name: 'SET NX, by hand',
        kind: 'reference',
        run: async (key) => mustBe(null, await bare.setNx(key, randomUUID(), LEASE_MS), 'SET NX'),
      },
      ...peers.map(({ name, lose }) => ({ name, kind: 'peer', run: lose })),
    ],
    async close() {
      await ours.close();
      await removeOurs(bare);
    },
  };
}

async function removeOurs(bare) {
  for (const pattern of [`${PREFIX}*`, `mutex:${PREFIX}*`]) {
    const keys = await bare.keys(pattern);
    if (keys.length > 0) await bare.unlink(keys);
  }
}

/** The scripts and arguments that joblatch sends, with the places of what changes. */
async function scriptsOf(provider, bare) {
  const locks = createLocks({ provider });
  const key = `${PREFIX}:scripts`;
  // The first time it asks the server more than that.
  await (await locks.tryAcquire(key, { lease: LEASE_MS })).release();
  const once = async () => {
    let owner;
    const calls = await bare.watch(async () => {
      const lock = await locks.tryAcquire(key, { lease: LEASE_MS });
      owner = lock.owner;
      await lock.release();
    });
    mustBe(2, calls.length, 'scripts of a pair');
    return { owner, calls };
  };
  const { owner, calls } = await once();
  const again = await once();
  const [acquire, release] = calls.map(([sha, , args], i) => {
    // Beside the owner, only the id of the call is another one each time.
    const callAt = args.findIndex((arg, place) => arg !== owner && arg !== again.calls[i][2][place]);
    return {
      sha,
      args(values) {
        const filled = [...args];
        filled[args.indexOf(owner)] = values.owner;
        if (values.lease !== undefined) filled[args.indexOf(String(LEASE_MS))] = values.lease;
        filled[callAt] = values.call;
        return filled;
      },
    };
  });
  return { acquire, release };
}

async function describe(bare) {
  const info = await bare.info('server');
  const valkey = /^valkey_version:(\S+)/m.exec(info);
  return valkey ? `Valkey ${valkey[1]}` : `Redis ${/^redis_version:(\S+)/m.exec(info)[1]}`;
}

/** Counts the commands of the server, those inside of scripts too, and the changes of its data. */
async function counter(bare) {
  const before = await counts(bare);
  return async () => {
    const after = await counts(bare);
    const commands = [...after.commands]
      .map(([name, calls]) => [name, calls - (before.commands.get(name) ?? 0)])
      .filter(([name, calls]) => calls > 0 && name !== 'info');
    return {
      changes: after.changes - before.changes,
      commands: commands.map(([name, calls]) => `${name} ${calls}`).join(', '),
    };
  };
}

async function counts(bare) {
  const stats = await bare.info('commandstats');
  const [, changes] = /^rdb_changes_since_last_save:(\d+)/m.exec(await bare.info('persistence'));
  return {
    changes: Number(changes),
    commands: new Map(
      [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, calls]) => [name, Number(calls)]),
    ),
  };
}
