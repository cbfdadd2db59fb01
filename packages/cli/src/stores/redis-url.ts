import type { ConnectionOptions } from 'node:tls';
import { UsageError } from '../errors.js';
import { readParameterFile } from './files.js';
import { type Host, parseStoreUrl } from './url.js';

export const REDIS_FORMS = [
  'redis://USER@HOST:PORT/DB?env=…&prefix=…, and rediss:// with TLS',
  'redis+sentinel://HOST,HOST/PRIMARY_NAME, redis+cluster://HOST,HOST, and rediss+… with TLS',
] as const;

const OWN = ['env', 'prefix'];
const TLS = ['ca', 'cert', 'key', 'servername', 'rejectUnauthorized'];
const REDIS_PORT = 6_379;
const SENTINEL_PORT = 26_379;

export interface RedisTarget {
  readonly mode: 'single' | 'sentinel' | 'cluster';
  readonly hosts: readonly (Host & { readonly port: number })[];
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly db: number;
  /** With Sentinel: what it calls the primary. */
  readonly primary: string | undefined;
  /** Whether Sentinels take the same user and password as the servers; by default they take none. */
  readonly sentinelAuth: boolean;
  readonly tls: ConnectionOptions | undefined;
  readonly names: { readonly environment?: string; readonly keyPrefix?: string };
}

/** @throws UsageError */
export function readRedisUrl(url: string): RedisTarget {
  const [, secure, kind] = /^redis(s?)(?:\+(sentinel|cluster))?:/i.exec(url) ?? [];
  const mode = (kind?.toLowerCase() ?? 'single') as RedisTarget['mode'];
  const form = mode === 'single' ? REDIS_FORMS[0] : REDIS_FORMS[1];
  const { user, password, hosts, path, params } = parseStoreUrl(url, form, [
    ...OWN,
    ...(mode === 'sentinel' ? ['db', 'sentinelAuth'] : []),
    ...(secure ? TLS : []),
  ]);
  if (hosts.length > 1 && mode === 'single')
    throw new UsageError(`redis:// has one host, and ${hosts.length} were given. Accepted: ${form}.`);
  if (hosts.length === 0 && mode !== 'single')
    throw new UsageError(`redis+${mode}:// has no host. Accepted: ${form}.`);
  if (mode === 'sentinel' && path.length !== 1)
    throw new UsageError(`redis+sentinel:// names no primary after its hosts. Accepted: ${form}.`);
  if (mode === 'cluster' && path.length > 0)
    throw new UsageError(`redis+cluster:// has nothing after its hosts. Accepted: ${form}.`);
  if (path.length > 1) throw new UsageError(`redis:// has one database after its host. Accepted: ${form}.`);
  const usual = mode === 'sentinel' ? SENTINEL_PORT : REDIS_PORT;
  const known = hosts.length === 0 ? [{ host: '127.0.0.1', port: undefined }] : hosts;
  return {
    mode,
    hosts: known.map(({ host, port = usual }) => ({ host, port })),
    user,
    password,
    db: readNumber(mode === 'single' ? path[0] : params.get('db')),
    primary: mode === 'sentinel' ? path[0] : undefined,
    sentinelAuth: readWord(params.get('sentinelAuth'), 'sentinelAuth', 'same'),
    tls: secure ? readTls(params) : undefined,
    names: {
      ...(params.has('env') && { environment: params.get('env') as string }),
      ...(params.has('prefix') && { keyPrefix: params.get('prefix') as string }),
    },
  };
}

function readTls(params: ReadonlyMap<string, string>): ConnectionOptions {
  const options: ConnectionOptions = {};
  for (const name of ['ca', 'cert', 'key'] as const) {
    const path = params.get(name);
    if (path !== undefined) options[name] = readParameterFile(path, name);
  }
  const servername = params.get('servername');
  if (servername !== undefined) options.servername = servername;
  // Only said, never assumed: whoever answers could be anybody then.
  if (readWord(params.get('rejectUnauthorized'), 'rejectUnauthorized', 'false'))
    options.rejectUnauthorized = false;
  return options;
}

/** A parameter that has one meaning, or is left out. */
function readWord(value: string | undefined, name: string, word: string): boolean {
  if (value === undefined || value === word) return value !== undefined;
  throw new UsageError(`${name} is ${JSON.stringify(value)}. Accepted: ${name}=${word}, or nothing.`);
}

function readNumber(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new UsageError(`The database of Redis is ${JSON.stringify(text)}. Accepted: a number from 0 up.`);
}
