import type { Client } from 'pg';
import { error, type Finding, info, ok, warning } from './finding.js';

interface Facts {
  readonly standby: boolean;
  readonly readonly: string;
  readonly wanted: string;
  readonly commit: string;
  readonly replicas: readonly { readonly name: string | null; readonly sync: string | null }[];
}

const FACTS = `select json_build_object(
  'standby', pg_is_in_recovery(),
  'readonly', current_setting('default_transaction_read_only'),
  'wanted', current_setting('synchronous_standby_names'),
  'commit', current_setting('synchronous_commit'),
  'replicas', (select coalesce(json_agg(json_build_object('name', application_name, 'sync', sync_state)), '[]')
    from pg_stat_replication)) as facts`;

const AFTER_FAILOVER =
  'a lock or slot that was granted just before a failover may be unknown to the new primary, which grants it again';

export async function examineReplication(client: Client): Promise<readonly Finding[]> {
  const { rows } = await client.query<{ facts: Facts }>(FACTS);
  const { standby, readonly, wanted, commit, replicas } = (rows as [{ facts: Facts }])[0].facts;
  if (standby)
    return [
      error('role', 'a standby', 'it is read-only: no lock can be taken here', 'name the primary in the URL'),
    ];
  if (readonly === 'on')
    return [
      error(
        'role',
        'primary, but default_transaction_read_only is on',
        'no lock can be taken by this user or in this database',
        'alter role … set default_transaction_read_only = off, or another user',
      ),
    ];
  return [ok('role', 'primary'), replication(wanted, commit, replicas)];
}

function replication(wanted: string, commit: string, replicas: Facts['replicas']): Finding {
  const code = 'replication';
  if (replicas.length === 0 && wanted === '')
    return info(code, 'no replica is attached at present', 'nothing takes over if this server is lost');
  if (wanted === '')
    return warning(
      code,
      `${replicas.length} asynchronous ${replicas.length === 1 ? 'replica' : 'replicas'}`,
      AFTER_FAILOVER,
      'set synchronous_standby_names (and synchronous_commit on), let what is guarded check the fencing token, or ' +
        'wait for the longest --at-most-for before a promoted server is let in',
    );
  if (commit === 'off' || commit === 'local')
    return warning(
      code,
      `synchronous_standby_names is ${wanted}, but synchronous_commit is ${commit} here`,
      AFTER_FAILOVER,
      'set synchronous_commit = on for this user',
    );
  return ok(code, `synchronous: ${wanted}, ${replicas.length} attached`);
}
