import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findBinary } from '../../../scripts/stores/table.js';

const openssl = findBinary('openssl');

/** Why there can be no certificates, if so. */
export const noOpenssl: string | undefined =
  openssl === undefined ? 'openssl is not on this machine; on Debian: apt-get install openssl' : undefined;

/** An authority that lives as long as a test, and what it has signed. */
export class Authority {
  readonly #folder = mkdtempSync(join(tmpdir(), 'joblatch-ca-'));
  /** The file that tells others whom to trust. */
  readonly file = this.#path('ca.pem');

  constructor() {
    this.#openssl(
      'req',
      '-x509',
      ...FRESH_KEY,
      '-keyout',
      'ca.key',
      '-out',
      'ca.pem',
      '-subj',
      '/CN=for a test',
    );
  }

  /** Certificate and key of a server, in its folder or in ours. */
  issue(name: string, altName: string, folder = this.#folder): { cert: string; key: string } {
    const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
    const request = this.#path(`${name}.csr`);
    this.#openssl('req', ...FRESH_KEY, '-keyout', key, '-out', request, '-subj', `/CN=${name}`);
    writeFileSync(this.#path('names'), `subjectAltName=${altName}\n`);
    const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'];
    this.#openssl('x509', '-req', ...by, '-in', request, '-out', cert, '-days', '2', '-extfile', 'names');
    return { cert, key };
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #openssl(...args: readonly string[]): void {
    execFileSync(openssl as string, args, { cwd: this.#folder, stdio: 'pipe' });
  }
}

const FRESH_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
