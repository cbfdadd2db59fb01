// Checks that what a package says it exports, and what its build made, are the same:
// - each file that `exports` and `bin` name is there, and code and types belong together;
// - each folder with an index.ts is exported: an index is for those outside, so one that cannot be reached
//   was forgotten here, or is none;
// - nothing in dist is left over from a source that is gone, since it would be packed too.
//
//   node scripts/check-exports.js [package folder…]     all that are published, by default

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * @param {string} folder of a package, built
 * @returns {string[]} what is wrong, as sentences
 */
export function exportFaults(folder) {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return [
    ...Object.entries(manifest.exports ?? {}).flatMap(([path, target]) => targetFaults(folder, path, target)),
    ...binFaults(folder, manifest.bin),
    ...forgotten(folder, manifest.exports ?? {}),
    ...leftOver(folder),
  ].map((fault) => `${manifest.name}: ${fault}`);
}

function targetFaults(folder, path, target) {
  if (path === './package.json') return [];
  if (path.includes('*')) return [`exports '${path}': name each path, a pattern would export private files`];
  if (typeof target !== 'object') return [`exports '${path}': needs types and default`];
  const faults = Object.values(target)
    .filter((file) => !existsSync(join(folder, file)))
    .map((file) => `exports '${path}': there is no ${file}`);
  if (Object.keys(target).join() !== 'types,default')
    faults.push(`exports '${path}': needs exactly types and default, in this order (the first match wins)`);
  else if (target.types.replace(/\.d\.ts$/, '.js') !== target.default)
    faults.push(`exports '${path}': ${target.types} does not describe ${target.default}`);
  return faults;
}

function binFaults(folder, bin = {}) {
  const files = typeof bin === 'string' ? [bin] : Object.values(bin);
  return files.flatMap((file) => {
    if (!existsSync(join(folder, file))) return [`bin: there is no ${file}`];
    const firstLine = readFileSync(join(folder, file), 'utf8').split('\n', 1)[0];
    return firstLine === '#!/usr/bin/env node'
      ? []
      : [`bin: ${file} does not start with #!/usr/bin/env node`];
  });
}

function forgotten(folder, exports) {
  const reachable = new Set(Object.values(exports).map((target) => target.default));
  return filesOf(join(folder, 'src'))
    .filter((file) => file === 'index.ts' || file.endsWith('/index.ts'))
    .map((file) => `./dist/${file.replace(/\.ts$/, '.js')}`)
    .filter((file) => !reachable.has(file))
    .map((file) => `${file} is the index of a folder, but not exported`);
}

function leftOver(folder) {
  const sources = new Set(filesOf(join(folder, 'src')).map((file) => file.replace(/\.ts$/, '')));
  return filesOf(join(folder, 'dist'))
    .filter((file) => /\.(js|d\.ts)(\.map)?$/.test(file))
    .filter((file) => !sources.has(file.replace(/\.(js|d\.ts)(\.map)?$/, '')))
    .map((file) => `dist/${file} has no source; remove dist and build again`);
}

function filesOf(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

/** @returns {string[]} the folders of the packages that are published */
export function publishedPackages() {
  const root = fileURLToPath(new URL('../packages', import.meta.url));
  return readdirSync(root)
    .map((name) => join(root, name))
    .filter((folder) => existsSync(join(folder, 'package.json')))
    .filter((folder) => !JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).private);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const folders = process.argv.length > 2 ? process.argv.slice(2) : publishedPackages();
  const faults = folders.flatMap(exportFaults);
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) process.exitCode = 1;
  else console.log(`${folders.length} package(s): exports and build agree`);
}
