import { colors } from '../colors.js';
import { EXIT_OK } from '../exit-codes.js';
import { type StoreFlags, withStore } from '../open-store.js';
import { noticesOf, print, printJson } from '../output.js';
import { recordJson, TABLE_HEAD, tableRow } from '../records.js';
import { formatTable } from '../table.js';

export interface ListFlags extends StoreFlags {
  readonly json?: boolean;
}

export async function list(flags: ListFlags): Promise<number> {
  const records = await withStore(flags, (provider, options) => provider.inspect({}, options));
  const now = Date.now();
  if (flags.json === true) printJson(records.map((record) => recordJson(record, now)));
  else if (records.length === 0) noticesOf(flags)('no records: nothing has been locked in this store');
  else {
    print(
      formatTable(
        TABLE_HEAD.map((word) => colors.dim(word)),
        records.map((record) => tableRow(record, now)),
      ),
    );
  }
  return EXIT_OK;
}
