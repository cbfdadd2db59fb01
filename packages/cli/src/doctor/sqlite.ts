import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { NoStoreError } from '../errors.js';
import { judgeFileSystem } from './file-system.js';
import { error, type Finding, info, ok, warning } from './finding.js';
import { openSqlite, type SqliteHandle } from './sqlite-driver.js';

const OTHERS_WRITE = 0o002;

/** Looks without changing anything: a file that is not there is not made. @throws NoStoreError */
export async function examineSqlite(path: string): Promise<readonly Finding[]> {
  const folder = dirname(path);
  if (!existsSync(folder))
    throw new NoStoreError(`The folder ${JSON.stringify(folder)} is not there: make it first.`);
  const place = [...judgeFileSystem(folder), clock()];
  if (!existsSync(path))
    return [
      may(folder, constants.W_OK)
        ? info('file', 'not there yet', 'it is made when the first lock is taken')
        : error(
            'file',
            `not there, and no right to write to ${folder}`,
            'no lock can be taken',
            'give it to this user',
          ),
      ...place,
    ];
  return [...permissions(path, folder), ...place, ...(await examineDatabase(path))];
}

function permissions(path: string, folder: string): readonly Finding[] {
  const { mode, size } = statSync(path);
  const rights = (mode & 0o777).toString(8).padStart(3, '0');
  const lacking = [
    ...(may(path, constants.R_OK | constants.W_OK) ? [] : ['the file']),
    // The journal lies beside it.
    ...(may(folder, constants.W_OK) ? [] : ['its folder']),
  ];
  if (lacking.length > 0)
    return [
      error(
        'permissions',
        `no right to write to ${lacking.join(' and ')} (${rights})`,
        'no lock can be taken by this user',
        'all who share the locks need a common group that may write to file and folder',
      ),
    ];
  return [
    (mode & OTHERS_WRITE) === 0
      ? ok('permissions', `${rights}, ${size} bytes`)
      : warning('permissions', rights, 'every user of this host can free locks', `chmod o-w ${path}`),
  ];
}

async function examineDatabase(path: string): Promise<readonly Finding[]> {
  let opened: { readonly driver: string; readonly handle: SqliteHandle };
  try {
    opened = await openSqlite(path);
  } catch (failure) {
    throw new NoStoreError(`SQLite can not open it: ${textOf(failure)}`, { cause: failure });
  }
  const { driver, handle } = opened;
  try {
    const one = (sql: string): string => String(Object.values(handle.prepare(sql).all()[0] as object)[0]);
    const check = one('pragma quick_check(1)');
    const columns = handle.prepare("select name from pragma_table_info('shedlock')").all() as {
      name: string;
    }[];
    return [
      ok('driver', `${driver}, SQLite ${one('select sqlite_version()')}`),
      check === 'ok'
        ? ok('integrity', 'sound')
        : error('integrity', check, 'locks may be lost', 'make a new file while no lock is held'),
      journal(one('pragma journal_mode')),
      ok('durability', 'synchronous = full: joblatch sets it for each connection'),
      columns.length === 0
        ? info('table', 'no table shedlock yet', 'it is made when the first lock is taken')
        : ok('table', `shedlock, ${columns.map(({ name }) => name).join(', ')}`),
    ];
  } catch (failure) {
    throw new NoStoreError(`SQLite can not read it: ${textOf(failure)}`, { cause: failure });
  } finally {
    handle.close();
  }
}

function journal(mode: string): Finding {
  return mode === 'wal'
    ? ok('journal', mode)
    : info(
        'journal',
        mode,
        'readers and writers wait for each other until joblatch switches it to wal, on first use',
      );
}

function clock(): Finding {
  return ok('clock-difference', 'none: SQLite goes by the clock of this host');
}

function may(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

function textOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}
