import { accessSync, constants, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { mariadb } from './mariadb.js';
import { postgres } from './postgres.js';
import { redis } from './redis.js';

/**
 * The stores that can be started here. An entry has
 * - `name`, and `variable`: what the tests read its URL from;
 * - `packages`: what Debian calls it;
 * - `binaries`: the programs that are needed, each with the names that it goes by;
 * - `extras`: more programs that tests of this store start themselves, if any;
 * - `prepare(place)`: commands that make the data, if any; `command(place)`: the server itself, in the
 *   foreground; a place is `{ binaries, data, port }`, and so are the arguments of `url(place)`;
 * - `greeting`: what to send, if the server does not speak first, to learn by `isReady(answer)` whether it
 *   takes requests yet;
 * - `stopSignal`: ends it at once and in order.
 */
export const STORES = [postgres, mariadb, redis];

/** Debian keeps the servers of PostgreSQL off the PATH, one folder a version; the newest comes first. */
function folders() {
  const postgresVersions = '/usr/lib/postgresql';
  let versions = [];
  try {
    versions = readdirSync(postgresVersions).sort((a, b) => Number(b) - Number(a));
  } catch {
    // Not Debian, or no PostgreSQL: the PATH decides.
  }
  return [
    ...(process.env.PATH ?? '').split(delimiter),
    ...versions.map((version) => join(postgresVersions, version, 'bin')),
    '/usr/sbin',
  ];
}

/** The first of these programs that is here, as a path; undefined if none is. */
export function findBinary(...names) {
  for (const name of names)
    for (const folder of folders()) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not in this folder.
      }
    }
  return undefined;
}

/** Whether a program is missing that is needed, or that some tests of the store want. */
export function isIncomplete(store) {
  return (
    findStore(store) === undefined || (store.extras ?? []).some((name) => findBinary(name) === undefined)
  );
}

/** The paths of a store's programs; undefined if one is missing. */
export function findStore(store) {
  const found = Object.entries(store.binaries).map(([role, names]) => [role, findBinary(...names)]);
  return found.every(([, path]) => path !== undefined) ? Object.fromEntries(found) : undefined;
}
