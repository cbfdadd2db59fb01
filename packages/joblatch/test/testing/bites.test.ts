import { AssertionError } from 'node:assert';
import { type ContractOptions, manualRuntime, providerContract } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';
import { BROKEN_CLIENTS, interruptible, obstructible } from './fixtures/broken-clients.js';
import { BROKEN } from './fixtures/broken-rules.js';
import { BROKEN_GUARDS, guarding } from './fixtures/guarding-model.js';
import { type ModelRecord, type ModelStore, modelProvider, type Rules } from './fixtures/model-provider.js';
import { runCases } from './fixtures/run-cases.js';

/** What a version without tokens and slots left yesterday. */
const OLD_RECORD = { owner: 'old', acquiredAt: -86_400_000, until: -86_000_000, given: false } as ModelRecord;

function following(rules?: Partial<Rules>): ContractOptions {
  const store: ModelStore = new Map();
  const runtime = manualRuntime();
  return {
    open: () => modelProvider(store, runtime, rules),
    clock: runtime,
    deleteRecord: (key) => void store.delete(key),
    writeOldRecord: (key) => void store.set(key, OLD_RECORD),
  };
}

async function run(options: ContractOptions, name: string): Promise<unknown> {
  const found = providerContract(options).find((c) => c.name === name);
  if (found === undefined) throw new Error(`There is no case "${name}".`);
  return found.run();
}

describe('a model that follows the rules keeps the contract', () => {
  runCases(providerContract(following()));
});

describe('a model without slots keeps the contract', () => {
  const abilities = { multiProcess: false, serverClock: false, fencing: true, slots: false, inspect: true };
  runCases(providerContract(following({ abilities })));
});

describe('a model that guards keeps the contract', () => {
  runCases(providerContract(guarding()).filter(({ needs }) => needs.includes('guard')));
});

describe('a model that others get in the way of, or that is away, keeps the contract', () => {
  for (const options of [obstructible(), interruptible()]) {
    const need = options.obstruct === undefined ? 'interrupt' : 'obstruct';
    runCases(providerContract(options).filter(({ needs }) => needs.includes(need)));
  }
});

describe('the contract finds a store that', () => {
  test.each(BROKEN)('$fault', async ({ rules, foundBy }) => {
    await expect(run(following(rules), foundBy)).rejects.toThrow(AssertionError);
  });
});

describe('the contract finds a guard that', () => {
  test.each(BROKEN_GUARDS)('$fault', async ({ rules, foundBy }) => {
    await expect(run(guarding(rules), foundBy)).rejects.toThrow();
  });
});

describe('the contract finds a client that', () => {
  test.each(BROKEN_CLIENTS)('$fault', async ({ options, foundBy, throws = AssertionError }) => {
    await expect(run(options(), foundBy)).rejects.toThrow(throws);
  });
});
