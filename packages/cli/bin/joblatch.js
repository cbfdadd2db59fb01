#!/usr/bin/env node
import { existsSync } from 'node:fs';

// In a clone of the repository that was not built yet; a package always has it.
const main = new URL('../dist/main.js', import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  process.stderr.write('joblatch: it is not built yet. Run: npm ci && npm run build\n');
  process.exitCode = 70;
}
