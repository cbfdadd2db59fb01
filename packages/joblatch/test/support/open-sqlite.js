// A SQLite provider for a worker process: import this with ?driver=…&path=…, and call open().

import { sqliteProvider } from 'joblatch/sqlite';
import { loadDriver } from './sqlite-handles.js';

/** Whether the tests can find it by its own name, as an application would. */
export function opensByPath(driver) {
  return driver === 'node:sqlite' || driver === 'libsql';
}

/** Opens the file as an application with this driver would: by its path, or with a handle of its own. */
export function openSqlite(driver, path) {
  if (opensByPath(driver)) return sqliteProvider({ path, driver });
  const database = loadDriver(driver)(path);
  switchToWal(database);
  const provider = sqliteProvider({ database });
  // We gave the handle, so we close it.
  const close = provider.close.bind(provider);
  provider.close = async () => {
    await close();
    database.close();
  };
  return provider;
}

/** Others may do the same, or write: then SQLite says at once that the file is busy. */
function switchToWal(database) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return database.exec('pragma journal_mode = wal');
    } catch (error) {
      if (attempt === 1_000) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** What `import(url)` gives to a worker. */
export function open() {
  const { searchParams } = new URL(import.meta.url);
  return openSqlite(searchParams.get('driver'), searchParams.get('path'));
}

/** The URL of this module for one driver and file. */
export function moduleUrl(driver, path) {
  const url = new URL(import.meta.url);
  url.search = new URLSearchParams({ driver, path }).toString();
  return url;
}
