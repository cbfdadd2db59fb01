import { UsageError } from '../errors.js';
import { EXIT_NOTHING, EXIT_OK } from '../exit-codes.js';
import { formatOwner } from '../format.js';
import { withStore } from '../open-store.js';
import { noticesOf, print, printJson } from '../output.js';
import { readName } from '../parse.js';
import { printable } from '../printable.js';
import type { ListFlags } from './list.js';

export interface ReleaseFlags extends ListFlags {
  readonly force?: boolean;
}

/** Frees a name whoever holds it. */
export async function release(name: string, flags: ReleaseFlags): Promise<number> {
  const key = readName(name);
  if (flags.force !== true) {
    throw new UsageError(
      'release needs --force: it takes the lock away from whoever holds it, and does not stop what they are doing.',
    );
  }
  const { record, released } = await withStore(flags, async (provider, options) => {
    // Read first, only to tell who it was: afterwards the store may not know any more.
    const [record] = await provider.inspect({ key }, options);
    return { record, released: await provider.forceRelease(key, options) };
  });
  const owner = record?.state === 'held' ? record.owner : undefined;
  if (flags.json === true) printJson({ key, released, ...(owner === undefined ? {} : { owner }) });
  else if (!released && record === undefined) {
    noticesOf(flags)(
      `no record of ${JSON.stringify(key)}: nobody has taken it in this store, or it was purged`,
    );
  } else if (!released) noticesOf(flags)(`${JSON.stringify(key)} was free already`);
  else {
    print(
      `released ${printable(key)}${owner === undefined ? '' : `, which was held by ${formatOwner(owner)}`}`,
    );
    if (owner !== undefined) {
      noticesOf(flags)(
        'the holder goes on until its next renewal tells it; without --keep-alive it finds out at its end',
      );
    }
  }
  return released ? EXIT_OK : EXIT_NOTHING;
}
