import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';

const here = fileURLToPath(new URL('.', import.meta.url));
// Inside the package, so that imports by name are found.
const scratch = mkdtempSync(join(here, '.compiled-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

// vitest does not run standard decorators untranspiled, so both forms are tested from the compiler's output.
test.each([
  ['legacy', ['--experimentalDecorators', '--emitDecoratorMetadata']],
  ['standard', []],
])('@SchedulerLock as a %s decorator', (form, flags) => {
  const out = join(scratch, form);
  const compile = [
    '-p',
    join(here, 'fixture'),
    '--rootDir',
    join(here, 'fixture'),
    '--outDir',
    out,
    ...flags,
  ];
  execFileSync(process.execPath, [tsc(), ...compile], {
    encoding: 'utf8',
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const output = execFileSync(process.execPath, [join(out, 'jobs.js')], { encoding: 'utf8' });
  expect(output).toBe('decorators: all held\n');
});

function tsc(): string {
  return fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
}
