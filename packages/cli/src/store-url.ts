import { readFileSync } from 'node:fs';
import { UsageError } from './errors.js';
import { hideSecret, passwordIn } from './redact.js';

const URL_VARIABLE = 'JOBLATCH_STORE';
const PASSWORD_VARIABLE = 'JOBLATCH_STORE_PASSWORD';

/**
 * Where the store is, as the user said it: `--store`, `$JOBLATCH_STORE` or the file `$JOBLATCH_STORE_FILE`;
 * undefined if nobody did. A password from `$JOBLATCH_STORE_PASSWORD` or its `_FILE` is put into a URL that
 * has none. From here on no message shows the password.
 */
export function storeUrl(
  option: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
): string | undefined {
  if (option?.trim() === '')
    throw new UsageError('--store is empty. Accepted: a store, see "joblatch run --help".');
  const url = option ?? fromEnvironment(URL_VARIABLE, env);
  const inUrl = url === undefined ? undefined : passwordIn(url);
  if (inUrl !== undefined) hideSecret(inUrl);
  // Read, and so hidden, even when the URL has its own: it could turn up in a message all the same.
  const password = fromEnvironment(PASSWORD_VARIABLE, env);
  if (password !== undefined) hideSecret(password);
  return url === undefined || password === undefined || inUrl !== undefined
    ? url
    : withPassword(url, password);
}

/** Puts a password into `scheme://host` and `scheme://user@host`. A store without a host has no use for one. */
export function withPassword(url: string, password: string): string {
  const parts = /^([a-z][a-z0-9+.-]*:\/\/)(?:(.*)@)?(.*)$/is.exec(url);
  if (parts === null || /^(?:sqlite|file):/i.test(url)) return url;
  const [, scheme, user = '', rest] = parts;
  return `${scheme}${user}:${encodeURIComponent(password)}@${rest}`;
}

/** The environment that the command gets: that of joblatch, less the passwords. */
export function withoutPasswords(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { [PASSWORD_VARIABLE]: _password, ...rest } = env;
  const url = rest[URL_VARIABLE];
  // The place of the store stays, so that a joblatch inside the command fails for want of the password. Without
  // the place it would fall back to a file on this host and lock nobody out, in silence.
  return url === undefined || passwordIn(url) === undefined
    ? rest
    : { ...rest, [URL_VARIABLE]: url.replace(/^([^:]*:\/\/[^:]*):.*@/s, '$1@') };
}

/** The variable, or the file that the variable with `_FILE` names; an empty one counts as not set. */
function fromEnvironment(name: string, env: NodeJS.ProcessEnv): string | undefined {
  const value = env[name] || undefined;
  const path = env[`${name}_FILE`] || undefined;
  if (path === undefined) return value;
  if (value !== undefined) {
    throw new UsageError(`Both ${name} and ${name}_FILE are set. Accepted: one of them.`);
  }
  const text = readSecretFile(path, `${name}_FILE`);
  if (text === '') throw new UsageError(`${name}_FILE names ${JSON.stringify(path)}, which is empty.`);
  return text;
}

function readSecretFile(path: string, variable: string): string {
  try {
    // Editors end a file with a line break; it is never a part of what was meant.
    return readFileSync(path, 'utf8').replace(/[\r\n]+$/, '');
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : error;
    throw new UsageError(`${variable} names ${JSON.stringify(path)}, which can not be read (${reason}).`);
  }
}
