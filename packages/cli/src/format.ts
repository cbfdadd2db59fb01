import { printable } from './printable.js';

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** The two largest units: `4m 12s`, `2d 4h`, `850ms`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const parts: string[] = [];
  let rest = ms;
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.join(' ');
}

/** How an instant stands to now: `in 4m 12s`, `3h ago`, `now`. */
export function formatRelative(fromNowMs: number): string {
  if (Math.abs(fromNowMs) < 1) return 'now';
  return fromNowMs > 0 ? `in ${formatDuration(fromNowMs)}` : `${formatDuration(-fromNowMs)} ago`;
}

/** Local time with its offset, since hosts of one fleet may live in several zones. */
export function formatLocal(epochMs: number): string {
  const t = new Date(epochMs);
  const two = (n: number): string => String(n).padStart(2, '0');
  const east = -t.getTimezoneOffset();
  const offset = `${east < 0 ? '-' : '+'}${two(Math.floor(Math.abs(east) / 60))}:${two(Math.abs(east) % 60)}`;
  return (
    `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ` +
    `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())} ${offset}`
  );
}

/** An instant that is so far from now: `2026-08-01 02:00:00 +02:00 (3h ago)`. */
export function formatInstant(fromNowMs: number, now: number): string {
  return `${formatLocal(now + fromNowMs)} (${formatRelative(fromNowMs)})`;
}

/** `createOwnerId` of the library: host, process, random digits. The last say nothing to people. */
const OWN_OWNER = /^(.+):(\d+):[0-9a-z]{20}$/;

/** Who it is, as people say it; another program's way of naming itself (ShedLock's, say) stays as it is. */
export function formatOwner(owner: string | undefined): string | undefined {
  if (owner === undefined) return undefined;
  const own = OWN_OWNER.exec(owner);
  return own === null ? printable(owner) : `${printable(own[1] as string)}, process ${own[2]}`;
}
