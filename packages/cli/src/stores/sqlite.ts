import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LockStoreError } from 'joblatch';
import { UsageError } from '../errors.js';
import type { StoreKind } from './store-kind.js';

const SCHEME = /^sqlite:/i;
/** One letter before the colon is a drive of Windows, not a scheme. */
const ANY_SCHEME = /^[a-z][a-z0-9+.-]+:/i;
const FILE_NAME = /\.(?:db|sqlite3?)$/i;

export const sqliteStore: StoreKind = {
  forms: ['sqlite:PATH', 'sqlite:///ABSOLUTE/PATH', 'a path that ends in .db, .sqlite or .sqlite3'],
  accepts: (url) => SCHEME.test(url) || (!ANY_SCHEME.test(url) && FILE_NAME.test(url)),
  async open(url, purpose) {
    const path = sqlitePath(url);
    // The provider would make the file, and a mistyped name would look like a store in which all is well.
    if (purpose === 'look' && !existsSync(path)) {
      throw new LockStoreError(
        `there is no file ${path}, so nothing was ever locked there. Is it the store that the jobs use?`,
        { operation: 'connect' },
      );
    }
    const { sqliteProvider } = await import('joblatch/sqlite');
    return sqliteProvider({ path });
  },
  async migrate(url) {
    sqlitePath(url);
    return { statements: [], note: 'nothing to migrate: the table in SQLite is made on first use' };
  },
  async examine(url) {
    const { examineSqlite } = await import('../doctor/sqlite.js');
    return examineSqlite(sqlitePath(url));
  },
};

/** The file that is meant, absolute. `sqlite:///…` is a URL, with its escapes; `sqlite:…` is followed by a path as it is. */
export function sqlitePath(url: string): string {
  const rest = url.replace(SCHEME, '');
  if (rest === '')
    throw new UsageError(`The store ${JSON.stringify(url)} names no file. Accepted: sqlite:PATH.`);
  if (rest === ':memory:') {
    throw new UsageError(
      `The store ${JSON.stringify(url)} lives in one process and would exclude nobody. Accepted: sqlite:PATH.`,
    );
  }
  if (!SCHEME.test(url) || !rest.startsWith('//')) return resolve(rest);
  try {
    const parsed = new URL(`file:${rest}`);
    if (parsed.host !== '' || parsed.search !== '' || parsed.hash !== '') throw new Error('not only a path');
    return fileURLToPath(parsed);
  } catch {
    throw new UsageError(
      `The store ${JSON.stringify(url)} is not a file's URL. Accepted: sqlite:///ABSOLUTE/PATH ` +
        '(three slashes; ? and # escaped as %3F and %23) or sqlite:PATH.',
    );
  }
}
