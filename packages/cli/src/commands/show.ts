import { EXIT_NOTHING, EXIT_OK } from '../exit-codes.js';
import { withStore } from '../open-store.js';
import { noticesOf, print, printJson } from '../output.js';
import { readName } from '../parse.js';
import { describeRecord, recordJson } from '../records.js';
import type { ListFlags } from './list.js';

/** Why did it not run? Tells what the store knows of one name. */
export async function show(name: string, flags: ListFlags): Promise<number> {
  const key = readName(name);
  const [record] = await withStore(flags, (provider, options) => provider.inspect({ key }, options));
  if (record === undefined) {
    if (flags.json === true) printJson(null);
    noticesOf(flags)(
      `no record of ${JSON.stringify(key)}: nobody has taken it in this store, or it was purged`,
    );
    return EXIT_NOTHING;
  }
  const now = Date.now();
  if (flags.json === true) printJson(recordJson(record, now));
  else for (const line of describeRecord(record, now)) print(line);
  return EXIT_OK;
}
