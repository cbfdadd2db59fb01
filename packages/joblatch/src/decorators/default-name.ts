import { LockOptionsError } from '../provider/errors.js';

const taken = new Map<string, object>();

/**
 * Claims `Class.method` for one decorated method. Two classes of the same name would exclude each other by
 * accident, and only in some processes, so the second is refused.
 *
 * @throws LockOptionsError
 */
export function claimDefaultName(name: string, method: object): string {
  const owner = taken.get(name);
  if (owner !== undefined && owner !== method) {
    throw new LockOptionsError(
      `Two methods decorated with @SchedulerLock have the default name ${JSON.stringify(name)}, so they would ` +
        'exclude each other. Give each a name of its own: @SchedulerLock({ name: … }).',
      { key: name },
    );
  }
  taken.set(name, method);
  return name;
}

/** `Class.method`, from the constructor (static methods) or the prototype that the method was defined on. */
export function nameOf(home: object, method: string | symbol): string {
  const owner = typeof home === 'function' ? home : home.constructor;
  if (owner.name === '') {
    throw new LockOptionsError(
      `The class of the method ${String(method)} has no name, so its job needs one: @SchedulerLock({ name: … }).`,
    );
  }
  return `${owner.name}.${typeof method === 'symbol' ? (method.description ?? '') : method}`;
}

/**
 * The object on which the method was defined, for decorators that are not told: the one furthest up the chain
 * that has it. It must not depend on which subclass happens to be made first, since every process must arrive
 * at the same name.
 */
export function homeOf(instance: object, method: string | symbol): object {
  let home = instance;
  for (let at: object | null = instance; at !== null; at = Object.getPrototypeOf(at)) {
    if (Object.hasOwn(at, method)) home = at;
  }
  return home;
}
