// What is done by hand is exactly what joblatch sends, caught while it does so, with the parts that change filled in.

/** A text cut where parts of it stand, to be filled in anew. */
export function template(text, parts) {
  const marks = Object.entries(parts).filter(([, part]) => part !== undefined);
  const pieces = [];
  let rest = text;
  while (rest !== '') {
    const [next] = marks
      .map(([name, part]) => ({ name, part, at: rest.indexOf(part) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at);
    pieces.push(next === undefined ? rest : rest.slice(0, next.at));
    if (next === undefined) break;
    pieces.push({ name: next.name });
    rest = rest.slice(next.at + next.part.length);
  }
  return (values) => {
    let filled = '';
    for (const piece of pieces) filled += typeof piece === 'string' ? piece : values[piece.name];
    return filled;
  };
}

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
