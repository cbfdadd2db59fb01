import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { isLockError, type LockProvider, type LockRecord } from 'joblatch';
import { failureOf } from '../errors.js';
import { EXIT_OK, exitCodeOfSignal } from '../exit-codes.js';
import { openStore } from '../open-store.js';
import { complain } from '../output.js';
import { readDuration, readName } from '../parse.js';
import { jsonLines, type View, wordLines } from '../watch-lines.js';
import type { ListFlags } from './list.js';

const SHORTEST_INTERVAL_MS = 100;
const ANSWER_MS = 5_000;

export interface WatchFlags extends ListFlags {
  readonly interval: string;
}

/** Shows what happens, until it is interrupted: a table on a terminal, else a line for every change. */
export async function watch(name: string | undefined, flags: WatchFlags): Promise<number> {
  const key = name === undefined ? undefined : readName(name);
  const intervalMs = readDuration(flags.interval, '--interval', { min: SHORTEST_INTERVAL_MS });
  // The first run may be yet to come, so the store may be made.
  const provider = await openStore(flags, 'lock');
  const ending = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => ending.abort(signal));
  }
  const view = await chooseView(flags);
  try {
    await look(provider, key, intervalMs, view, ending.signal);
  } finally {
    view.close();
    await provider.close?.();
  }
  return ending.signal.aborted ? exitCodeOfSignal(ending.signal.reason as NodeJS.Signals) : EXIT_OK;
}

async function chooseView(flags: WatchFlags): Promise<View> {
  if (flags.json === true) return jsonLines();
  // A terminal that does not know its size can not be drawn on.
  if (!isatty(1) || !process.stdout.rows) return wordLines();
  // Loaded only here: it touches the terminal as soon as it is imported.
  const { liveTable } = await import('../watch-table.js');
  return liveTable(process.stdout);
}

async function look(
  provider: LockProvider,
  key: string | undefined,
  intervalMs: number,
  view: View,
  ending: AbortSignal,
): Promise<void> {
  for (let first = true; !ending.aborted; first = false) {
    let records: readonly LockRecord[] | undefined;
    try {
      records = await provider.inspect({ key }, { signal: AbortSignal.timeout(ANSWER_MS) });
    } catch (error) {
      // A store that was never reached is a mistake; one that fails later may come back while somebody looks.
      if (first || !isLockError(error, 'STORE')) throw error;
      complain(failureOf(error).message);
    }
    if (records !== undefined) view.show(records, Date.now());
    await sleep(intervalMs, undefined, { signal: ending }).catch(() => {});
  }
}
