import { isCrossSlot } from './errors.js';
import type { Line } from './gateway.js';

/** Locks for one script: the server does nothing else meanwhile, so some milliseconds are enough. */
const BATCH = 500;
/** Scripts that are under way at once: clients refuse more than so many (GLIDE 1,000), and others want their turn. */
const UNDER_WAY = 500;

export interface Item {
  readonly key: string;
}

/** An item and its place among all. */
export interface Placed<T> {
  readonly item: T;
  readonly index: number;
}

type Work<T> = (batch: readonly Placed<T>[], keys: readonly string[]) => Promise<void>;

/** Many locks by few scripts, all under way at once: one round trip. In a cluster each script keeps to one hash slot. */
export class Batches {
  #bySlot: boolean;

  constructor(cluster: boolean) {
    this.#bySlot = cluster;
  }

  /** Rejects if one batch fails. */
  async all<T extends Item>(line: Line, items: readonly T[], work: Work<T>): Promise<void> {
    for (const outcome of await this.settle(line, items, work))
      if (outcome.status === 'rejected') throw outcome.reason;
  }

  async settle<T extends Item>(
    line: Line,
    items: readonly T[],
    work: Work<T>,
  ): Promise<readonly PromiseSettledResult<void>[]> {
    const outcomes = await this.#settleOnce(line, items, work);
    // A client for one server may be given one of a cluster.
    const crossed = outcomes.some((o) => o.status === 'rejected' && isCrossSlot(o.reason));
    if (!crossed || this.#bySlot) return outcomes;
    this.#bySlot = true;
    return this.#settleOnce(line, items, work);
  }

  async #settleOnce<T extends Item>(
    line: Line,
    items: readonly T[],
    work: Work<T>,
  ): Promise<PromiseSettledResult<void>[]> {
    const batches = this.#split(line, items);
    const outcomes: PromiseSettledResult<void>[] = [];
    for (let at = 0; at < batches.length; at += UNDER_WAY) {
      const some = batches.slice(at, at + UNDER_WAY);
      outcomes.push(...(await Promise.allSettled(some.map(({ batch, keys }) => work(batch, keys)))));
    }
    return outcomes;
  }

  #split<T extends Item>(line: Line, items: readonly T[]): Batch<T>[] {
    const open = new Map<number, Batch<T>>();
    const batches: Batch<T>[] = [];
    for (const [index, item] of items.entries()) {
      const { lock, record, hashSlot } = line.keys.keysOf(item.key);
      const group = this.#bySlot ? hashSlot : 0;
      let batch = open.get(group);
      if (batch === undefined || batch.batch.length === BATCH) {
        batch = { batch: [], keys: [] };
        open.set(group, batch);
        batches.push(batch);
      }
      batch.batch.push({ item, index });
      batch.keys.push(lock, record);
    }
    return batches;
  }
}

interface Batch<T> {
  readonly batch: Placed<T>[];
  readonly keys: string[];
}
