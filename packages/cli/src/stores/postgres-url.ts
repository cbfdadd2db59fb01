import type { ConnectionOptions } from 'node:tls';
import type { ClientConfig } from 'pg';
import { UsageError } from '../errors.js';
import { readParameterFile } from './files.js';
import { parseStoreUrl } from './url.js';

export const POSTGRES_FORM = 'postgres://USER@HOST:PORT/DATABASE';

const PARAMETERS = [
  'table',
  'schema',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'host',
  'application_name',
  'options',
] as const;

/** What libpq and `psql` call them. Those that may fall back to an open connection are not among them. */
const SSL_MODES = ['disable', 'no-verify', 'verify-ca', 'require', 'verify-full'];

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

/** Certificates are checked unless `no-verify` says otherwise; `undefined` leaves it to PGSSLMODE. */
function readSsl(params: ReadonlyMap<string, string>): ConnectionOptions | false | undefined {
  const given = params.get('sslmode');
  const file = (name: string): string | undefined => {
    const path = params.get(name);
    return path === undefined ? undefined : readParameterFile(path, name);
  };
  const files = {
    // As libpq: the word for the authorities that the system trusts, which is what Node does anyway.
    ca: params.get('sslrootcert') === 'system' ? undefined : file('sslrootcert'),
    cert: file('sslcert'),
    key: file('sslkey'),
  };
  const some = ['sslrootcert', 'sslcert', 'sslkey'].some((name) => params.has(name));
  const mode = given ?? (some ? 'verify-full' : undefined);
  if (mode === undefined) return undefined;
  const known = Object.entries(files).filter(([, text]) => text !== undefined);
  const options = Object.fromEntries(known) as ConnectionOptions;
  switch (mode) {
    case 'disable':
      return false;
    case 'no-verify':
      return { ...options, rejectUnauthorized: false };
    case 'verify-ca':
      return { ...options, checkServerIdentity: () => undefined };
    case 'require':
    case 'verify-full':
      return options;
    default:
      throw new UsageError(
        `sslmode is ${JSON.stringify(mode)}. Accepted: ${SSL_MODES.join(', ')} (require checks the certificate too; ` +
          'modes that may go on without encryption are not supported).',
      );
  }
}
