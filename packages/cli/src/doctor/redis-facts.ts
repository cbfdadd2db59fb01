import type { Redis } from 'ioredis';

/** What a server says of itself. */
export interface RedisFacts {
  readonly info: ReadonlyMap<string, string>;
  /** Empty where CONFIG is not allowed, as with most hosted ones. */
  readonly config: ReadonlyMap<string, string>;
}

/** Each with a question of its own: Redis before 7 takes one pattern only. */
const SETTINGS = ['maxmemory', 'maxmemory-policy', 'appendfsync', 'save', 'min-replicas-to-write'];

export async function factsOf(server: Redis): Promise<RedisFacts> {
  const text = await server.info();
  const info = new Map(
    text
      .split(/\r?\n/)
      .filter((line) => line.includes(':') && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
  const config = new Map<string, string>();
  try {
    for (const name of SETTINGS) {
      const [, value] = (await server.config('GET', name)) as string[];
      if (value !== undefined) config.set(name, value);
    }
  } catch {
    // Not allowed: what INFO says has to do.
  }
  return { info, config };
}
