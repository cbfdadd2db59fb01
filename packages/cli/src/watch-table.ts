import logUpdate from 'log-update';
import { colors } from './colors.js';
import { formatLocal } from './format.js';
import { TABLE_HEAD, tableRow } from './records.js';
import { formatTable } from './table.js';
import type { View } from './watch-lines.js';

/** A table that is drawn over itself. */
export function liveTable(): View {
  return {
    show(records, now) {
      const head = TABLE_HEAD.map((word) => colors.dim(word));
      const table =
        records.length === 0
          ? 'no records'
          : formatTable(
              head,
              records.map((record) => tableRow(record, now)),
            );
      logUpdate(`${table}\n\n${colors.dim(`${formatLocal(now)}, Ctrl-C ends`)}`);
    },
    close: () => logUpdate.done(),
  };
}
