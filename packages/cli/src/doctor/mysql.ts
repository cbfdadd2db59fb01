import { NoStoreError } from '../errors.js';
import type { Ending } from '../stores/ending.js';
import { type MysqlSession, mysqlSession } from '../stores/mysql-client.js';
import type { MysqlTarget } from '../stores/mysql-url.js';
import { textOf } from '../text-of.js';
import { judgeClock, measureClock } from './clock.js';
import { attempt, error, type Finding, info, ok } from './finding.js';
import { examineReplication } from './mysql-replication.js';
import { examineSettings } from './mysql-settings.js';
import { examineTable } from './mysql-table.js';
import { examineZone } from './mysql-zone.js';
import { judgeWay } from './way.js';

/** @throws NoStoreError if it can not be reached */
export async function examineMysql(target: MysqlTarget): Promise<readonly Finding[]> {
  const start = performance.now();
  const { it: session, end } = await connect(target);
  try {
    const tookMs = performance.now() - start;
    return [
      ...(await attempt('connection', () => examineConnection(session, tookMs))),
      judgeWay(target.socket ?? target.host, tlsOf(target), 'add sslmode=verify-full to the URL'),
      ...(await attempt('clock-difference', async () => [
        judgeClock(await measureClock(() => serverTime(session))),
      ])),
      ...(await attempt('table', () => examineTable(session, target))),
      ...(await attempt('time-zone', () => examineZone(session, target))),
      ...(await attempt('replication', () => examineReplication(session))),
      ...(await attempt('settings', () => examineSettings(session))),
      ...(await attempt('proxy', () => examineProxy(session))),
    ];
  } finally {
    await end();
  }
}

async function connect(target: MysqlTarget): Promise<Ending<MysqlSession>> {
  try {
    return await mysqlSession(target);
  } catch (failure) {
    if (failure instanceof NoStoreError) throw failure;
    throw new NoStoreError(`MariaDB or MySQL can not be reached: ${textOf(failure)}`, { cause: failure });
  }
}

/** Older ones lack what the statements use. */
const OLDEST = { MariaDB: [10, 6, 0], MySQL: [8, 0, 17] } as const;

async function examineConnection(session: MysqlSession, tookMs: number): Promise<readonly Finding[]> {
  const [about] = await session.ask<readonly [string, string | null, string]>(
    'select cast(json_array(current_user(), database(), version()) as char)',
  );
  const [who, where, version] = about as readonly [string, string | null, string];
  const made = `made in ${Math.round(tookMs)}ms with ${session.driver}, as ${who}`;
  return [ok('connection', where === null ? made : `${made} to database ${where}`), judgeVersion(version)];
}

export function judgeVersion(version: string): Finding {
  const name = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL';
  const oldest = OLDEST[name];
  const found = (/\d+(?:\.\d+)*/.exec(version)?.[0] ?? '').split('.').map(Number);
  const differs = oldest.findIndex((part, i) => part !== found[i]);
  if (differs >= 0 && (found[differs] ?? 0) < (oldest[differs] as number))
    return error(
      'version',
      `${name} ${version}`,
      `joblatch needs ${name} ${oldest.join('.')} or later`,
      'update the server',
    );
  return name === 'MariaDB'
    ? ok('version', `${name} ${version}`)
    : info(
        'version',
        `${name} ${version}`,
        'joblatch is tested with MariaDB; for MySQL its statements keep to what the manual says',
      );
}

async function serverTime(session: MysqlSession): Promise<number> {
  const [microseconds] = await session.ask<number>(
    "select cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as char)",
  );
  return Number(microseconds) / 1_000;
}

function tlsOf({ tls }: MysqlTarget): { readonly checked: boolean } | undefined {
  return tls === undefined ? undefined : { checked: tls.rejectUnauthorized !== false };
}

/**
 * Proxies do not say that they are there. But they answer the start of a connection themselves, and the number that they
 * give it is not that of the server's connection which then executes a statement.
 */
async function examineProxy(session: MysqlSession): Promise<readonly Finding[]> {
  const { promisedId } = session;
  if (typeof promisedId !== 'number') return [];
  const [actual] = await session.ask<number>('select cast(connection_id() as char)');
  if (actual === promisedId) return [ok('proxy', 'none is seen: the connection leads to the server itself')];
  return [
    info(
      'proxy',
      'there is one (ProxySQL, MaxScale …)',
      'joblatch is not tested through it. A proxy that sends reads to replicas shows joblatch old records: attempts are ' +
        'refused for longer, never granted for that, since every grant is decided by a write',
      'send all statements of the user of the locks to the primary',
    ),
  ];
}
