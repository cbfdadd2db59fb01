import { memoryProvider } from 'joblatch/memory';
import { multiProcessContract } from 'joblatch/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type MemoryServer, serveMemory } from './fixtures/memory-server.js';
import { open as openPrivate } from './fixtures/private-memory.js';

let server: MemoryServer;

beforeAll(async () => {
  server = await serveMemory(memoryProvider());
});
afterAll(() => server.close());

const names = multiProcessContract({ open: openPrivate }).map(({ name }) => name);

async function run(name: string, options: Parameters<typeof multiProcessContract>[0]) {
  return multiProcessContract(options)
    .find((c) => c.name === name)
    ?.run();
}

describe('a store that several processes share keeps the multi-process contract', () => {
  test.each(names)('%s', async (name) => {
    const report = await run(name, server);
    expect(report?.skip).toBeUndefined();
  });
});

describe('the multi-process contract bites', () => {
  const moduleUrl = new URL('./fixtures/private-memory.js', import.meta.url);
  // Whatever does not look at what another process did can not fail here.
  const blind = ['the same without the lock loses counts, so the case above can fail'];

  test.each(names.filter((name) => !blind.includes(name)))(
    'processes that share nothing fail: %s',
    async (name) => {
      await expect(run(name, { open: openPrivate, moduleUrl })).rejects.toThrow(/Expected/);
    },
  );

  test('a module without open() is named', async () => {
    await expect(run(names[0] as string, { open: openPrivate, moduleUrl: 'node:path' })).rejects.toThrow(
      'node:path exports no function open()',
    );
  });

  test('a provider that is for one process only is skipped, with the reason', async () => {
    for (const name of names) {
      const report = await run(name, { open: () => memoryProvider(), moduleUrl });
      expect(report?.skip).toBe('the store declares multiProcess: false');
    }
  });
});
