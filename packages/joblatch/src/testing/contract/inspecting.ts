import assert from 'node:assert/strict';
import { type CaseDefinition, define } from './case.js';
import { assertFree, assertState, endsAfter } from './records.js';
import { LONG_LEASE_MS } from './scene.js';
import { show } from './show.js';

/** Reading records as they are. */
export const inspecting: readonly CaseDefinition[] = [
  define('a key never taken has no record', [], async (s) => {
    assert.equal(await s.inspect(s.key()), undefined, 'Expected no record of a key never taken, found one.');
  }),

  define('a live grant shows as held, with its owner, its end and its age', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.pass(s.leaseMs);
    const record = assertState(await s.inspect(key), 'held');
    assert.equal(
      record.owner ?? taken.owner,
      taken.owner,
      `Expected owner ${taken.owner}, found ${record.owner}.`,
    );
    await endsAfter(s, key, LONG_LEASE_MS, taken);
    const { acquiredAgoMs } = record;
    if (acquiredAgoMs === undefined) return;
    const most = s.now() - taken.sentAt + s.unitMs;
    assert.ok(
      acquiredAgoMs >= s.leaseMs - s.unitMs && acquiredAgoMs <= most,
      `Expected an age of ${s.leaseMs} to ${most} ms, found ${acquiredAgoMs}.`,
    );
  }),

  define('a renewal does not make a grant younger', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    await s.pass(s.leaseMs);
    await s.renewed(taken, LONG_LEASE_MS);
    const { acquiredAgoMs } = assertState(await s.inspect(key), 'held');
    const least = s.leaseMs - s.unitMs;
    assert.ok(
      (acquiredAgoMs ?? least) >= least,
      `Expected an age from ${least} ms up, found ${acquiredAgoMs}.`,
    );
  }),

  define('a record given back but kept shows as kept, until its end', [], async (s) => {
    const key = s.key();
    const taken = await s.take(key);
    const keepMs = s.leaseMs * 3;
    await s.released(taken, { keepMs });
    const record = await s.inspect(key);
    if (s.now() < taken.sentAt + keepMs) assertState(record, 'kept');
    await s.passUntil(taken.answeredAt + keepMs + s.unitMs);
    assertFree(await s.inspect(key));
  }),

  define('what was released, ran out or was forced shows as free, or not at all', [], async (s) => {
    const [released, expired, forced] = [s.key('released'), s.key('expired'), s.key('forced')];
    await s.released(await s.take(released));
    assertFree(await s.inspect(released));
    await s.outlast(await s.take(expired, { leaseMs: s.leaseMs }));
    assertFree(await s.inspect(expired));
    await s.take(forced);
    await s.forceRelease(forced);
    assertFree(await s.inspect(forced));
  }),

  define('all records are listed, sorted by the bytes of their keys', ['inspect'], async (s) => {
    const labels = ['b', 'a', 'B', 'ab', 'a b', 'é', '\u{1F600}', '\uFFFD', '10', '9', '_', '-'];
    const keys = labels.map((label) => s.key(label));
    for (const key of keys) await s.take(key);
    const listed = (await s.answer('inspect of all', s.client.inspect({}))).map(({ key }) => key);
    const mine = listed.filter((key) => keys.includes(key));
    const sorted = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    assert.deepEqual(mine, sorted, `Expected the keys ${show(sorted)}, found ${show(mine)}.`);
    assert.equal(new Set(listed).size, listed.length, 'Expected every key to be listed once.');
  }),

  define('a list shows every record as reading it alone does', ['inspect'], async (s) => {
    const [held, kept] = [s.key('held'), s.key('kept')];
    const { owner } = await s.take(held);
    await s.released(await s.take(kept), { keepMs: LONG_LEASE_MS });
    const listed = await s.answer('inspect of all', s.client.inspect({}));
    const find = (key: string) => listed.find((record) => record.key === key);
    assertState(find(kept), 'kept');
    const record = assertState(find(held), 'held');
    assert.equal(record.owner ?? owner, owner, `Expected owner ${owner}, found ${record.owner}.`);
  }),

  define('a list is not longer than its limit, and begins at the beginning', ['inspect'], async (s) => {
    for (const label of ['1', '2', '3', '4']) await s.take(s.key(label));
    const all = await s.answer('inspect of all', s.client.inspect({}));
    const some = await s.answer('inspect of three', s.client.inspect({ limit: 3 }));
    assert.equal(some.length, 3, `Expected 3 records, found ${some.length}.`);
    const expected = all.slice(0, 3).map(({ key }) => key);
    assert.deepEqual(
      some.map(({ key }) => key),
      expected,
      `Expected the first three, ${show(expected)}.`,
    );
    const one = await s.answer('inspect of one', s.client.inspect({ key: s.key('4'), limit: 1 }));
    assert.deepEqual(
      one.map(({ key }) => key),
      [s.key('4')],
      'Expected the one record that was asked for.',
    );
  }),

  define('reading changes nothing', [], async (s) => {
    const key = s.key();
    const gone = await s.take(key, { leaseMs: s.leaseMs });
    await s.inspect(key);
    await s.outlast(gone);
    await s.inspect(key);
    await s.notRenewed(gone);
    const next = await s.take(key);
    await s.inspect(key);
    await s.refused(key);
    await s.released(next);
  }),
];
