// What there is in the end, against what there must be.

/**
 * @param {import('./shop.js').Shop} shop
 * @returns {{ what: string, expected: number, found: number }[]}
 */
export function tally(shop) {
  const { orders, units } = shop.placed;
  const found = shop.count();
  return [
    { what: 'orders cancelled', expected: orders, found: found.cancellations },
    { what: 'units of stock restored', expected: units, found: found.restored },
    { what: 'events published', expected: orders, found: found.published },
    { what: 'duplicates', expected: 0, found: found.duplicates },
    { what: 'orders left open', expected: 0, found: found.open },
    { what: 'events left unpublished', expected: 0, found: found.pending },
  ];
}

/**
 * Whether the run showed what it was to show.
 *
 * @param {ReturnType<typeof tally>} rows
 * @param {'with-lock' | 'without-lock'} mode
 */
export function verdict(rows, mode) {
  const wrong = rows.filter(({ expected, found }) => found !== expected).map(({ what }) => what);
  const duplicates = rows.find(({ what }) => what === 'duplicates')?.found ?? 0;
  if (mode === 'with-lock') {
    return wrong.length === 0
      ? { ok: true, text: 'Everything happened once, although one worker was killed and one was paused.' }
      : { ok: false, text: `This must not be: wrong are ${wrong.join(', ')}.` };
  }
  return duplicates > 0
    ? { ok: true, text: `Without the lock, ${duplicates} things happened that had happened before.` }
    : { ok: false, text: 'This run did not show anything: there was no duplicate. Run it again.' };
}
