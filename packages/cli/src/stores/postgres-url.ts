import type { ClientConfig } from 'pg';
import { UsageError } from '../errors.js';
import { readSsl, SSL_PARAMETERS } from './ssl.js';
import { parseStoreUrl } from './url.js';

export const POSTGRES_FORM = 'postgres://USER@HOST:PORT/DATABASE';

const PARAMETERS = ['table', 'schema', ...SSL_PARAMETERS, 'host', 'application_name', 'options'] as const;

export interface PostgresTarget {
  readonly client: ClientConfig;
  readonly table: { readonly table?: string; readonly schema?: string };
  /** Whether what is said on the way can be read by others; `undefined` where the environment decides. */
  readonly encrypted: boolean | undefined;
}

/** @throws UsageError */
export function readPostgresUrl(url: string): PostgresTarget {
  const { user, password, hosts, path, params } = parseStoreUrl(url, POSTGRES_FORM, PARAMETERS);
  if (hosts.length > 1)
    throw new UsageError(
      `A PostgreSQL store has one host, and ${hosts.length} were given: locks are in one place. Accepted: ${POSTGRES_FORM}.`,
    );
  if (path.length > 1)
    throw new UsageError(`A PostgreSQL store has one database after the host. Accepted: ${POSTGRES_FORM}.`);
  const ssl = readSsl(params);
  const host = params.get('host') ?? hosts[0]?.host;
  const options = params.get('options');
  return {
    client: {
      // What is not said, pg takes from PGHOST, PGUSER, PGPASSWORD … as psql does.
      ...(host !== undefined && { host }),
      ...(hosts[0]?.port !== undefined && { port: hosts[0].port }),
      ...(user !== undefined && { user }),
      ...(password !== undefined && { password }),
      ...(path[0] !== undefined && { database: path[0] }),
      ...(options !== undefined && { options }),
      ...(ssl !== undefined && { ssl }),
      application_name: params.get('application_name') ?? 'joblatch',
    },
    table: {
      ...(params.has('table') && { table: params.get('table') as string }),
      ...(params.has('schema') && { schema: params.get('schema') as string }),
    },
    encrypted: ssl === undefined ? undefined : ssl !== false,
  };
}
