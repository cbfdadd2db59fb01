/** What is found out once, by the first who needs it, until it turns out to be otherwise. */
export class FoundOnce<T> {
  readonly #look: () => Promise<T>;
  #finding: Promise<T> | undefined;
  #known: T | undefined;

  constructor(look: () => Promise<T>) {
    this.#look = look;
  }

  /** What was found. Most callers need not wait for it. */
  get known(): T | undefined {
    return this.#known;
  }

  /** Callers that come together share one look; one that failed is done again by the next caller. */
  find(): Promise<T> {
    if (this.#finding === undefined) {
      const finding = this.#look();
      this.#finding = finding;
      finding.then(
        (found) => {
          this.#known = found;
        },
        () => {
          this.#finding = undefined;
        },
      );
    }
    return this.#finding;
  }

  /** Unless another caller has looked again since. */
  forget(found: T): void {
    if (this.#known !== found) return;
    this.#known = undefined;
    this.#finding = undefined;
  }
}
