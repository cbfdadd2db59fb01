import assert from 'node:assert/strict';
import type { LockRecord } from '../../provider/lock-provider.js';
import type { Scene } from './scene.js';
import { show } from './show.js';

/** A record, and between which instants of the case's clock its end lies. */
interface Sight {
  readonly record: LockRecord | undefined;
  readonly endFrom: number;
  readonly endTo: number;
}

async function look(s: Scene, key: string): Promise<Sight> {
  const before = s.now();
  const record = await s.inspect(key);
  const left = record?.leftMs ?? 0;
  return { record, endFrom: before + left - s.unitMs, endTo: s.now() + left + s.unitMs };
}

/** Holds a record to be the same after an action as before it: state, owner, token, slot and end. */
export async function unchanged(s: Scene, key: string, action: () => Promise<void>): Promise<void> {
  const before = await look(s, key);
  await action();
  const after = await look(s, key);
  for (const field of ['state', 'owner', 'token', 'slot'] as const) {
    const [expected, found] = [before.record?.[field], after.record?.[field]];
    assert.equal(
      found,
      expected,
      `Expected the ${field} of ${show(key)} to stay ${show(expected)}, found ${show(found)}.`,
    );
  }
  if (before.record === undefined || before.record.state === 'free') return;
  assert.ok(
    after.endFrom <= before.endTo && after.endTo >= before.endFrom,
    `Expected the end of ${show(key)} to stay, found it moved by about ${after.endTo - before.endTo} ms.`,
  );
}

/** Holds the end of a record to lie so many milliseconds after instants between which the store counts. */
export async function endsAfter(
  s: Scene,
  key: string,
  ms: number,
  from: { readonly sentAt: number; readonly answeredAt: number },
): Promise<void> {
  const { record, endFrom, endTo } = await look(s, key);
  const [least, most] = [from.sentAt + ms, from.answeredAt + ms];
  assert.ok(record !== undefined, `Expected a record of ${show(key)}, found none.`);
  assert.ok(
    endTo >= least && endFrom <= most,
    `Expected the end of ${show(key)} ${ms} ms after it was counted from, found it off by about ${endTo - most} ms.`,
  );
}

/** Holds a key to be free: no record of it, or one that says so. */
export function assertFree(record: LockRecord | undefined): void {
  if (record === undefined) return;
  assert.equal(record.state, 'free', `Expected ${show(record.key)} to be free, found ${show(record)}.`);
  assert.equal(record.leftMs, 0, `Expected 0 ms left of a free key, found ${record.leftMs}.`);
}

/** Holds a record to exist in a state, and hands it back. */
export function assertState(record: LockRecord | undefined, state: LockRecord['state']): LockRecord {
  assert.ok(record !== undefined, `Expected a record in state '${state}', found none.`);
  assert.equal(record.state, state, `Expected ${show(record.key)} to be '${state}', found ${show(record)}.`);
  return record;
}
