import type { LockRecord } from 'joblatch';
import { formatLocal, formatOwner, formatRelative } from './format.js';
import { print, printJson } from './output.js';
import { printable } from './printable.js';
import { recordJson } from './records.js';

/** Something that shows what is in the store, again and again. */
export interface View {
  show(records: readonly LockRecord[], now: number): void;
  close(): void;
}

/** What happened to a key since the last look; `gone` when its record was purged. */
export interface Change {
  readonly record: LockRecord;
  readonly event: LockRecord['state'] | 'gone';
}

/** A line of JSON for each record that is there at the start, and one for every change. */
export function jsonLines(): View {
  return changes(({ record, event }, now) =>
    printJson({ at: new Date(now).toISOString(), event, ...recordJson(record, now) }),
  );
}

/** The same in words. */
export function wordLines(): View {
  return changes(({ record, event }, now) => {
    const by =
      event === 'held' ? ` by ${formatOwner(record.owner) ?? '?'}, token ${record.token ?? '?'}` : '';
    const until = event === 'held' || event === 'kept' ? `, free ${formatRelative(record.leftMs)}` : '';
    print(`${formatLocal(now)}  ${printable(record.key)}  ${event}${by}${until}`);
  });
}

function changes(tell: (change: Change, now: number) => void): View {
  let last: ReadonlyMap<string, LockRecord> = new Map();
  return {
    show(records, now) {
      for (const change of compare(last, records)) tell(change, now);
      last = new Map(records.map((record) => [record.key, record]));
    },
    close() {},
  };
}

/** A renewal is no change: it moves the end of a grant, and nothing else. */
export function compare(last: ReadonlyMap<string, LockRecord>, records: readonly LockRecord[]): Change[] {
  const changed = records
    .filter((record) => identity(record) !== identity(last.get(record.key)))
    .map((record): Change => ({ record, event: record.state }));
  const present = new Set(records.map((record) => record.key));
  const gone = [...last.values()]
    .filter((record) => !present.has(record.key))
    .map((record): Change => ({ record, event: 'gone' }));
  return [...changed, ...gone];
}

function identity(record: LockRecord | undefined): string {
  return JSON.stringify([record?.state, record?.owner, record?.token, record?.slot]);
}
