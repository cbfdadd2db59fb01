import assert from 'node:assert/strict';
import type { Scene } from './scene.js';

/**
 * The store's now in epoch milliseconds, cut down to the second. Asked of the store itself, by way of
 * `oncePerMs`: this host's clock need not agree with it.
 */
export async function storeSecond(s: Scene): Promise<number> {
  const { granted } = await s.take(s.freshKey(), { oncePerMs: 1_000 });
  const { slot } = granted;
  assert.ok(
    slot !== undefined && slot % 1_000 === 0,
    `Expected a grant with oncePerMs 1000 to name the second as its slot, found ${slot}.`,
  );
  return slot;
}

/** The store's now to the millisecond: the first token of a key is the clock. Only where time stands still. */
export async function storeMillisecond(s: Scene): Promise<number> {
  return Math.floor((await s.take(s.freshKey())).token / 1_000);
}
