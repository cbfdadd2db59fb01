import assert from 'node:assert/strict';
import type { AcquireRequest, AcquireResult } from '../../provider/lock-provider.js';
import { show } from './show.js';

/** Holds an answer to what every answer must keep, whatever it says. */
export function checkSane(result: AcquireResult, { key, leaseMs }: AcquireRequest): void {
  if (result.ok) {
    assert.ok(
      Number.isSafeInteger(result.token) && result.token > 0,
      `Expected a positive safe integer as the token of ${show(key)}, found ${show(result.token)}.`,
    );
    assert.ok(
      Number.isFinite(result.leftMs) && result.leftMs > 0 && result.leftMs <= leaseMs,
      `Expected the time left of ${show(key)} to be in (0, ${leaseMs}], found ${show(result.leftMs)}.`,
    );
    return;
  }
  assert.ok(
    result.reason === 'held' || result.reason === 'slot',
    `Expected a refusal of ${show(key)} with reason 'held' or 'slot', found ${show(result)}.`,
  );
  assert.ok(
    result.leftMs === undefined || (Number.isFinite(result.leftMs) && result.leftMs >= 0),
    `Expected the time left in a refusal of ${show(key)} to be absent or not negative, found ${show(result.leftMs)}.`,
  );
}
