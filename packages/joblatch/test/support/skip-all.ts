import { test } from 'vitest';

/** In place of what can not be tested here: says why, on the console and in the report. */
export function skipAll(what: string, reason: string): void {
  console.warn(`skipped, ${what}: ${reason}`);
  test.skip(`not here: ${reason}`, () => {});
}
