// What the demo shows: a live picture in a terminal, plain lines everywhere else.

import { createLogUpdate } from 'log-update';
import pc from 'picocolors';

/** So that a line fits into 80 columns. */
const BAR_WIDTH = 18;

/**
 * @typedef {object} Picture
 * @property {number} atMs
 * @property {boolean} locked whether there are locks at all
 * @property {{ name: string, pid: number, status: string, jobs: string[] }[]} workers
 * @property {JobPicture[]} jobs
 * @property {import('./shop.js').Counts} counts
 */

/**
 * @typedef {object} JobPicture
 * @property {string} name
 * @property {number} atLeastMs
 * @property {number} atMostMs
 * @property {string[]} runners the workers that run it at the moment, those that are paused or killed left out
 * @property {{ worker: string, kept: boolean, agoMs: number, leftMs: number }} [hold] what the store says, unless the key is free
 */

/** @param {NodeJS.WriteStream} stream */
export function createView(stream, { env = process.env } = {}) {
  // A terminal without a size is one that nobody looks at.
  const terminal = stream.isTTY === true && stream.rows !== 0 && env.TERM !== 'dumb';
  // picocolors would also colour for CI and FORCE_COLOR; to a file or a pipe nothing but text ever goes.
  const colours = pc.createColors(terminal && !env.NO_COLOR && !env.NODE_DISABLE_COLORS);
  return terminal ? new LiveView(stream, colours) : new PlainView(stream, colours);
}

class PlainView {
  /** Whether there is a picture to see the runs in; else each is told in a line. */
  live = false;

  constructor(stream, colours) {
    this.stream = stream;
    this.colours = colours;
  }

  line(text = '') {
    this.stream.write(`${text}\n`);
  }

  /** Something that happened, at its time. */
  event(atMs, text) {
    this.line(`${this.colours.dim(seconds(atMs).padStart(6))}  ${text}`);
  }

  show(_picture) {}

  done() {}
}

class LiveView extends PlainView {
  live = true;
  #update;
  #frame = '';

  constructor(stream, colours) {
    super(stream, colours);
    this.#update = createLogUpdate(stream);
  }

  line(text = '') {
    this.#update.clear();
    super.line(text);
    if (this.#frame) this.#update(this.#frame);
  }

  show(picture) {
    this.#frame = drawFrame(picture, this.colours);
    this.#update(this.#frame);
  }

  done() {
    this.#update.clear();
    this.#update.done();
    this.#frame = '';
  }
}

/** @param {Picture} picture */
function drawFrame({ atMs, locked, workers, jobs, counts }, colours) {
  return [
    '',
    ...workers.map((worker) => drawWorker(worker, colours)),
    '',
    ...jobs.map((job) => (locked ? drawHold(job, colours) : drawRunners(job, colours))),
    ...(locked ? [colours.dim(`  ${''.padEnd(22)}from acquired to lockAtMostFor; ┊ lockAtLeastFor`)] : []),
    '',
    `${seconds(atMs).padStart(6)}  orders ${counts.open} open, ${counts.cancellations} cancelled · ` +
      `events ${counts.pending} pending, ${counts.published} published`,
    `${''.padEnd(8)}${drawDuplicates(counts.duplicates, colours)}`,
  ].join('\n');
}

function drawWorker({ name, pid, status, jobs }, colours) {
  const paint = { paused: colours.yellow, killed: colours.red }[status];
  const what = status === 'working' ? jobs.map((job) => colours.green(job)).join(' and ') || '–' : status;
  return `  ${name}  ${colours.dim(`pid ${pid}`.padEnd(12))}${paint ? paint(what) : what}`;
}

function drawRunners({ name, runners }, colours) {
  const text = runners.length > 1 ? colours.red(`${runners.join(', ')} at the same time`) : runners.join('');
  return `  ${name.padEnd(22)}${text || '–'}`;
}

function drawHold({ name, atLeastMs, atMostMs, runners, hold }, colours) {
  const title = `  ${name.padEnd(22)}`;
  if (hold === undefined) return `${title}${colours.dim(drawBar({ agoMs: -1, atLeastMs, atMostMs }))} free`;
  const { worker, kept, agoMs, leftMs } = hold;
  const bar = drawBar({ agoMs, atLeastMs, atMostMs });
  // Yellow: whoever has the lock does not run, and nobody else can take it before it runs out.
  const paint = kept ? colours.dim : runners.includes(worker) ? colours.green : colours.yellow;
  const why = kept ? 'done; at least' : 'at most';
  return `${title}${paint(bar)} ${worker}, ${why} ${seconds(leftMs)} more`;
}

/** The hold from its start to `lockAtMostFor`, filled up to now; `┊` is at `lockAtLeastFor`. */
function drawBar({ agoMs, atLeastMs, atMostMs }) {
  const cellAt = (ms) => Math.min(BAR_WIDTH - 1, Math.floor((ms / atMostMs) * BAR_WIDTH));
  const cells = Array.from({ length: BAR_WIDTH }, (_, index) => (index <= cellAt(agoMs) ? '█' : '░'));
  cells[cellAt(atLeastMs)] = '┊';
  return cells.join('');
}

function drawDuplicates(duplicates, colours) {
  const text = `${duplicates} ${duplicates === 1 ? 'duplicate' : 'duplicates'}`;
  return duplicates > 0 ? colours.red(text) : colours.green(text);
}

/** `1234` → `1.2 s` */
export function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** The closing table, as lines. */
export function drawTally(rows, colours) {
  return [
    colours.dim(`${''.padEnd(25)}expected   found`),
    ...rows.map(({ what, expected, found }) => {
      const line = `${what.padEnd(25)}${String(expected).padStart(8)}${String(found).padStart(8)}`;
      return found === expected ? `${line}  ${colours.green('right')}` : `${line}  ${colours.red('WRONG')}`;
    }),
  ];
}
