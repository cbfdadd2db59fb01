// The SQLite drivers that the tests know, as plain JavaScript: worker processes of Node 20 import it too.

import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const DRIVERS = fileURLToPath(new URL('../../../../drivers', import.meta.url));

/** Where `npm run drivers` put them, or scripts/rebuild-drivers.sh for a Node of another ABI. */
function driversFolder() {
  const ofAbi = `${DRIVERS}/.abi/${process.versions.modules}`;
  return process.env.JOBLATCH_DRIVERS ?? (existsSync(`${ofAbi}/node_modules`) ? ofAbi : DRIVERS);
}

/** The folder of a package that is installed there. */
export function packageFolder(name) {
  return `${driversFolder()}/node_modules/${name}`;
}

const require = createRequire(import.meta.url);

function betterSqlite3(alias) {
  const folder = packageFolder(alias);
  if (!existsSync(folder)) throw new Error(`${folder} is not there; npm run drivers installs it`);
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  if (Number.parseInt(version, 10) >= 13 && Number.parseInt(process.versions.node, 10) < 22) {
    throw new Error(`${version} needs Node 22, and crashes an older one`);
  }
  const Database = require(folder);
  return (path, options) => new Database(path, options);
}

function nodeSqlite() {
  const builtin = process.getBuiltinModule('node:sqlite');
  if (builtin === undefined) throw new Error(`Node ${process.versions.node} has none`);
  return (path, options = {}) => new builtin.DatabaseSync(path, options);
}

function libsql() {
  const Database = require('libsql');
  return (path, options) => new Database(path, options);
}

const LOADERS = {
  'node:sqlite': nodeSqlite,
  'better-sqlite3 12': () => betterSqlite3('better-sqlite3-12'),
  'better-sqlite3 13': () => betterSqlite3('better-sqlite3-13'),
  libsql,
};

export const DRIVER_NAMES = Object.keys(LOADERS);

/** Loads a driver: a function that opens a handle. Throws with the reason if it can not be had here. */
export function loadDriver(name) {
  const open = LOADERS[name]();
  // Some load their binary with the first handle.
  open(':memory:').close();
  return open;
}
