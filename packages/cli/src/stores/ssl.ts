import type { ConnectionOptions } from 'node:tls';
import { UsageError } from '../errors.js';
import { readParameterFile } from './files.js';

/** What libpq and `psql` call them; the same for all databases of SQL. */
export const SSL_PARAMETERS = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey'] as const;

/** Those that may fall back to an open connection are not among them. */
const SSL_MODES = ['disable', 'no-verify', 'verify-ca', 'require', 'verify-full'];

/** Certificates are checked unless `no-verify` says otherwise; `undefined` if nothing is said. */
export function readSsl(params: ReadonlyMap<string, string>): ConnectionOptions | false | undefined {
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
