import assert from 'node:assert/strict';
import type { RenewRequest } from '../../provider/lock-provider.js';
import { type CaseDefinition, define } from './case.js';
import { endsAfter, unchanged } from './records.js';
import { LONG_LEASE_MS, pick, type Scene, type Taken } from './scene.js';

const MANY = 1_000;
/** As many attempts at a time as a pool of connections takes without a queue that outlasts a time-out. */
const AT_A_TIME = 50;

/** Moving the end of grants. */
export const renewing: readonly CaseDefinition[] = [
  define('a renewal counts the lease from now', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key, { leaseMs: s.leaseMs * 3 });
    await s.pass(s.leaseMs);
    const sentAt = s.now();
    await s.renewed(taken, LONG_LEASE_MS);
    await endsAfter(s, key, LONG_LEASE_MS, { sentAt, answeredAt: s.now() });
  }),

  define('three renewals in a row hold the key past its first lease', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key, { leaseMs: s.leaseMs * 2 });
    for (let i = 0; i < 3; i += 1) {
      await s.pass(s.leaseMs);
      await s.renewed(taken, s.leaseMs * 2);
    }
    await s.refused(key, { until: taken.liveUntil });
    await s.outlast(taken);
    await s.take(key);
  }),

  define('a renewal never moves the end back', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key, { leaseMs: LONG_LEASE_MS });
    await unchanged(s, key, () => s.renewed(taken, s.leaseMs));
    await s.pass(s.leaseMs * 2 + s.unitMs);
    await s.refused(key);
    await s.released(taken);
  }),

  define('at-least of a renewal counts from the acquisition', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key, { leaseMs: s.leaseMs * 4 });
    await s.pass(s.leaseMs * 2);
    await s.renewed(taken, s.leaseMs, { atLeastMs: LONG_LEASE_MS });
    await endsAfter(s, key, LONG_LEASE_MS, taken);
    await s.pass(s.leaseMs);
    // Still from the acquisition, not from the renewal before.
    await s.renewed(taken, s.leaseMs, { atLeastMs: LONG_LEASE_MS * 2 });
    await endsAfter(s, key, LONG_LEASE_MS * 2, taken);
  }),

  define('the latest of lease and at-least counts', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    const sentAt = s.now();
    await s.renewed(taken, LONG_LEASE_MS * 2, { atLeastMs: s.leaseMs });
    await endsAfter(s, key, LONG_LEASE_MS * 2, { sentAt, answeredAt: s.now() });
  }),

  define('a renewal leaves owner, token and slot as they are', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    const before = await s.inspect(key);
    await s.renewed(taken, LONG_LEASE_MS * 2);
    const after = await s.inspect(key);
    for (const field of ['state', 'owner', 'token', 'slot'] as const) {
      assert.equal(
        after?.[field],
        before?.[field],
        `Expected ${field} to stay ${before?.[field]}, found ${after?.[field]}.`,
      );
    }
  }),

  define('a renewal with the owner of another grant is lost and changes nothing', [], async (s) => {
    const [key, other] = [s.key('mine'), s.key('other')];
    const mine = await s.take(key);
    const stranger = await s.take(other);
    await unchanged(s, key, () => s.notRenewed({ ...stranger, key }, LONG_LEASE_MS * 2));
    await s.refused(key);
    await s.released(mine);
  }),

  define('a key that was never taken is not renewed into being', [], async (s) => {
    const taken = await s.take(s.key('real'));
    const never = { ...taken, key: s.key('never') };
    await s.notRenewed(never);
    assert.equal(
      await s.inspect(never.key),
      undefined,
      'Expected no record of a key never taken, found one.',
    );
    await s.take(never.key);
  }),

  define('renewing nothing answers nothing', [], async (s) => {
    const answers = await s.answer('renewMany of none', s.client.renewMany([]));
    assert.deepEqual([...answers], [], `Expected no answers, found ${answers.length}.`);
  }),

  define('one lost grant spoils no other, and answers come in the order of the requests', [], async (s) => {
    const taken = await takeMany(s, 7);
    await s.released(taken[1] as Taken);
    await s.released(taken[4] as Taken, { keepMs: LONG_LEASE_MS });
    await s.forceRelease((taken[5] as Taken).key);
    const requests = taken.map((t): RenewRequest => ({ ...pick(t), leaseMs: LONG_LEASE_MS * 2 })).reverse();
    const expected = ['ok', 'lost', 'lost', 'ok', 'ok', 'lost', 'ok'];
    const answers = await s.renewMany(requests);
    assert.deepEqual([...answers], expected, `Expected ${expected}, found ${answers}.`);
  }),

  define('each grant of one call gets its own lease', [], async (s) => {
    const taken = await takeMany(s, 4);
    const sentAt = s.now();
    await s.renewMany(taken.map((t, i) => ({ ...pick(t), leaseMs: LONG_LEASE_MS * (i + 2) })));
    const answeredAt = s.now();
    for (const [i, { key }] of taken.entries()) {
      await endsAfter(s, key, LONG_LEASE_MS * (i + 2), { sentAt, answeredAt });
    }
  }),

  define('a grant named twice in one call is answered twice, and the later end counts', [], async (s) => {
    const [a, b] = (await takeMany(s, 2)) as [Taken, Taken];
    await s.released(b);
    const sentAt = s.now();
    const answers = await s.renewMany([
      { ...pick(a), leaseMs: LONG_LEASE_MS * 3 },
      { ...pick(b), leaseMs: LONG_LEASE_MS },
      { ...pick(a), leaseMs: s.leaseMs },
      { ...pick(b), leaseMs: LONG_LEASE_MS },
    ]);
    const expected = ['ok', 'lost', 'ok', 'lost'];
    assert.deepEqual([...answers], expected, `Expected ${expected}, found ${answers}.`);
    await endsAfter(s, a.key, LONG_LEASE_MS * 3, { sentAt, answeredAt: s.now() });
  }),

  define('the same key with its live and with a former owner: each is answered for itself', [], async (s) => {
    const key = s.key();
    const former = await s.take(key);
    await s.released(former);
    const live = await s.take(key);
    const answers = await s.renewMany(
      [former, live, former].map((t) => ({ ...pick(t), leaseMs: LONG_LEASE_MS })),
    );
    const expected = ['lost', 'ok', 'lost'];
    assert.deepEqual([...answers], expected, `Expected ${expected}, found ${answers}.`);
  }),

  define('a thousand grants are renewed by one call', [], async (s) => {
    const many = s.options.limits?.manyGrants ?? MANY;
    const taken = await takeMany(s, many);
    const lost = new Set([0, Math.floor(many / 2), many - 1]);
    for (const index of lost) await s.released(taken[index] as Taken);
    const sentAt = s.now();
    const answers = await s.renewMany(taken.map((t) => ({ ...pick(t), leaseMs: LONG_LEASE_MS * 2 })));
    const answeredAt = s.now();
    const wrong = answers.findIndex((answer, index) => answer !== (lost.has(index) ? 'lost' : 'ok'));
    assert.equal(
      wrong,
      -1,
      `Expected all of ${many} but ${[...lost]} renewed, found answer ${wrong}: ${answers[wrong]}.`,
    );
    for (const index of [1, Math.floor(many / 2) + 1, many - 2]) {
      await endsAfter(s, (taken[index] as Taken).key, LONG_LEASE_MS * 2, { sentAt, answeredAt });
    }
  }),
];

async function takeMany(s: Scene, count: number): Promise<Taken[]> {
  const taken: Taken[] = [];
  while (taken.length < count) {
    const next = Math.min(AT_A_TIME, count - taken.length);
    const first = taken.length;
    taken.push(
      ...(await Promise.all(Array.from({ length: next }, (_, i) => s.take(s.key(`many-${first + i}`))))),
    );
  }
  return taken;
}
