import { GaveUp } from '../../provider/abandoning.js';
import { isLockError, LockStoreError, type StoreOperation } from '../../provider/errors.js';

/** Gave up while the client was not connected. */
export class NotConnected extends GaveUp {}

/** The client can not be used as it is; its message says what to do. */
export class ClientRefused extends Error {}

/** The error of a command. GLIDE turns `NOSCRIPT` into `NoScriptError`, and so on. */
function isReply(error: unknown, code: RegExp): boolean {
  return error instanceof Error && code.test(error.message);
}

/** The server does not know the script (yet, or after SCRIPT FLUSH, a restart, a failover). */
export function isUnknownScript(error: unknown): boolean {
  return isReply(error, /NOSCRIPT|NoScriptError/);
}

/** Keys of several hash slots in one script: the server is part of a cluster. */
export function isCrossSlot(error: unknown): boolean {
  return isReply(error, /CROSSSLOT|CrossSlot|in different slots|same slot|same hash slot/i);
}

export function isWrongType(error: unknown): boolean {
  return isReply(error, /WRONGTYPE|WrongType|wrong kind of value/i);
}

/** What servers answer, and what to do about it. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /READONLY|ReadOnly|read only replica/i,
    'The server is a replica. Give a client of the primary; Sentinel and cluster clients find it by themselves.',
  ],
  [
    /NOAUTH|WRONGPASS|invalid username-password|Authentication/i,
    'Give the client a user and a password that the server takes.',
  ],
  [
    /NOPERM|no permissions/i,
    'Allow the user EVAL, EVALSHA, GET, SET, DEL, EXISTS, PTTL, PEXPIRE, TIME, TYPE and SCAN on the keys of the locks.',
  ],
  [/\bOOM\b|maxmemory/i, 'The server has no memory left. Raise maxmemory, or remove what is not needed.'],
  [/MISCONF|NOREPLICAS/i, 'The server refuses writes at present; its configuration says when.'],
  [/\bLOADING\b|BusyLoading/i, 'The server is loading its data. It will answer soon.'],
  [/\bBUSY\b|BusyError/, 'A script of somebody keeps the server busy.'],
  [/CLUSTERDOWN|ClusterDown|TRYAGAIN/i, 'The cluster is being changed, or some hash slots are not served.'],
  [/\bMOVED\b|\bASK\b/, 'The server is part of a cluster. Give a client of the cluster.'],
  [
    /only \(?P?\|?S?\)?.*SUBSCRIBE|subscriber mode|Can't execute/i,
    'The connection is subscribed. Give joblatch a client of its own.',
  ],
  [/non.?deterministic|not allowed after/i, 'The server is older than Redis 5. Update it.'],
];

export interface Place {
  readonly operation: StoreOperation;
  readonly key?: string | undefined;
  readonly library: string;
}

/** The error for callers: what was asked, what was found, what to do. Errors of ours go through as they are. */
export function asStoreError(error: unknown, { operation, key, library }: Place): unknown {
  if (isLockError(error)) return error;
  const asked = key === undefined ? operation : `${operation} of ${JSON.stringify(key)}`;
  return new LockStoreError(`${asked} failed on Redis: ${explain(error, library)}`, {
    operation,
    key,
    cause: withoutSecrets(error instanceof GaveUp ? error.cause : error),
  });
}

function explain(error: unknown, library: string): string {
  if (error instanceof GaveUp) {
    if (error.waitedMs === 0) return 'the caller gave up before it began.';
    const waited = `within ${Math.round(error.waitedMs)} ms`;
    if (error instanceof NotConnected) {
      const last = error.cause === undefined ? '' : ` (${messageOf(error.cause).replace(/\.$/, '')})`;
      return `the client (${library}) was not connected ${waited}${last}. Is the server up and reachable?`;
    }
    return `there was no answer ${waited}. Is the server up and reachable, and the client not blocked?`;
  }
  const found = messageOf(error).replace(/\.$/, '');
  if (error instanceof ClientRefused) return `the client (${library}) can not be used: ${found}.`;
  const remedy = REMEDIES.find(([code]) => code.test(found))?.[1];
  return remedy === undefined ? `${found}.` : `${found}. ${remedy}`;
}

/** Of several addresses that were all tried, Node's error itself has no message. */
function messageOf(error: unknown): string {
  const { message, errors, code, lastNodeError } = (error ?? {}) as Partial<Record<string, unknown>>;
  const own = typeof message === 'string' ? message : String(error);
  const inner = Array.isArray(errors) ? errors.map(messageOf).join('; ') : '';
  const found = scrub(own || inner || String(code ?? 'unknown error'));
  // What a cluster of ioredis says itself is only that it has found no node.
  return lastNodeError === undefined ? found : `${found.replace(/\.$/, '')}: ${messageOf(lastNodeError)}`;
}

/**
 * A copy without what clients hang on their errors: ioredis the command with its arguments, which of AUTH are the
 * password.
 */
export function withoutSecrets(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error === 'string' ? scrub(error) : error;
  const copy = new Error(messageOf(error));
  copy.name = error.name;
  if (error.stack !== undefined) copy.stack = scrub(error.stack);
  if ('code' in error && typeof error.code === 'string') Object.assign(copy, { code: error.code });
  return copy;
}

function scrub(text: string): string {
  return text.replace(/(\w+:\/\/)[^\s/@]*@/g, '$1…@');
}
