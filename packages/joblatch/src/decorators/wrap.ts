export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** The part of `reflect-metadata` that is needed to carry metadata over, where an application has loaded it. */
interface ReflectMetadata {
  getOwnMetadataKeys?(target: object): unknown[];
  getOwnMetadata?(key: unknown, target: object): unknown;
  defineMetadata?(key: unknown, value: unknown, target: object): void;
}

const OF_EVERY_FUNCTION: ReadonlySet<string | symbol> = new Set([
  'length',
  'name',
  'prototype',
  'arguments',
  'caller',
]);

/**
 * Makes a wrapper pass for what it wraps: name, length, own properties and metadata. A decorator that was
 * applied before (written below) keeps what it has put on the method; one that is applied after (written above)
 * finds the wrapper in its place.
 */
export function disguise(wrapper: Method, method: Method): Method {
  for (const name of ['name', 'length'] as const) {
    Object.defineProperty(wrapper, name, { value: method[name], configurable: true });
  }
  for (const key of Reflect.ownKeys(method)) {
    if (OF_EVERY_FUNCTION.has(key)) continue;
    Object.defineProperty(wrapper, key, Object.getOwnPropertyDescriptor(method, key) as PropertyDescriptor);
  }
  const reflect: typeof Reflect & ReflectMetadata = Reflect;
  for (const key of reflect.getOwnMetadataKeys?.(method) ?? []) {
    reflect.defineMetadata?.(key, reflect.getOwnMetadata?.(key, method), wrapper);
  }
  return wrapper;
}
