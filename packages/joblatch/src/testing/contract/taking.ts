import assert from 'node:assert/strict';
import { type CaseDefinition, define } from './case.js';
import { unchanged } from './records.js';
import { LONG_LEASE_MS } from './scene.js';
import { show } from './show.js';

/** Taking a key and being refused it. */
export const taking: readonly CaseDefinition[] = [
  define('a fresh key is granted, and a second taker is refused', [], async (s) => {
    const key = s.key();
    await s.take(key);
    await s.refused(key);
  }),

  define('a second client of the store is refused too', [], async (s) => {
    const key = s.key();
    await s.take(key);
    await s.refused(key, { client: await s.open() });
  }),

  define('the owner of a live grant is refused like anybody: a grant is not taken twice', [], async (s) => {
    const key = s.key();
    const { owner } = await s.take(key);
    await s.refused(key, { request: { owner } });
  }),

  define('a released key is granted again at once, ten times in a row', [], async (s) => {
    const key = s.key();
    for (let i = 0; i < 10; i += 1) {
      const taken = await s.take(key);
      await s.refused(key);
      await s.released(taken);
    }
  }),

  define('two keys are independent: what happens to one leaves the record of the other', [], async (s) => {
    const [one, other] = [s.key('one'), s.key('other')];
    await s.take(other);
    await unchanged(s, other, async () => {
      const taken = await s.take(one);
      await s.refused(one);
      await s.renewed(taken, LONG_LEASE_MS * 2);
      await s.released(taken);
      await s.take(one);
      await s.forceRelease(one);
    });
    await s.refused(other);
  }),

  define('a refusal writes nothing: owner, token and end stay', [], async (s) => {
    const key = s.key();
    await s.take(key, { leaseMs: LONG_LEASE_MS });
    await unchanged(s, key, async () => {
      await s.refused(key, { request: { leaseMs: LONG_LEASE_MS * 3 } });
      await s.refused(key, { request: { leaseMs: s.leaseMs } });
      await s.refused(key, { request: { minToken: 2 ** 52 } });
    });
  }),

  define('a refusal on a kept record writes nothing', [], async (s) => {
    const key = s.key();
    await s.released(await s.take(key), { keepMs: LONG_LEASE_MS });
    await unchanged(s, key, async () => {
      await s.refused(key, { request: { leaseMs: LONG_LEASE_MS * 3 } });
      await s.refused(key, { request: { leaseMs: s.leaseMs } });
    });
  }),

  define('the time left in a grant is the lease, less what has passed since', [], async (s) => {
    const { granted, sentAt, answeredAt } = await s.take(s.key(), { leaseMs: LONG_LEASE_MS });
    const least = LONG_LEASE_MS - (answeredAt - sentAt) - s.unitMs;
    assert.ok(
      granted.leftMs >= least,
      `Expected at least ${least} ms left of ${LONG_LEASE_MS}, found ${granted.leftMs}.`,
    );
  }),

  define('the time left in a refusal, where there is one, is that of the holder', [], async (s) => {
    const key = s.key();
    const { sentAt } = await s.take(key, { leaseMs: LONG_LEASE_MS });
    await s.pass(s.leaseMs);
    const { leftMs } = await s.refused(key, { request: { leaseMs: 1 } });
    if (leftMs === undefined) return s.note('a refusal does not say how long the lease still runs');
    const [least, most] = [
      LONG_LEASE_MS - (s.now() - sentAt) - s.unitMs,
      LONG_LEASE_MS - s.leaseMs + s.unitMs,
    ];
    assert.ok(leftMs >= least && leftMs <= most, `Expected ${least} to ${most} ms left, found ${leftMs}.`);
  }),

  define('a record that an earlier version left yesterday is taken over', ['writeOldRecord'], async (s) => {
    const key = s.key();
    await s.options.writeOldRecord?.(key);
    const taken = await s.take(key);
    await s.refused(key);
    await s.renewed(taken, LONG_LEASE_MS * 2);
    await s.released(taken);
    await s.released(await s.take(key));
  }),

  define(
    'a record deleted by hand while held blocks nobody, and its holder has lost',
    ['deleteRecord'],
    async (s) => {
      const key = s.key();
      const ousted = await s.take(key);
      await s.options.deleteRecord?.(key);
      await s.notRenewed(ousted);
      const next = await s.take(key);
      await s.notReleased(ousted);
      await s.refused(key);
      await s.released(next);
    },
  ),

  define('a record deleted by hand while free or kept blocks nobody', ['deleteRecord'], async (s) => {
    const key = s.key();
    await s.released(await s.take(key));
    await s.options.deleteRecord?.(key);
    await s.released(await s.take(key), { keepMs: LONG_LEASE_MS });
    await s.refused(key);
    await s.options.deleteRecord?.(key);
    await s.take(key);
  }),

  define('closing one client leaves the grants and the other clients alone', [], async (s) => {
    const key = s.key();
    const other = await s.options.open();
    const taken = await s.take(key, {}, other);
    await other.close?.();
    await s.refused(key);
    await s.released({ ...taken, client: s.client });
  }),

  define('abilities are five yeses or noes, and stay the same', [], async (s) => {
    const names = ['multiProcess', 'serverClock', 'fencing', 'slots', 'inspect'] as const;
    const again = await s.client.abilities();
    for (const name of names) {
      const found = s.abilities[name];
      assert.equal(
        typeof found,
        'boolean',
        `Expected ability ${name} to be true or false, found ${show(found)}.`,
      );
      assert.equal(again[name], found, `Expected ability ${name} to stay ${found}, found ${again[name]}.`);
    }
    assert.ok(s.client.name.length > 0, 'Expected the provider to have a name, found an empty one.');
  }),
];
