// How an accident comes at exactly the wrong moment. The director orders one for a place in the code; the first
// worker that gets there tells it, and stands still as in a long garbage collection: its whole thread, timers
// included. The director then kills or stops it, and that is real.

import { closeSync, existsSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export class Incidents {
  #folder;
  #tell;
  #ordered = new Set();

  /**
   * @param {string} folder where the workers and the director leave marks for each other
   * @param {(place: string, id: number) => void} tell tells the director that this worker stands still
   */
  constructor(folder, tell) {
    this.#folder = folder;
    this.#tell = tell;
  }

  order(place) {
    this.#ordered.add(place);
  }

  /** Does nothing, unless an incident was ordered for this place and no other worker has had it. */
  at(place, id) {
    if (!this.#ordered.delete(place) || !isFirst(markOf(this.#folder, place, 'met'))) return;
    this.#tell(place, id);
    const director = process.ppid;
    const nothing = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(markOf(this.#folder, place, 'over'))) {
      if (process.ppid !== director) process.exit(1);
      Atomics.wait(nothing, 0, 0, 5);
    }
  }
}

/** Lets the worker that stands still at this place go on. */
export function endIncident(folder, place) {
  writeFileSync(markOf(folder, place, 'over'), '');
}

function markOf(folder, place, what) {
  return join(folder, `${place}.${what}`);
}

/** Of all processes that try, one succeeds in making the file. */
function isFirst(path) {
  try {
    closeSync(openSync(path, 'wx'));
    return true;
  } catch {
    return false;
  }
}
