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
 * Where a standard decorator's method is at home, which the decorator is not told: the one object up the chain
 * that has it. Every process must arrive at the same name, so nothing is guessed: not from whatever the method is
 * called on, and not where several classes of the chain have a method of that name.
 *
 * @throws LockOptionsError if that is not certain
 */
export function homeOf(
  self: object,
  { name, private: isPrivate }: ClassMethodDecoratorContext,
  method: object,
): object {
  const homes: object[] = [];
  for (let at: object | null = self; at !== null && !isPrivate; at = Object.getPrototypeOf(at)) {
    if (Object.hasOwn(at, name)) homes.push(at);
  }
  // Another decorator, above ours, may have put its own function there; where it did not, ours is found.
  const own = homes.filter((home) => Object.getOwnPropertyDescriptor(home, name)?.value === method);
  const [home, ...others] = own.length > 0 ? own : homes;
  if (home !== undefined && others.length === 0) return home;
  throw new LockOptionsError(
    `Which class the method ${String(name)} belongs to can not be told for certain, so its job needs a name: ` +
      '@SchedulerLock({ name: … }).',
  );
}
