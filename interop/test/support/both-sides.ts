import { createLocks, type Locks } from 'joblatch';
import { afterAll } from 'vitest';
import { Java, type JavaLocks } from './java.ts';
import type { Setting, SharedStore } from './stores.ts';

/** A client of joblatch and a provider of ShedLock, on one store. */
export interface Sides extends SharedStore {
  readonly node: Locks;
  readonly shedlock: JavaLocks;
}

/** For the tests of one `describe`, which share a Java process: each has a place of its own. */
export function bothSides(setting: Setting): (work: (sides: Sides) => Promise<void>) => Promise<void> {
  const java = new Java(setting.zone);
  afterAll(() => java.close());
  return async (work) => {
    const store = await setting.make();
    const provider = await store.openNode();
    const node = createLocks({ provider, pollEvery: 20 });
    try {
      const shedlock = await java.open(store.java);
      await work({ ...store, node, shedlock });
    } finally {
      await node.close({ grace: 0 });
      await provider.close?.();
    }
  };
}
