import { formatDuration } from '../format.js';
import type { MysqlSession } from '../stores/mysql-client.js';
import { error, type Finding, info, ok, warning } from './finding.js';
import { isOn, readVariables, type Variables } from './mysql-variables.js';

/** An attempt takes milliseconds, but a busy server may take its time. */
const SHORT_MS = 500;
/** Of the connections, or prepared statements, that the server allows. */
const NEARLY_ALL = 0.9;

const NAMES = [
  'autocommit',
  'innodb_flush_log_at_trx_commit',
  'innodb_doublewrite',
  'log_bin',
  'sync_binlog',
  'transaction_isolation',
  'tx_isolation',
  'innodb_snapshot_isolation',
  'max_statement_time',
  'max_execution_time',
  'idle_transaction_timeout',
  'idle_readonly_transaction_timeout',
  'idle_write_transaction_timeout',
  'wait_timeout',
  'max_connections',
  'Threads_connected',
  'max_prepared_stmt_count',
  'Prepared_stmt_count',
];

export async function examineSettings(session: MysqlSession): Promise<readonly Finding[]> {
  return judgeSettings(await readVariables(session, NAMES));
}

export function judgeSettings(settings: Variables): readonly Finding[] {
  return [
    autocommit(settings),
    durability(settings),
    isolation(settings),
    statementTimeout(settings),
    idleTransactions(settings),
    connections(settings),
    ...prepared(settings),
  ];
}

function autocommit(settings: Variables): Finding {
  if (isOn(settings.get('autocommit'))) return ok('autocommit', 'on');
  return error(
    'autocommit',
    'off in new sessions',
    'what joblatch writes would not be committed, so each call fails',
    'set global autocommit = 1, or look for it in init_connect',
  );
}

function durability(settings: Variables): Finding {
  const code = 'durability';
  const lost =
    'after a crash of the server the last locks and slots may be unknown: a job may run twice in one period';
  const flush = settings.get('innodb_flush_log_at_trx_commit') ?? '?';
  if (/^(?:off|0)$/i.test(settings.get('innodb_doublewrite') ?? ''))
    return warning(
      code,
      'innodb_doublewrite is off',
      `${lost}, and the data may be damaged`,
      'set innodb_doublewrite = on, unless the file system writes whole pages',
    );
  if (flush !== '1')
    return warning(
      code,
      `innodb_flush_log_at_trx_commit is ${flush}`,
      flush === '2' ? lost.replace('of the server', "of the server's machine") : lost,
      'set global innodb_flush_log_at_trx_commit = 1',
    );
  const sync = settings.get('sync_binlog') ?? '?';
  if (isOn(settings.get('log_bin')) && sync !== '1')
    return warning(
      code,
      `sync_binlog is ${sync}`,
      "after a crash of the server's machine a replica may lack the last locks and slots, or have others",
      'set global sync_binlog = 1',
    );
  return ok(code, 'innodb_flush_log_at_trx_commit is 1');
}

function isolation(settings: Variables): Finding {
  const level = settings.get('transaction_isolation') ?? settings.get('tx_isolation') ?? '?';
  const strict = isOn(settings.get('innodb_snapshot_isolation'));
  const found = `${level}${strict ? ', innodb_snapshot_isolation is on' : ''}`;
  if (!strict) return ok('isolation', found);
  return info(
    'isolation',
    found,
    'right for joblatch. A transaction that has read before guard(tx) may be refused, with error 1020, because the record has changed since',
    'only for guard(tx): call it first in the transaction',
  );
}

function statementTimeout(settings: Variables): Finding {
  const code = 'statement-timeout';
  // MariaDB has seconds, and MySQL milliseconds, for reads only.
  const limits = [
    ['max_statement_time', Number(settings.get('max_statement_time') ?? 0) * 1_000],
    ['max_execution_time', Number(settings.get('max_execution_time') ?? 0)],
  ] as const;
  const said = limits
    .filter(([name]) => settings.has(name))
    .map(([name, ms]) => `${name} is ${ms === 0 ? 'off' : formatDuration(ms)}`)
    .join(', ');
  if (!limits.some(([, ms]) => ms > 0 && ms < SHORT_MS)) return ok(code, said);
  return warning(
    code,
    said,
    'attempts and renewals may be cut off on a busy server: commands are not run, or lose their lock',
    'a second or more for the user of the locks',
  );
}

function idleTransactions(settings: Variables): Finding {
  const code = 'idle-in-transaction';
  const kept =
    'a transaction that somebody leaves open with the row of a lock keeps that name from being taken';
  const seconds = (name: string): number => Number(settings.get(name) ?? 0);
  const say = (name: string): string => `${name} is ${formatDuration(seconds(name) * 1_000)}`;
  if (!settings.has('idle_transaction_timeout'))
    return info(
      code,
      `there is only ${say('wait_timeout')}`,
      `${kept}; so does that of a guard(tx) whose process is paused, until its connection ends`,
      'a shorter wait_timeout for the users of guard(tx)',
    );
  const all = 'idle_transaction_timeout';
  // Of these each ends a part: a guard alone has written nothing yet.
  const parts = ['idle_readonly_transaction_timeout', 'idle_write_transaction_timeout'];
  const set = [all, ...parts].filter((name) => seconds(name) > 0);
  if (set.includes(all) || parts.every((name) => set.includes(name)))
    return ok(code, set.map(say).join(', '));
  const found = [`${all} is off`, ...set.map(say)].join(', ');
  return info(code, found, kept, `set ${all}, to a minute say (guard(tx) sets it for its own transactions)`);
}

function connections(settings: Variables): Finding {
  const used = Number(settings.get('Threads_connected'));
  const most = Number(settings.get('max_connections'));
  const found = `${used} of ${most} in use`;
  return used < most * NEARLY_ALL
    ? ok('connections', found)
    : warning(
        'connections',
        found,
        'a joblatch that gets none ends with status 69, and its command does not run',
        'raise max_connections; each joblatch run needs one',
      );
}

function prepared(settings: Variables): readonly Finding[] {
  const used = Number(settings.get('Prepared_stmt_count') ?? 0);
  const most = Number(settings.get('max_prepared_stmt_count') ?? 0);
  if (used < most * NEARLY_ALL) return [];
  return [
    info(
      'prepared-statements',
      `${used} of ${most} in use`,
      'joblatch goes on without prepared statements where it gets no more; other clients fail',
      'raise max_prepared_stmt_count, or look for a client that never closes its own',
    ),
  ];
}
