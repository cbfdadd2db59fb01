/** Something that will happen at a moment of true time. */
export interface Happening {
  readonly at: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/** How many steps are in the line of Node's loop at once: each turn of the loop then takes that many. */
const STEPS_A_TURN = 64;

/**
 * True time, in milliseconds, and what will happen. One happening is one step: Node runs all the promises that it
 * leads to before the next one starts, so a seed decides everything.
 */
export class World {
  now = 0;
  steps = 0;
  #order = 0;
  readonly #heap: Happening[] = [];

  at(time: number, run: () => void): Happening {
    const happening: Happening = { at: Math.max(time, this.now), order: this.#order, run };
    this.#order += 1;
    this.#push(happening);
    return happening;
  }

  after(ms: number, run: () => void): Happening {
    return this.at(this.now + ms, run);
  }

  cancel(happening: Happening): void {
    happening.run = undefined;
  }

  /**
   * Lets things happen until nothing is left, or `until` says so. `afterStep` is called when all that a step led to
   * has run.
   */
  run(afterStep: () => void, until: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let over = false;
      let pending = false;
      const end = (settle: () => void): void => {
        if (over) return;
        over = true;
        settle();
      };
      const turn = (): void => {
        if (over) return;
        try {
          if (pending) afterStep();
          pending = false;
          const next = until() ? undefined : this.#pop();
          if (next === undefined) {
            end(resolve);
            return;
          }
          this.now = next.at;
          this.steps += 1;
          pending = true;
          next.run?.();
        } catch (error) {
          end(() => reject(error));
          return;
        }
        setImmediate(turn);
      };
      for (let i = 0; i < STEPS_A_TURN; i += 1) setImmediate(turn);
    });
  }

  #pop(): Happening | undefined {
    for (;;) {
      const first = this.#heap[0];
      if (first === undefined) return undefined;
      const last = this.#heap.pop() as Happening;
      if (this.#heap.length > 0) this.#sink(last);
      if (first.run !== undefined) return first;
    }
  }

  #push(happening: Happening): void {
    const heap = this.#heap;
    let i = heap.length;
    heap.push(happening);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      const above = heap[parent] as Happening;
      if (isBefore(above, happening)) break;
      heap[i] = above;
      i = parent;
    }
    heap[i] = happening;
  }

  #sink(happening: Happening): void {
    const heap = this.#heap;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, heap[child] as Happening)) child += 1;
      const below = heap[child] as Happening;
      if (isBefore(happening, below)) break;
      heap[i] = below;
      i = child;
    }
    heap[i] = happening;
  }
}

function isBefore(a: Happening, b: Happening): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
