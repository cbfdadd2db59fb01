// A file of the library imports only from its own floor or below (see docs/architecture.md), a provider
// never another provider (what those of SQL databases share is in providers/sql), and nobody a package: the
// library has no dependency.
//
// `import type` counts like any other import. What the compiler erases the reader does not: a floor should
// be understood without the ones above it.
//
// Run by `npm run lint`; exits 1 with one line a fault.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const FLOORS = {
  // Right under src: what is made of locks and jobs both.
  'locks.ts': 3,
  // The way in from outside; nothing imports it.
  'index.ts': 5,
  provider: 0,
  providers: 1,
  lock: 2,
  jobs: 3,
  kinds: 3,
  adapters: 4,
  decorators: 4,
  telemetry: 4,
  testing: 4,
};

/** What is not in the table has no floor: a new folder has to be thought about. */
function floorOf(file) {
  return FLOORS[file.split('/')[0].replace(/\.js$/, '.ts')];
}

/** Beside the providers, for some of them; it knows none of them. */
const SHARED = 'sql';

/** `providers/redis/client.ts` → `redis`; undefined elsewhere. */
function providerOf(file) {
  const [top, name, rest] = file.split('/');
  return top === 'providers' && rest !== undefined ? name : undefined;
}

// The shapes of formatted code. Statements are looked for at the start of a line only, so that an example in
// a comment or in a message is none.
const STATEMENT = /^(?:(?:import|export)\b[^'"]*?\bfrom |import |\} from )(['"])(.+?)\1/gm;
const CALL = /\bimport\(\s*(['"])(.+?)\1/g;

/**
 * The faults of one file, as sentences.
 *
 * @param {string} file path under src, with forward slashes
 * @param {string} code
 * @returns {string[]}
 */
export function floorFaults(file, code) {
  const floor = floorOf(file);
  if (floor === undefined) return [`${file}: it has no floor; give its folder one in tools/lint/floors.js`];
  const faults = [];
  for (const [, , specifier] of [...code.matchAll(STATEMENT), ...code.matchAll(CALL)]) {
    if (specifier.startsWith('node:')) continue;
    if (!specifier.startsWith('.')) {
      faults.push(`${file}: imports the package '${specifier}', but the library has no dependency`);
      continue;
    }
    const target = posix.join(posix.dirname(file), specifier);
    const below = floorOf(target);
    if (below === undefined || target.startsWith('..'))
      faults.push(`${file}: imports '${specifier}', which is on no floor`);
    else if (below > floor)
      faults.push(`${file} (floor ${floor}) imports '${specifier}' from above (floor ${below})`);
    else if (
      providerOf(file) !== undefined &&
      below === floor &&
      providerOf(target) !== providerOf(file) &&
      providerOf(target) !== SHARED
    )
      faults.push(`${file}: imports '${specifier}', but providers do not know each other`);
  }
  return faults;
}

/** @returns {string[]} the faults of a whole source folder */
export function floorFaultsOf(source) {
  return readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .flatMap((path) => floorFaults(relative(source, path).split(sep).join('/'), readFileSync(path, 'utf8')));
}

export const SOURCE = join(dirname(fileURLToPath(import.meta.url)), '../../packages/joblatch/src');

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const faults = floorFaultsOf(SOURCE);
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) process.exitCode = 1;
}
