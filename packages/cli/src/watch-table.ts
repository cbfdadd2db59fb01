import logUpdate from 'log-update';
import { colors } from './colors.js';
import { formatLocal } from './format.js';
import { TABLE_HEAD, tableRow } from './records.js';
import { formatTable } from './table.js';
import type { View } from './watch-lines.js';

/** The head, what is left out, an empty line, the time, and the line of the cursor. */
const OTHER_LINES = 5;

/** A table that is drawn over itself. */
export function liveTable(terminal: { readonly rows: number }): View {
  return {
    show(records, now) {
      // What is too long for the screen would push the head out of it.
      const room = Math.max(1, terminal.rows - OTHER_LINES);
      const rows = records.slice(0, room).map((record) => tableRow(record, now));
      const head = TABLE_HEAD.map((word) => colors.dim(word));
      const lines = [records.length === 0 ? 'no records' : formatTable(head, rows)];
      if (records.length > room) lines.push(`and ${records.length - room} more`);
      logUpdate([...lines, '', colors.dim(`${formatLocal(now)}, Ctrl-C ends`)].join('\n'));
    },
    close: () => logUpdate.done(),
  };
}
