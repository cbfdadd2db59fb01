import { defineJob } from '../jobs/create-job.js';
import type { JobOptions } from '../jobs/job.js';
import type { Locks } from '../locks.js';
import { LockLostError, LockOptionsError } from '../provider/errors.js';
import { LONGEST_DURATION_MS } from '../provider/values.js';
import { claimDefaultName, homeOf, nameOf } from './default-name.js';
import { disguise, type Method } from './wrap.js';

export interface SchedulerLockOptions extends JobOptions {
  /** The client, or a function that gives it when the method is called. Default: see {@link setDefaultLocks}. */
  readonly locks?: Locks | (() => Locks) | undefined;
}

/** What may be decorated: methods that give nothing or a promise. A skipped call gives undefined. */
// biome-ignore lint/suspicious/noConfusingVoidType: it is the type of a method that gives nothing
type Lockable = (...args: never[]) => Promise<unknown> | void;

/** Works as a legacy decorator (`experimentalDecorators`) and as a standard (TC39) one. */
export interface SchedulerLockDecorator {
  <T extends Lockable>(method: T, context: ClassMethodDecoratorContext): T;
  <T extends Lockable>(target: object, key: string | symbol, descriptor: TypedPropertyDescriptor<T>): void;
}

let defaultLocks: Locks | undefined;

/** The client of decorated methods that name none. Say it once at start; undefined takes it back. */
export function setDefaultLocks(locks: Locks | undefined): void {
  defaultLocks = locks;
}

/**
 * Makes a method a job: each call tries the lock once, and runs the method only if it is had. Direct calls are
 * locked too. Goes above or below another decorator, whose metadata stays.
 *
 * The method then gives a promise: of what it returned, or of undefined when the call was skipped. It rejects
 * with the method's own error, or with a `LockLostError` if the lock was lost meanwhile. Inside,
 * `currentJob()` gives the job's signal and token.
 *
 * @throws LockOptionsError where the class is defined, for options that can not be right. Without `name` the
 * name is `Class.method`, and a second method of that name is refused (with standard decorators, when the first
 * instance is made, since only then the class is known).
 */
export function SchedulerLock(
  options: SchedulerLockOptions,
  ...none: readonly never[]
): SchedulerLockDecorator {
  if (typeof options !== 'object' || options === null || none.length > 0) {
    throw new LockOptionsError(
      '@SchedulerLock takes options in parentheses: @SchedulerLock({ lockAtMostFor: … }).',
    );
  }
  return ((target: object, key: unknown, descriptor?: PropertyDescriptor): unknown =>
    isStandard(key)
      ? decorateStandard(options, target as Method, key)
      : decorateLegacy(options, target, key as string | symbol, descriptor)) as SchedulerLockDecorator;
}

function isStandard(context: unknown): context is ClassMethodDecoratorContext {
  return typeof context === 'object' && context !== null && 'kind' in context;
}

function decorateStandard(
  options: SchedulerLockOptions,
  method: Method,
  context: ClassMethodDecoratorContext,
): Method {
  refuseUnlessMethod(context.kind === 'method' ? method : undefined, context.name);
  let name = options.name;
  const wrapper = lock(options, method, () => {
    if (name !== undefined) return name;
    throw new LockOptionsError(
      `The method ${String(context.name)} was called before an instance of its class was made, and until then its job ` +
        'has no name: say @SchedulerLock({ name: … }).',
    );
  });
  context.addInitializer(function (this: unknown) {
    name ??= claimDefaultName(nameOf(homeOf(Object(this), context, wrapper), context.name), wrapper);
  });
  return wrapper;
}

function decorateLegacy(
  options: SchedulerLockOptions,
  target: object,
  key: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): void {
  refuseUnlessMethod(descriptor?.value, key);
  const method = (descriptor as PropertyDescriptor).value as Method;
  const name = options.name ?? claimDefaultName(nameOf(target, key), method);
  (descriptor as PropertyDescriptor).value = lock(options, method, () => name);
}

function refuseUnlessMethod(value: unknown, name: string | symbol): void {
  if (typeof value === 'function') return;
  throw new LockOptionsError(`@SchedulerLock goes on a method, and ${String(name)} is none.`);
}

/** With these, whatever an option says is checked where the class is defined, before there is a client. */
const NO_CLIENT_YET = { atMostMs: LONGEST_DURATION_MS, atLeastMs: 0, keepAlive: false } as const;

function lock(options: SchedulerLockOptions, method: Method, nameNow: () => string): Method {
  const { locks, ...jobOptions } = options;
  defineJob({ ...jobOptions, name: options.name ?? (method.name || 'method') }, method, NO_CLIENT_YET);

  const locked = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
    const name = nameNow();
    const client = (typeof locks === 'function' ? locks() : locks) ?? defaultLocks;
    if (client === undefined) {
      throw new LockOptionsError(
        `The job ${JSON.stringify(name)} has no client: say @SchedulerLock({ locks }), or setDefaultLocks(locks) at start.`,
        { key: name },
      );
    }
    const outcome = await client.job({ ...jobOptions, name }, () => method.apply(this, args))();
    if (outcome.status === 'ran') return outcome.value;
    if (outcome.status === 'skipped') return undefined;
    if ('error' in outcome) throw outcome.error;
    throw new LockLostError(
      `The lock of job ${JSON.stringify(name)} was lost before the method ended; another instance may have run it too.`,
      { key: name, detectedBy: outcome.detectedBy, result: outcome.value },
    );
  };
  return disguise(locked, method);
}
