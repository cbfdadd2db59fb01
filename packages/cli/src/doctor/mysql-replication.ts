import { formatDuration } from '../format.js';
import type { MysqlSession } from '../stores/mysql-client.js';
import { error, type Finding, info, ok, warning } from './finding.js';
import { isOn, readVariables, type Variables } from './mysql-variables.js';

const AFTER_FAILOVER =
  'a lock or slot that was granted just before a failover may be unknown to the new primary, which grants it again';
const INSTEAD =
  'let what is guarded check the fencing token, or wait for the longest --at-most-for before a promoted server is let in';

export interface ReplicationFacts {
  readonly variables: Variables;
  /** Whether it follows another server; undefined if we may not know. */
  readonly follows: boolean | undefined;
  /** How many servers follow it, as far as we may see. */
  readonly replicas: number;
}

export async function examineReplication(session: MysqlSession): Promise<readonly Finding[]> {
  const variables = await readVariables(session, NAMES);
  return judgeReplication({
    variables,
    follows: await follows(session),
    replicas: await countReplicas(session, variables),
  });
}

const NAMES = [
  'read_only',
  'super_read_only',
  'innodb_read_only',
  'transaction_read_only',
  'tx_read_only',
  'wsrep_on',
  'wsrep_sync_wait',
  'group_replication_group_name',
  'rpl_semi_sync_master_enabled',
  'rpl_semi_sync_master_timeout',
  'rpl_semi_sync_source_enabled',
  'rpl_semi_sync_source_timeout',
  'log_bin',
  'binlog_format',
  'Slaves_connected',
] as const;

export function judgeReplication({ variables, follows, replicas }: ReplicationFacts): readonly Finding[] {
  const closed = ['read_only', 'super_read_only', 'innodb_read_only'].filter((name) =>
    isOn(variables.get(name)),
  );
  if (closed.length > 0)
    return [
      error(
        'role',
        `${closed.join(' and ')} is on: a replica?`,
        'no lock can be taken here; by a user who may write all the same, only locks that the primary does not know',
        'name the primary in the URL',
      ),
    ];
  if (isOn(variables.get('transaction_read_only') ?? variables.get('tx_read_only')))
    return [
      error(
        'role',
        'transaction_read_only is on',
        'no lock can be taken in such a session',
        'set global transaction_read_only = off, or look for it in init_connect',
      ),
    ];
  return [role(follows === true), ...cluster(variables, replicas), ...binlog(variables)];
}

function role(isReplica: boolean): Finding {
  return isReplica
    ? warning(
        'role',
        'it follows another server, and can be written all the same',
        'locks that are taken here are unknown there, and the other way round they come late: two hosts could hold one lock',
        'let all hosts use the same server, and set read_only = 1 on a replica',
      )
    : ok('role', 'primary');
}

function cluster(variables: Variables, replicas: number): readonly Finding[] {
  if (isOn(variables.get('wsrep_on')))
    return [
      together(
        `a node of a Galera cluster (wsrep_on), wsrep_sync_wait is ${variables.get('wsrep_sync_wait') ?? '?'}`,
      ),
    ];
  if (variables.get('group_replication_group_name')) return [together('a member of a replication group')];
  const code = 'replication';
  if (replicas === 0)
    return [info(code, 'no replica is seen at present', 'nothing takes over if this server is lost')];
  const attached = `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`;
  const half = ['master', 'source'].find((side) => isOn(variables.get(`rpl_semi_sync_${side}_enabled`)));
  if (half === undefined)
    return [
      warning(
        code,
        `asynchronous, ${attached}`,
        AFTER_FAILOVER,
        `semi-synchronous replication; else ${INSTEAD}`,
      ),
    ];
  const patience = Number(variables.get(`rpl_semi_sync_${half}_timeout`));
  return [
    info(
      code,
      `semi-synchronous, ${attached}`,
      `without an answer of a replica it goes on alone after ${formatDuration(patience)}: then ${AFTER_FAILOVER}`,
      INSTEAD,
    ),
  ];
}

/** Several servers that can be written. */
function together(found: string): Finding {
  return warning(
    'replication',
    found,
    'joblatch is not tested on it. Of two nodes that grant one lock, the later one is refused at its commit. Reads may be old, and a guard ' +
      'keeps a key on its own node only: a taker on another one ends its transaction',
    'let all hosts of the locks use the same node',
  );
}

function binlog(variables: Variables): readonly Finding[] {
  if (!isOn(variables.get('log_bin'))) return [];
  const format = variables.get('binlog_format') ?? '?';
  if (format !== 'STATEMENT') return [ok('binlog', `binlog_format is ${format}`)];
  return [
    warning(
      'binlog',
      'binlog_format is STATEMENT',
      'a replica executes the statements anew, and may come to other ends and tokens: after a failover a held lock may be free there',
      'set global binlog_format = ROW or MIXED',
    ),
  ];
}

async function follows(session: MysqlSession): Promise<boolean | undefined> {
  for (const statement of ['show all slaves status', 'show replica status', 'show slave status']) {
    try {
      return (await session.show(statement)).length > 0;
    } catch {
      // Unknown to this kind of server, or not ours to know.
    }
  }
  return undefined;
}

/** Who may see the connections of others sees those of replicas. MariaDB counts them for everybody. */
async function countReplicas(session: MysqlSession, variables: Variables): Promise<number> {
  const [seen] = await session.ask<number>(
    "select cast(count(*) as char) from information_schema.processlist where command like 'Binlog Dump%'",
  );
  return Math.max(seen ?? 0, Number(variables.get('Slaves_connected') ?? 0));
}
