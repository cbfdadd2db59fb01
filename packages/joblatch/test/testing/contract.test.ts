import { memoryProvider } from 'joblatch/memory';
import { providerContract } from 'joblatch/testing';
import { describe, test } from 'vitest';

describe('the memory provider in real time keeps the contract', () => {
  const store = new Map();
  const contract = providerContract({
    open: () => memoryProvider({ store }),
    deleteRecord: (key) => void store.delete(key),
  });
  for (const { name, run } of contract) {
    test(name, async (context) => {
      const { skip } = await run();
      if (skip !== undefined) context.skip(skip);
    });
  }
});
