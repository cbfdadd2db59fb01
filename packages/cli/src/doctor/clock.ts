import { SLOT_AHEAD_MS } from 'joblatch';
import { formatDuration } from '../format.js';
import { error, type Finding, ok, warning } from './finding.js';

/** Less than this nobody notices: schedulers themselves are not more exact. */
const NOTICEABLE_MS = 1_000;
const SAMPLES = 5;

/** How far the store's clock is ahead of this host's, and how wrong that can be. */
export interface ClockDifference {
  readonly aheadMs: number;
  readonly uncertainMs: number;
}

/** Asks the store for the time, several times: the shortest round trip is the most exact one. */
export async function measureClock(storeNow: () => Promise<number>): Promise<ClockDifference> {
  let best: ClockDifference | undefined;
  for (let i = 0; i < SAMPLES; i += 1) {
    const wall = Date.now();
    const start = performance.now();
    const there = await storeNow();
    const uncertainMs = (performance.now() - start) / 2;
    if (best === undefined || uncertainMs < best.uncertainMs)
      best = { aheadMs: there - (wall + uncertainMs), uncertainMs };
  }
  return best as ClockDifference;
}

export function judgeClock({ aheadMs, uncertainMs }: ClockDifference): Finding {
  const off = Math.abs(aheadMs);
  const code = 'clock-difference';
  if (off - uncertainMs < NOTICEABLE_MS)
    return ok(code, `${formatDuration(off)}, give or take ${formatDuration(Math.ceil(uncertainMs))}`);
  const found = `the store is ${formatDuration(off)} ${aheadMs > 0 ? 'ahead of' : 'behind'} this host`;
  const means =
    'locks go by the clock of the store and stay right; but a schedule on this host fires early or late, and ' +
    'the times that are shown are off';
  const remedy = 'synchronise the clocks of the hosts and of the store (chrony, ntpd, systemd-timesyncd)';
  if (off < SLOT_AHEAD_MS) return warning(code, found, means, remedy);
  return error(
    code,
    found,
    `${means}. Slots that a schedule names are refused when they lie more than ${formatDuration(SLOT_AHEAD_MS)} in the store's future`,
    remedy,
  );
}
