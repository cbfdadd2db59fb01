import type { Client } from 'pg';
import { formatDuration } from '../format.js';
import { error, type Finding, info, ok, warning } from './finding.js';

const OLDEST = 120_000;
/** An attempt takes milliseconds, but a busy server may take its time. */
const SHORT_MS = 500;
/** Of the connections that the server allows. */
const NEARLY_ALL = 0.9;

type Settings = ReadonlyMap<string, string>;

const NAMES = [
  'server_version_num',
  'fsync',
  'full_page_writes',
  'synchronous_commit',
  'default_transaction_isolation',
  'TimeZone',
  'server_encoding',
  'lock_timeout',
  'statement_timeout',
  'transaction_timeout',
  'idle_in_transaction_session_timeout',
  'idle_session_timeout',
  'max_connections',
];

export async function examineSettings(client: Client): Promise<readonly Finding[]> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [NAMES],
  );
  const settings: Settings = new Map(rows.map(({ name, setting }) => [name, setting]));
  return [
    ...version(settings),
    durability(settings),
    isolation(settings),
    zone(settings),
    encoding(settings),
    ...timeouts(settings),
    await connections(client, settings),
  ];
}

function version(settings: Settings): readonly Finding[] {
  if (Number(settings.get('server_version_num')) >= OLDEST) return [];
  return [error('version', 'older than PostgreSQL 12', 'joblatch is not made for it', 'update the server')];
}

function durability(settings: Settings): Finding {
  const code = 'durability';
  const lost =
    'after a crash of the server the last locks and slots may be unknown: a job may run twice in one period';
  for (const name of ['fsync', 'full_page_writes']) {
    if (settings.get(name) === 'off')
      return warning(code, `${name} is off`, `${lost}, and the data may be damaged`, `set ${name} = on`);
  }
  const commit = settings.get('synchronous_commit') ?? '?';
  if (commit === 'off')
    return warning(
      code,
      'synchronous_commit is off',
      lost,
      'alter role … set synchronous_commit = on for the user of the locks',
    );
  return ok(code, `fsync is on, synchronous_commit is ${commit}`);
}

function isolation(settings: Settings): Finding {
  const level = settings.get('default_transaction_isolation') ?? '?';
  return level === 'read committed'
    ? ok('isolation', level)
    : info('isolation', level, 'right, but attempts that meet are tried again, which costs round trips');
}

function zone(settings: Settings): Finding {
  const name = settings.get('TimeZone') ?? '?';
  if (/^(UTC|GMT|Etc\/(UTC|GMT|UCT|Universal|Zulu)|UCT|Universal|Zulu)$/i.test(name))
    return ok('time-zone', `${name} in this session`);
  return info(
    'time-zone',
    `${name} in this session`,
    "joblatch does not depend on it. Java's ShedLock, in a table whose columns have a time zone, is then off by the offset",
    'only if Java shares the table: columns without time zone, or sessions in UTC',
  );
}

function encoding(settings: Settings): Finding {
  const name = settings.get('server_encoding') ?? '?';
  return name === 'UTF8'
    ? ok('encoding', name)
    : info('encoding', name, 'names with characters that it does not have are refused', 'a database in UTF8');
}

function timeouts(settings: Settings): readonly Finding[] {
  const ms = (name: string): number => Number(settings.get(name) ?? 0);
  const say = (name: string): string => `${name} is ${ms(name) === 0 ? 'off' : formatDuration(ms(name))}`;
  const cutting = ['statement_timeout', 'transaction_timeout'].filter(
    (name) => ms(name) > 0 && ms(name) < SHORT_MS,
  );
  return [
    ok('lock-timeout', `${say('lock_timeout')}; joblatch sets its own for each statement`),
    cutting.length > 0
      ? warning(
          'statement-timeout',
          cutting.map(say).join(', '),
          'attempts and renewals may be cut off on a busy server: commands are not run, or lose their lock',
          'alter role … set … to a second or more for the user of the locks',
        )
      : ok('statement-timeout', say('statement_timeout')),
    ms('idle_in_transaction_session_timeout') === 0
      ? info(
          'idle-in-transaction',
          `${say('idle_in_transaction_session_timeout')}`,
          'a transaction that somebody leaves open with the row of a lock keeps that name from being taken',
          'set idle_in_transaction_session_timeout, to a minute say',
        )
      : ok('idle-in-transaction', say('idle_in_transaction_session_timeout')),
    ok('idle-session', `${say('idle_session_timeout')}; joblatch connects anew when it was cut off`),
  ];
}

async function connections(client: Client, settings: Settings): Promise<Finding> {
  const { rows } = await client.query<{ used: number }>(
    "select count(*)::int as used from pg_stat_activity where backend_type = 'client backend'",
  );
  const used = rows[0]?.used ?? 0;
  const most = Number(settings.get('max_connections'));
  const found = `${used} of ${most} in use`;
  return used < most * NEARLY_ALL
    ? ok('connections', found)
    : warning(
        'connections',
        found,
        'a joblatch that gets none ends with status 69, and its command does not run',
        'raise max_connections, or put a pooler between; each joblatch run needs one',
      );
}
