/**
 * Random numbers in [0, 1) that a seed determines, 53 bits each (the generator sfc32). For tests: anybody can
 * guess them.
 */
export function seededRandom(seed: number, stream = 0): () => number {
  let [a, b, c, counter] = [seed | 0, Math.trunc(seed / 2 ** 32) | 0, stream | 0, 1];
  const next = (): number => {
    const result = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + result;
    return result >>> 0;
  };
  // The first numbers still show the seed.
  for (let i = 0; i < 12; i += 1) next();
  return () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
}
