import { AssertionError } from 'node:assert';
import { manualRuntime, providerContract } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';
import { BROKEN } from './fixtures/broken-rules.js';
import { type ModelStore, modelProvider, type Rules } from './fixtures/model-provider.js';
import { runCases } from './fixtures/run-cases.js';

function contractOf(rules?: Partial<Rules>) {
  const store: ModelStore = new Map();
  const runtime = manualRuntime();
  return providerContract({
    open: () => modelProvider(store, runtime, rules),
    clock: runtime,
    deleteRecord: (key) => void store.delete(key),
  });
}

describe('the model follows the rules', () => {
  runCases(contractOf());
});

describe('the contract finds a provider that', () => {
  test.each(BROKEN)('$fault', async ({ rules, foundBy }) => {
    const found = contractOf(rules).find(({ name }) => name === foundBy);
    expect(found, `There is no case ${foundBy}`).toBeDefined();
    await expect(found?.run()).rejects.toThrow(AssertionError);
  });
});
