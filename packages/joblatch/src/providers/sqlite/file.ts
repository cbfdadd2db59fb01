import { statSync } from 'node:fs';

/** Tells a file from another of the same path; undefined where there is none, as for a database in memory. */
export function identityOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

/** Whether two paths lead to one file: through links, by other folders. */
export function isSameFile(one: string, other: string): boolean {
  const identity = identityOf(one);
  return identity === undefined ? one === other : identity === identityOf(other);
}
