import assert from 'node:assert/strict';
import type { AcquireRequest, LockProvider } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import { LONG_LEASE_MS, type Scene, type Taken } from './scene.js';
import { storeSecond } from './store-time.js';

const TAKERS = 50;
const CLIENTS = 5;
const CONTENDERS = 8;
const ROUNDS = 25;
/** Much longer than all rounds take, in real time: a contender that waits this long waits in vain. */
const PATIENCE_MS = 60_000;

/** Many at once. */
export const contending: readonly CaseDefinition[] = [
  define('fifty first takers at once, one client: one winner, no error', [], async (s) => {
    await race(s, s.key(), [s.client]);
  }),

  define('fifty first takers at once, several clients: one winner, no error', [], async (s) => {
    await race(s, s.key(), await several(s));
  }),

  define('fifty takers of a key that ran out: one winner', [], async (s) => {
    const key = s.key();
    await s.outlast(await s.take(key, { leaseMs: s.leaseMs }));
    await race(s, key, await several(s));
  }),

  define('fifty takers of a key that was released: one winner', [], async (s) => {
    const key = s.key();
    await s.released(await s.take(key));
    await race(s, key, await several(s));
  }),

  define('fifty takers of one slot: one winner, and nobody after it', ['slots'], async (s) => {
    const key = s.key();
    const slot = await storeSecond(s);
    const winner = await race(s, key, await several(s), { slot });
    await s.released(winner);
    await s.refused(key, { reason: 'slot', request: { slot } });
  }),

  define('a holder renews while others try to take the key: never lost, never taken', [], async (s) => {
    const key = s.key();
    const holder = await s.take(key);
    const clients = await several(s);
    await Promise.all([
      ...clients.map((client) => s.refused(key, { client })),
      ...Array.from({ length: 10 }, () => s.renewed(holder, LONG_LEASE_MS)),
      ...clients.map((client) => s.refused(key, { client })),
    ]);
    await s.released(holder);
  }),

  define('one of several releases at once answers true', [], async (s) => {
    const taken = await s.take(s.key());
    const answers = await Promise.all(Array.from({ length: 10 }, () => s.release(taken)));
    const trues = answers.filter((answer) => answer).length;
    assert.equal(trues, 1, `Expected one of 10 releases to answer true, found ${trues}.`);
  }),

  define('eight contenders on two keys: an unprotected counter under the lock stays exact', [], async (s) => {
    const clients = await several(s);
    const counters = ['one', 'other'].map((label) => ({ key: s.key(label), count: 0, token: 0 }));
    let refusals = 0;
    const contend = async (counter: (typeof counters)[number], index: number): Promise<void> => {
      const client = clients[index % clients.length] as LockProvider;
      for (let round = 0; round < ROUNDS; round += 1) {
        const giveUpAt = s.runtime.monotonic() + PATIENCE_MS;
        let taken = await s.attempt(counter.key, {}, client);
        while (!('owner' in taken)) {
          refusals += 1;
          assert.ok(
            s.runtime.monotonic() < giveUpAt,
            `Expected a turn within ${PATIENCE_MS} ms, found none.`,
          );
          await s.sleep(s.runtime.random() * 4);
          taken = await s.attempt(counter.key, {}, client);
        }
        const read = counter.count;
        if (s.abilities.fencing) {
          assert.ok(
            taken.token > counter.token,
            `Expected more than token ${counter.token}, found ${taken.token}.`,
          );
        }
        counter.token = taken.token;
        await s.sleep(s.runtime.random() < 0.5 ? 0 : 1);
        counter.count = read + 1;
        await s.released(taken);
      }
    };
    await Promise.all(
      counters.flatMap((c) => Array.from({ length: CONTENDERS }, (_, index) => contend(c, index))),
    );
    for (const { count } of counters) {
      assert.equal(count, CONTENDERS * ROUNDS, `Expected a count of ${CONTENDERS * ROUNDS}, found ${count}.`);
    }
    assert.ok(refusals > 0, 'Expected contenders to get in each other’s way, found no refusal.');
    s.note(`${CONTENDERS * ROUNDS} rounds on each key, ${refusals} refusals`);
  }),
];

async function several(s: Scene): Promise<LockProvider[]> {
  return Promise.all(Array.from({ length: CLIENTS }, () => s.open()));
}

/** All try at once; one wins, and the others are refused, never failed. */
async function race(
  s: Scene,
  key: string,
  clients: readonly LockProvider[],
  request: Partial<AcquireRequest> = {},
): Promise<Taken> {
  const attempts = Array.from({ length: TAKERS }, (_, i) =>
    s.attempt(key, request, clients[i % clients.length]),
  );
  const results = await Promise.all(attempts);
  const winners = results.filter((result) => 'owner' in result);
  assert.equal(winners.length, 1, `Expected one winner of ${TAKERS} takers, found ${winners.length}.`);
  const winner = winners[0] as Taken;
  if (request.slot === undefined) await s.refused(key);
  return winner;
}
