import type { LockRecord } from 'joblatch';
import { formatInstant, formatOwner, formatRelative } from './format.js';
import { printable } from './printable.js';

/** A record as `--json` shows it: the store's durations, and the instants they mean on this host's clock. */
export interface RecordJson extends LockRecord {
  readonly acquiredAt?: string | undefined;
  readonly freeAt?: string | undefined;
  readonly slotAt?: string | undefined;
}

export function recordJson(record: LockRecord, now: number): RecordJson {
  return {
    ...record,
    ...(record.acquiredAgoMs === undefined ? {} : { acquiredAt: iso(now - record.acquiredAgoMs) }),
    ...(record.state === 'free' ? {} : { freeAt: iso(now + record.leftMs) }),
    ...(record.slot === undefined ? {} : { slotAt: iso(record.slot) }),
  };
}

function iso(epochMs: number): string | undefined {
  const date = new Date(epochMs);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

export const TABLE_HEAD: readonly string[] = [
  'NAME',
  'STATE',
  'HOLDER',
  'SINCE',
  'FREE',
  'TOKEN',
  'LAST SLOT',
];

/** One record as a row under {@link TABLE_HEAD}; relative times, for a table must be narrow. */
export function tableRow(record: LockRecord, now: number): string[] {
  return [
    printable(record.key),
    record.state,
    record.state === 'free' ? '' : (formatOwner(record.owner) ?? '?'),
    record.acquiredAgoMs === undefined ? '' : formatRelative(-record.acquiredAgoMs),
    record.state === 'free' ? 'now' : formatRelative(record.leftMs),
    String(record.token ?? ''),
    record.slot === undefined ? '' : formatRelative(record.slot - now),
  ];
}

/** Everything about a record, and what it means for a run that would start now. */
export function describeRecord(record: LockRecord, now: number): string[] {
  const owner = formatOwner(record.owner);
  const lines: [string, string | undefined][] = [
    ['state', MEANING[record.state]],
    [record.state === 'held' ? 'holder' : 'last holder', owner],
    ['since', record.acquiredAgoMs === undefined ? undefined : formatInstant(-record.acquiredAgoMs, now)],
    ['free', record.state === 'free' ? undefined : formatInstant(record.leftMs, now)],
    ['last token', record.token === undefined ? undefined : String(record.token)],
    ['last slot', record.slot === undefined ? undefined : formatInstant(record.slot - now, now)],
  ];
  const known = lines.filter((line): line is [string, string] => line[1] !== undefined);
  return [printable(record.key), ...known.map(([label, text]) => `  ${label.padEnd(12)}${text}`)];
}

const MEANING: Readonly<Record<LockRecord['state'], string>> = {
  held: 'held: a run is skipped now. The holder may end earlier, or prolong it',
  kept: 'kept: the last run has ended, but its --at-least-for has not, so a run is skipped now',
  free: 'free: a run starts now, unless the period that began at the last slot is not over yet',
};
