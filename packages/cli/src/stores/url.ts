import { UsageError } from '../errors.js';
import { decoded, redact } from '../redact.js';

/** `scheme://user:password@host:port,host:port/path/path?name=value`, taken apart. */
export interface UrlParts {
  /** In lower case. */
  readonly scheme: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly hosts: readonly Host[];
  readonly path: readonly string[];
  readonly params: ReadonlyMap<string, string>;
}

export interface Host {
  readonly host: string;
  readonly port: number | undefined;
}

// No @ after the host: it would stand behind a password with a / in it, of which we would take the rest for a path.
const PARTS = /^([a-z][a-z0-9+.-]*):\/\/(?:([^/?#]*)@)?([^/?#@]*)((?:\/[^?#@]*)?)(?:\?([^#@]*))?$/is;
const HOST = /^(?:\[([0-9a-f:.%]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/i;
const LAST_PORT = 65_535;

/**
 * Reads a URL that may name several hosts, as the standard parser does not.
 *
 * @param accepted the parameters that the kind of store knows
 * @throws UsageError that shows neither password nor user
 */
export function parseStoreUrl(url: string, form: string, accepted: readonly string[]): UrlParts {
  const refuse = (why: string): never => {
    throw new UsageError(`The store ${JSON.stringify(redact(url))} ${why}`);
  };
  const parts = PARTS.exec(url.trim());
  if (parts === null)
    return refuse(`can not be read. Accepted: ${form}, with @ / ? # in a user or password escaped (%40 …).`);
  const [, scheme = '', userInfo, authority = '', path = '', query = ''] = parts;
  const colon = userInfo?.indexOf(':') ?? -1;
  const user = colon < 0 ? userInfo : userInfo?.slice(0, colon);
  const hosts = authority === '' ? [] : authority.split(',').map(readHost);
  if (hosts.includes(undefined)) return refuse(`has a host that can not be read. Accepted: ${form}.`);

  const params = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (!accepted.includes(name))
      return refuse(`has the parameter ${JSON.stringify(name)}. Accepted: ${accepted.join(', ')}.`);
    if (params.has(name)) return refuse(`has the parameter ${name} twice. Accepted: once.`);
    if (value === '') return refuse(`has the parameter ${name} without a value.`);
    params.set(name, value);
  }
  return {
    scheme: scheme.toLowerCase(),
    user: user ? decoded(user) : undefined,
    password: colon < 0 ? undefined : decoded(userInfo?.slice(colon + 1) ?? '') || undefined,
    hosts: hosts as Host[],
    path: path.split('/').slice(1).filter(Boolean).map(decoded),
    params,
  };
}

function readHost(text: string): Host | undefined {
  const [, bracketed, plain, digits] = HOST.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = digits === undefined ? undefined : Number(digits);
  if (host === undefined || (port !== undefined && (port < 1 || port > LAST_PORT))) return undefined;
  return { host: decoded(host), port };
}
