import assert from 'node:assert/strict';
import { paths } from './paths.cjs';

for (const path of paths) assert.ok(Object.keys(await import(path)).length > 0, `${path} exports nothing`);
console.log(`imports ${paths.length} paths`);
