import { seededRandom } from '../../packages/joblatch/dist/testing/seeded-random.js';

/** Chance that a seed determines. Each part of a world has a stream of its own, so that one does not shift another's. */
export class Random {
  readonly next: () => number;

  constructor(seed: number, stream: number) {
    this.next = seededRandom(seed, stream);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number, both ends included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  /** A time in milliseconds, in steps of a sixteenth, so that sums stay exact and readable. */
  ms(min: number, max: number): number {
    return Math.floor((min + this.next() * (max - min)) * 16) / 16;
  }

  pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.next() * values.length)] as T;
  }

  /** One of the names, as often as its weight says. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries(weights) as [K, number][];
    const sum = entries.reduce((total, [, weight]) => total + weight, 0);
    let rest = this.next() * sum;
    for (const [name, weight] of entries) {
      rest -= weight;
      if (rest < 0) return name;
    }
    return (entries.at(-1) as [K, number])[0];
  }
}
