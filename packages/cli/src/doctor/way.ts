import { isIP } from 'node:net';
import { type Finding, info, ok, warning } from './finding.js';

/** The way to the store: whether others can listen. */
export function judgeWay(
  host: string | undefined,
  tls: { readonly checked: boolean } | undefined,
  how: string,
): Finding {
  const code = 'encryption';
  if (tls?.checked === true) return ok(code, 'TLS, and the certificate is checked');
  if (tls !== undefined)
    return warning(
      code,
      'TLS, but the certificate is not checked',
      'whoever can redirect the connection can pose as the store, and read the password',
      'name the authority instead of turning the check off',
    );
  if (host === undefined || isLocal(host))
    return ok(code, 'none, and none needed: the store is on this host');
  return (isPrivate(host) ? info : warning)(
    code,
    `none, to ${host}`,
    'whoever can listen on the way reads password and names, and can free locks',
    `${how}, unless the network is trusted`,
  );
}

function isLocal(host: string): boolean {
  return host.startsWith('/') || /^(localhost|127\..*|::1)$/i.test(host);
}

function isPrivate(host: string): boolean {
  return isIP(host) === 0
    ? !host.includes('.')
    : /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|f[cd])/i.test(host);
}
