export interface TimelineTimer {
  readonly at: number;
  readonly order: number;
  readonly background: boolean;
  readonly fire: () => void;
}

/** More timers than this at one instant re-arm themselves for ever. */
const ENDLESS = 100_000;

/** One time, and what is due in it: in the order of the instants, and of arming within an instant. */
export class Timeline {
  #now = 0;
  #order = 0;
  #timers: TimelineTimer[] = [];
  #advancing: Promise<void> = Promise.resolve();

  get now(): number {
    return this.#now;
  }

  add(at: number, background: boolean, fire: () => void): TimelineTimer {
    this.#order += 1;
    const timer = { at, order: this.#order, background, fire };
    this.put(timer);
    return timer;
  }

  put(timer: TimelineTimer): void {
    this.#timers.splice(this.#place(timer), 0, timer);
  }

  remove(timer: TimelineTimer): void {
    const place = this.#place(timer);
    if (this.#timers[place] === timer) this.#timers.splice(place, 1);
  }

  /** One advance after another: a second one that is called meanwhile begins where the first ends. */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`Time can be advanced by 0 ms or more, not by ${ms}.`);
    const before = this.#advancing;
    const run = before.then(
      () => this.#run(this.#now + ms),
      () => this.#run(this.#now + ms),
    );
    this.#advancing = run;
    await run;
  }

  async #run(until: number): Promise<void> {
    await settle();
    let atOnce = 0;
    for (let next = this.#timers[0]; next !== undefined && next.at <= until; next = this.#timers[0]) {
      atOnce = next.at > this.#now ? 0 : atOnce + 1;
      if (atOnce > ENDLESS)
        throw new Error(`More than ${ENDLESS} timers fired in one instant, and there are more.`);
      this.#timers.shift();
      // One that fires late, since its instance was paused, does not turn time back.
      this.#now = Math.max(this.#now, next.at);
      next.fire();
      await settle();
    }
    this.#now = Math.max(this.#now, until);
    await settle();
  }

  /** Where a timer is, or belongs: the first place whose timer is not before it. */
  #place(timer: TimelineTimer): number {
    let low = 0;
    let high = this.#timers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#timers[middle] as TimelineTimer;
      if (other.at < timer.at || (other.at === timer.at && other.order < timer.order)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** One turn of the real event loop: whatever promises can settle without time passing has settled then. */
async function settle(): Promise<void> {
  await new Promise<void>((resolve) => {
    // biome-ignore lint/style/noRestrictedGlobals: not a timer of the library, but the gap between its timers
    setImmediate(resolve);
  });
}
