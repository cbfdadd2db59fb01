// What is done by hand is exactly what joblatch sends, caught while it does so.

/** Calls `method` of an object through, and keeps what it was called with, while `work` goes on. */
export async function recorded(object, method, work) {
  const calls = [];
  const own = Object.hasOwn(object, method);
  const original = object[method];
  object[method] = function (...args) {
    calls.push(args);
    return original.apply(this, args);
  };
  try {
    await work();
  } finally {
    if (own) object[method] = original;
    else delete object[method];
  }
  return calls;
}

export function mustBe(expected, found, what) {
  if (found !== expected) throw new Error(`${what}: ${String(found)} where ${String(expected)} was expected`);
}
