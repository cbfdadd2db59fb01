import type { LockRecord } from '../../provider/lock-provider.js';
import type { ScriptRunner } from './client.js';
import type { Line } from './gateway.js';
import { KEPT_MARK, parseRecord, SCAN } from './scripts.js';

/** Keys that the server looks at before others get their turn. */
const SCAN_COUNT = 1_000;

/** Does something as a call of its own, with its own time. */
type Step = <T>(work: (line: Line) => Promise<T>) => Promise<T>;

/** The names of all locks and records on these servers, sorted by their bytes. SCAN shows what was there all the time. */
export async function listNames(step: Step, servers: readonly ScriptRunner[]): Promise<string[]> {
  const names = new Set<string>();
  for (const server of servers) {
    let cursor = '0';
    do {
      cursor = await step(async (line) => {
        const answer = await line.run(SCAN, [], [cursor, line.keys.pattern(), SCAN_COUNT], server);
        const [next = '0', ...keys] = answer.split('\0');
        for (const key of keys) {
          const name = line.keys.nameOf(key);
          if (name !== undefined) names.add(name);
        }
        return next;
      });
    } while (cursor !== '0');
  }
  return [...names]
    .map((name) => ({ name, bytes: Buffer.from(name) }))
    .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
    .map(({ name }) => name);
}

/** Reads what the script answered about these names; a name of which there is nothing is left out. */
export function readRecords(names: readonly string[], answer: string): LockRecord[] {
  const [now, ...found] = JSON.parse(answer) as string[];
  return names
    .map((name, i) => describe(name, Number(now), found.slice(i * 3, i * 3 + 3) as [string, string, string]))
    .filter((record) => record !== undefined);
}

function describe(
  key: string,
  now: number,
  [value, ttl, text]: readonly [value: string, ttl: string, record: string],
): LockRecord | undefined {
  const record = parseRecord(text);
  const exists = ttl !== '-2';
  if (!exists && record === undefined) return undefined;
  const kept = value.startsWith(KEPT_MARK);
  const owner = exists ? value.slice(kept ? KEPT_MARK.length : 0) : (record?.owner ?? '');
  // Somebody else's (a Java process's) has no token, and the record is of an earlier one.
  const own = record?.owner === owner ? record : undefined;
  return {
    key,
    state: exists ? (kept ? 'kept' : 'held') : 'free',
    // Made to last for ever by somebody: as long as a number can say.
    leftMs: ttl === '-1' ? Number.MAX_SAFE_INTEGER : exists ? Number(ttl) : 0,
    ...(owner !== '' && { owner }),
    ...(own && { token: own.token, acquiredAgoMs: Math.max(0, now - own.acquiredAt) }),
    ...(record?.slot !== undefined && { slot: record.slot }),
  };
}
