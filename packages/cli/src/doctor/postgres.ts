import type { Client } from 'pg';
import { NoStoreError } from '../errors.js';
import { postgresClient } from '../stores/postgres-client.js';
import type { PostgresTarget } from '../stores/postgres-url.js';
import { textOf } from '../text-of.js';
import { judgeClock, measureClock } from './clock.js';
import { attempt, type Finding, ok } from './finding.js';
import { examinePooler } from './postgres-pooler.js';
import { examineReplication } from './postgres-replication.js';
import { examineSettings } from './postgres-settings.js';
import { examineTable } from './postgres-table.js';
import { judgeWay } from './way.js';

/** @throws NoStoreError if it can not be reached */
export async function examinePostgres(target: PostgresTarget): Promise<readonly Finding[]> {
  const { it: client, end } = postgresClient(target.client);
  try {
    const start = performance.now();
    try {
      await client.connect();
    } catch (error) {
      throw new NoStoreError(`PostgreSQL can not be reached: ${textOf(error)}`, { cause: error });
    }
    const tookMs = performance.now() - start;
    const look = (code: string, part: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> =>
      attempt(code, part);
    return [
      ...(await look('connection', () => examineConnection(client, tookMs))),
      judgeWay(client.host, tlsOf(target), 'add sslmode=verify-full to the URL'),
      ...(await look('clock-difference', async () => [
        judgeClock(await measureClock(() => serverTime(client))),
      ])),
      ...(await look('table', () => examineTable(client, target))),
      ...(await look('replication', () => examineReplication(client))),
      ...(await look('settings', () => examineSettings(client))),
      ...(await look('pooler', () => examinePooler(client, target))),
    ];
  } finally {
    await end();
  }
}

async function examineConnection(client: Client, tookMs: number): Promise<readonly Finding[]> {
  const { rows } = await client.query<{ who: string; where: string; version: string }>(
    "select current_user as who, current_database() as where, current_setting('server_version') as version",
  );
  const [{ who, where, version }] = rows as [(typeof rows)[0]];
  return [
    ok('connection', `made in ${Math.round(tookMs)}ms, as ${who} to database ${where}`),
    ok('version', `PostgreSQL ${version}`),
  ];
}

async function serverTime(client: Client): Promise<number> {
  const { rows } = await client.query<{ ms: string }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::text as ms',
  );
  return Number(rows[0]?.ms);
}

function tlsOf({ client: { ssl } }: PostgresTarget): { checked: boolean } | undefined {
  if (typeof ssl !== 'object') return undefined;
  return { checked: ssl.rejectUnauthorized !== false };
}
