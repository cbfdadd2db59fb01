import type { RedisTarget } from '../stores/redis-url.js';
import { error, type Finding, info as note, ok, warning } from './finding.js';
import type { RedisFacts } from './redis-facts.js';

export function judgeRole(facts: RedisFacts, { mode }: RedisTarget): readonly Finding[] {
  const { info } = facts;
  if (info.get('role') === 'slave')
    return [
      error(
        'role',
        `a replica of ${info.get('master_host')}:${info.get('master_port')}`,
        'it is read-only: no lock can be taken here',
        'name the primary, or the Sentinels with redis+sentinel://',
      ),
    ];
  const clustered = info.get('cluster_enabled') === '1';
  if (clustered && mode !== 'cluster')
    return [
      error(
        'role',
        'a member of a cluster',
        'names whose hash slot is on another member can not be locked',
        'redis+cluster://HOST,HOST',
      ),
    ];
  return [ok('role', clustered ? 'primary, in a cluster' : 'primary'), replication(facts)];
}

function replication({ info, config }: RedisFacts): Finding {
  const code = 'replication';
  const replicas = Number(info.get('connected_slaves') ?? 0);
  if (replicas === 0)
    return note(code, 'no replica is attached at present', 'nothing takes over if this server is lost');
  const least = config.get('min-replicas-to-write');
  const guard = least === undefined || least === '0' ? '' : `, min-replicas-to-write is ${least}`;
  return warning(
    code,
    `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}, always asynchronous${guard}`,
    'a lock or slot that was granted just before a failover may be unknown to the new primary, which grants it again',
    'let what is guarded check the fencing token; min-replicas-to-write makes it less likely. Where it must not happen, use PostgreSQL with synchronous replication',
  );
}
