import { checkSlot, readSlot } from '../lock/acquire.js';
import type { LockClient } from '../lock/client.js';
import type { Settings } from '../lock/options.js';
import { LockOptionsError } from '../provider/errors.js';
import { checkKey, parseDuration, refuseUnknown, show } from '../provider/values.js';
import type { Job, JobFunction, JobOptions, Outcome } from './job.js';
import { runJob } from './run-job.js';

/** The default names that a client has given out: two jobs of one would exclude each other by accident. */
export type DefaultNames = Set<string>;

export function createJob<T>(
  client: LockClient,
  defaultNames: DefaultNames,
  options: JobOptions,
  fn: JobFunction<T>,
): Job<T> {
  const definition = defineJob(options, fn, client.settings);
  claimDefaultName(definition, defaultNames);
  const run = async (arg?: unknown): Promise<Outcome<T>> =>
    runJob(client, definition, fn, slotFrom(arg, definition.name));
  const tick = (): void => {
    runJob(client, definition, fn, undefined).catch((error: unknown) => {
      client.events.emit('error', { key: definition.name, error });
    });
  };
  return Object.assign(run, { tick, jobName: definition.name });
}

function claimDefaultName({ name, named }: JobDefinition, defaultNames: DefaultNames): void {
  if (named === 'explicitly') return;
  if (defaultNames.has(name)) {
    throw new LockOptionsError(
      `Two jobs have the default name ${JSON.stringify(name)}, so they would exclude each other. ` +
        'Give each a name of its own: { name: … }.',
      { key: name },
    );
  }
  defaultNames.add(name);
}

/**
 * Schedulers call with all sorts of arguments (a Date, a context of theirs, `done`); only a plain object says
 * a slot, and only as its own property.
 */
function slotFrom(arg: unknown, name: string): number | undefined {
  if (!isPlainObject(arg) || !Object.hasOwn(arg, 'slot')) return undefined;
  const { slot } = arg as { readonly slot: unknown };
  const ms = slot instanceof Date ? slot.getTime() : slot;
  // Who says a slot means one: undefined comes from a misspelt property, and must not run without.
  return checkSlot(`job ${JSON.stringify(name)}`, ms);
}

function isPlainObject(arg: unknown): arg is object {
  if (typeof arg !== 'object' || arg === null) return false;
  const prototype: unknown = Object.getPrototypeOf(arg);
  return prototype === Object.prototype || prototype === null;
}

/** A job's options, read and checked where it is defined. */
export interface JobDefinition {
  readonly name: string;
  readonly named: 'explicitly' | 'by default';
  readonly atMostMs: number;
  readonly atLeastMs: number;
  readonly keepAlive: boolean;
  readonly oncePerMs: number | undefined;
  readonly perSlot: 'at-most-once' | 'at-least-once';
}

/** What the client says for jobs that do not. */
export type JobDefaults = Pick<Settings, 'atMostMs' | 'atLeastMs' | 'keepAlive'>;

const NAMES: ReadonlySet<string> = new Set<keyof JobOptions>([
  'name',
  'lockAtMostFor',
  'lockAtLeastFor',
  'keepAlive',
  'oncePer',
  'perSlot',
]);

const PER_SLOT: ReadonlySet<unknown> = new Set(['at-most-once', 'at-least-once']);

/** @throws LockOptionsError with the job's name, the value that was found and what is accepted */
export function defineJob(options: JobOptions, fn: unknown, settings: JobDefaults): JobDefinition {
  refuseUnknown(options, NAMES, 'A job');
  if (typeof fn !== 'function') {
    throw new LockOptionsError(`A job takes options and a function, and the function is ${show(fn)}.`);
  }
  const name = readName(options, fn);
  const of = (option: string): string => `${option} of job ${JSON.stringify(name)}`;
  const fail = (message: string): never => {
    throw new LockOptionsError(message, { key: name });
  };

  const atMost = options.lockAtMostFor ?? settings.atMostMs;
  if (atMost === undefined) {
    fail(
      `Job ${JSON.stringify(name)} has no lockAtMostFor, and the client no defaultLockAtMostFor: say after how long ` +
        'the key frees itself if the process dies, for instance "10m".',
    );
  }
  const atMostMs = parseDuration(atMost, of('lockAtMostFor'));
  const atLeastMs = parseDuration(options.lockAtLeastFor ?? settings.atLeastMs, of('lockAtLeastFor'), {
    min: 0,
  });
  if (atLeastMs > atMostMs) {
    fail(`${of('lockAtLeastFor')} is ${atLeastMs} ms, more than its lockAtMostFor of ${atMostMs} ms.`);
  }
  const keepAlive = options.keepAlive ?? settings.keepAlive;
  if (typeof keepAlive !== 'boolean')
    fail(`${of('keepAlive')} is ${show(keepAlive)}. Accepted: true or false.`);
  const perSlot = options.perSlot ?? 'at-most-once';
  if (!PER_SLOT.has(perSlot)) {
    fail(`${of('perSlot')} is ${show(perSlot)}. Accepted: 'at-most-once' or 'at-least-once'.`);
  }
  const { oncePerMs } = readSlot(`job ${JSON.stringify(name)}`, { oncePer: options.oncePer });
  return {
    name,
    named: options.name === undefined ? 'by default' : 'explicitly',
    atMostMs,
    atLeastMs,
    keepAlive,
    oncePerMs,
    perSlot,
  };
}

function readName(options: JobOptions, fn: { readonly name?: string }): string {
  const name = options.name ?? fn.name;
  if (name === '' && options.name === undefined) {
    throw new LockOptionsError('A job needs a name: its function is anonymous, so say { name: … }.');
  }
  return checkKey(name, 'name of the job');
}
