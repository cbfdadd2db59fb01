import { describe, expect, it } from 'vitest';
import { floorFaults, floorFaultsOf, SOURCE } from '../tools/lint/floors.js';

describe('The floors', () => {
  it('hold in the library as it is', () => {
    expect(floorFaultsOf(SOURCE)).toEqual([]);
  });

  it.each([
    ['provider/key.ts', "import { Lock } from '../lock/lock.js';", 'floor 0'],
    ['provider/key.ts', "import type { Lock } from '../lock/lock.js';", 'floor 0'],
    ['provider/key.ts', "import { memoryProvider } from '../providers/memory/index.js';", 'floor 0'],
    ['lock/lock.ts', "export type * from '../jobs/job.js';", 'floor 2'],
    ['lock/lock.ts', "const job = await import('../jobs/job.js');", 'floor 2'],
    ['lock/lock.ts', "import '../index.js';", 'floor 2'],
    ['jobs/job.ts', "import {\n  a,\n  b,\n} from '../testing/index.js';", 'floor 3'],
    ['providers/redis/provider.ts', "import { store } from '../memory/store.js';", 'know each other'],
    ['providers/sql/records.ts', "import { call } from '../postgres/statement.js';", 'know each other'],
    ['providers/redis/provider.ts', "import { Pool } from 'pg';", 'no dependency'],
    ['testing/contract.ts', "import { x } from '../../test/x.js';", 'no floor'],
    ['stuff/a.ts', '', 'it has no floor'],
  ])('refuse in %s: %s', (file, code, words) => {
    expect(floorFaults(file, code)).toEqual([expect.stringContaining(words)]);
  });

  it.each([
    ['provider/owner.ts', "import type { Runtime } from './runtime.js';"],
    ['providers/redis/provider.ts', "import { scripts } from './scripts/acquire.js';"],
    ['providers/redis/provider.ts', "import { checkKey } from '../../provider/key.js';"],
    ['providers/redis/provider.ts', "import { createHash } from 'node:crypto';"],
    ['providers/mysql/provider.ts', "import { toRecord } from '../sql/records.js';"],
    ['jobs/job.ts', "import { Lock } from '../lock/lock.js';"],
    ['providers/redis/provider.ts', "const message = `import { createClient } from 'redis';`;"],
    ['providers/redis/provider.ts', " * import { createClient } from 'redis';"],
    ['index.ts', "export { memoryProvider } from './providers/memory/index.js';"],
  ])('allow in %s: %s', (file, code) => {
    expect(floorFaults(file, code)).toEqual([]);
  });
});
