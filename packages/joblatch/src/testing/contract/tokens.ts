import assert from 'node:assert/strict';
import { type CaseDefinition, define } from './case.js';
import { LONG_LEASE_MS, type Scene, type Taken } from './scene.js';
import { show } from './show.js';
import { storeSecond } from './store-time.js';

/** A token may run ahead of the clock (several stores agree on the largest), but not out of all proportion. */
const AHEAD_MS = 60_000;
const HOUR_US = 3_600_000_000;

/** Fencing tokens: greater for every later acquisition of a key, whatever became of the earlier ones. */
export const tokens: readonly CaseDefinition[] = [
  define(
    'tokens grow from one acquisition to the next, also within a millisecond',
    ['fencing'],
    async (s) => {
      const key = s.key();
      let last: Taken | undefined;
      for (let i = 0; i < 10; i += 1) {
        last = await takeGreater(s, key, last);
        await s.released(last);
      }
    },
  ),

  define('tokens grow after a lease ran out', ['fencing'], async (s) => {
    const key = s.key();
    const first = await s.take(key, { leaseMs: s.leaseMs });
    await s.outlast(first);
    await takeGreater(s, key, first);
  }),

  define('tokens grow after a kept record', ['fencing'], async (s) => {
    const key = s.key();
    const first = await s.take(key);
    await s.released(first, { keepMs: s.leaseMs });
    await s.passUntil(first.answeredAt + s.leaseMs + s.unitMs);
    await takeGreater(s, key, first);
  }),

  define('tokens grow after force, and the force itself moves the token', ['fencing'], async (s) => {
    const key = s.key();
    // Far ahead of the clock, so that only the record can make it grow.
    const first = await s.take(key, { minToken: (await s.take(s.key('other'))).token + HOUR_US });
    await s.forceRelease(key);
    const token = (await s.inspect(key))?.token;
    if (token !== undefined) {
      assert.ok(
        token > first.token,
        `Expected a token greater than ${first.token} after force, found ${token}.`,
      );
    }
    const next = await takeGreater(s, key, first);
    if (token !== undefined)
      assert.ok(next.token > token, `Expected more than ${token}, found ${next.token}.`);
  }),

  define('tokens grow after the record was deleted', ['fencing', 'deleteRecord'], async (s) => {
    const key = s.key();
    const first = await s.take(key);
    await s.options.deleteRecord?.(key);
    await s.pass(1 + s.unitMs);
    await takeGreater(s, key, first);
  }),

  define('tokens grow after the record was purged', ['fencing'], async (s) => {
    const key = s.key();
    const first = await s.take(key);
    await s.released(first);
    await s.pass(s.leaseMs);
    await s.answer('purge', s.client.purge({ idleMs: s.leaseMs / 2 }));
    await takeGreater(s, key, first);
  }),

  define('a raised token survives a purge', ['fencing'], async (s) => {
    const key = s.key();
    const first = await s.take(key, { minToken: (await s.take(s.key('other'))).token + HOUR_US });
    await s.released(first);
    await s.pass(s.leaseMs);
    await s.answer('purge', s.client.purge({ idleMs: s.leaseMs / 2 }));
    await takeGreater(s, key, first);
  }),

  define(
    'a token is at least the least that was asked for, and later ones grow from there',
    ['fencing'],
    async (s) => {
      const key = s.key();
      const minToken = (await s.take(s.key('other'))).token + HOUR_US;
      const first = await s.take(key, { minToken });
      assert.ok(first.token >= minToken, `Expected a token from ${minToken} up, found ${first.token}.`);
      await s.released(first);
      const second = await takeGreater(s, key, first);
      await s.released(second);
      // A least that was reached long ago changes nothing.
      const third = await takeGreater(s, key, second, 1);
      await s.released(third);
      await takeGreater(s, key, third, third.token);
    },
  ),

  define('a raised token survives an expiry', ['fencing'], async (s) => {
    const key = s.key();
    const minToken = (await s.take(s.key('other'))).token + HOUR_US;
    const first = await s.take(key, { minToken, leaseMs: s.leaseMs });
    await s.outlast(first);
    await takeGreater(s, key, first);
  }),

  define("the first token of a key is the store's clock in microseconds", ['fencing', 'slots'], async (s) => {
    const from = await storeSecond(s);
    const began = s.now();
    const { token } = await s.take(s.key());
    const to = from + 1_000 + Math.ceil(s.now() - began) + s.unitMs + AHEAD_MS;
    assert.ok(
      token >= from * 1_000 && token <= to * 1_000,
      `Expected the first token between ${from}000 and ${to}000, found ${token}.`,
    );
  }),

  define('inspect shows the token that was granted', ['fencing'], async (s) => {
    const { key, token } = await s.take(s.key());
    const found = (await s.inspect(key))?.token;
    assert.equal(found, token, `Expected token ${token} of ${show(key)}, found ${found}.`);
  }),
];

/** Takes a key and holds its token to be greater than that of the acquisition before. */
async function takeGreater(
  s: Scene,
  key: string,
  before: Taken | undefined,
  minToken?: number,
): Promise<Taken> {
  const taken = await s.take(key, {
    leaseMs: LONG_LEASE_MS,
    ...(minToken === undefined ? {} : { minToken }),
  });
  const least = before?.token ?? 0;
  assert.ok(
    taken.token > least,
    `Expected a token of ${show(key)} greater than ${least}, found ${taken.token}.`,
  );
  return taken;
}
