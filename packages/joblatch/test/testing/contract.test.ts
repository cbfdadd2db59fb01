import { type MemoryStore, memoryProvider } from 'joblatch/memory';
import { faultyProvider, manualRuntime, providerContract } from 'joblatch/testing';
import { describe } from 'vitest';
import { runCases } from './fixtures/run-cases.js';

const YESTERDAY_MS = 86_400_000;

describe('the memory provider keeps the contract, in real time', () => {
  const store: MemoryStore = new Map();
  runCases(
    providerContract({
      open: () => memoryProvider({ store }),
      deleteRecord: (key) => void store.delete(key),
    }),
  );
});

describe('the memory provider keeps the contract, in time that the test drives', () => {
  const store: MemoryStore = new Map();
  const runtime = manualRuntime();
  runCases(
    providerContract({
      open: () => memoryProvider({ store, runtime }),
      clock: runtime,
      deleteRecord: (key) => void store.delete(key),
      writeOldRecord: (key) => {
        const acquiredAt = runtime.monotonic() - YESTERDAY_MS;
        const past = { owner: 'old', token: 1, acquiredAt, until: acquiredAt + 1_000, slot: undefined };
        store.set(key, { ...past, state: 'granted' });
      },
    }),
  );
});

describe('a faulty provider without faults keeps the contract of the provider in it', () => {
  const store: MemoryStore = new Map();
  const runtime = manualRuntime();
  runCases(
    providerContract({
      open: () => faultyProvider(memoryProvider({ store, runtime }), { runtime }),
      clock: runtime,
      deleteRecord: (key) => void store.delete(key),
    }),
  );
});
