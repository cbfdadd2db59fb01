import { isLockError } from 'joblatch';
import { EXIT_INTERNAL, EXIT_STORE, EXIT_USAGE, exitCodeOfSignal } from './exit-codes.js';
import { redact } from './redact.js';
import { textOf } from './text-of.js';

/** The request can not be right. The message says what was given and what is accepted. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command could not be started; the status is the one that shells use for it. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** There is no store, or it can not be reached. */
export class NoStoreError extends Error {
  override readonly name = 'NoStoreError';
}

/** Asked to end before the command had started. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`${signal} came before the command was started; nothing was run`);
    this.signal = signal;
  }
}

export interface Failure {
  readonly exitCode: number;
  /** For programs: what kind of failure it is. */
  readonly code: string;
  readonly message: string;
}

/** Every way to fail, and the exit status that it has. The message goes into reports too, so it holds no password. */
export function failureOf(error: unknown): Failure {
  const failure = classify(error);
  return { ...failure, message: redact(failure.message) };
}

function classify(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UsageError) return { exitCode: EXIT_USAGE, code: 'USAGE', message };
  if (error instanceof CommandError) return { exitCode: error.exitCode, code: 'COMMAND', message };
  if (error instanceof InterruptedError) {
    return { exitCode: exitCodeOfSignal(error.signal), code: 'INTERRUPTED', message };
  }
  if (error instanceof NoStoreError)
    return { exitCode: EXIT_STORE, code: 'STORE', message: withCause(error) };
  if (isLockError(error, 'OPTIONS')) return { exitCode: EXIT_USAGE, code: 'OPTIONS', message };
  if (isLockError(error, 'STORE')) return { exitCode: EXIT_STORE, code: 'STORE', message: withCause(error) };
  return { exitCode: EXIT_INTERNAL, code: 'INTERNAL', message };
}

/** What a client last said of its connection. */
let trouble: string | undefined;

/** For clients that go on trying, and so leave it to a time-out to say that there was no answer. */
export function noteTrouble({ message }: Error): void {
  // That a connection is closed is what follows from the trouble.
  if (trouble === undefined || !/Connection is closed/.test(message)) trouble = message || trouble;
}

/** The driver's own words say best why a store can not be used. */
function withCause(error: Error): string {
  const cause = error.cause instanceof Error ? textOf(error.cause) : undefined;
  const said = [cause, trouble].find((text) => text && !error.message.includes(text.replace(/\.$/, '')));
  const message = said === undefined ? error.message : `${error.message} (${said})`;
  const remedy = CERTIFICATE_REMEDIES.find(([words]) => words.test(message))?.[1];
  if (remedy === undefined) return message;
  return `${/[.?]$/.test(message) ? message : `${message}.`} ${remedy}`;
}

/** What Node says of a certificate that it does not take, and what to do about it. */
const CERTIFICATE_REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /does not match certificate/i,
    "Name the host in the store's URL as the certificate does; or add servername=NAME for Redis, sslmode=verify-ca for the others.",
  ],
  [
    /\bcertificate\b/i,
    "Name its authority in the store's URL: ca=FILE for Redis, sslrootcert=FILE for the others.",
  ],
];
