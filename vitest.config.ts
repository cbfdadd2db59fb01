import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'interop/test/**/*.test.ts', 'test/**/*.test.ts'],
    // Most of our tests wait, for processes and for leases, so there is work for more files than cores.
    maxWorkers: Math.max(4, availableParallelism()),
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
