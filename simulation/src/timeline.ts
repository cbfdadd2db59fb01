import type { Machine } from './machine.js';
import { START } from './machine.js';
import type { Store } from './store.js';
import type { World } from './world.js';

/** What happened, one line each: true time, the clock of the store, who, and his own clock. */
export interface Timeline {
  readonly lines: readonly string[];
  tell(text: () => string): void;
  of(machine: Machine): (text: string) => void;
}

export function writeTimeline(world: World, store: Store): Timeline {
  const lines: string[] = [];
  const put = (who: string, clock: string, text: string): void => {
    lines.push(
      `${seconds(world.now)} ${seconds(store.now().wall - START)}  ${who.padEnd(4)} ${clock}  ${text}`,
    );
  };
  return {
    lines,
    tell: (text) => put('', ' '.repeat(9), text()),
    of: (machine) => (text) => put(machine.name, seconds(machine.monotonic()), text),
  };
}

export const TIMELINE_HEAD = 'true time  the store  who   its clock  what (seconds since the start)';

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(3).padStart(9);
}
