import { makeDefaultStore } from '../default-store.js';
import { EXIT_OK } from '../exit-codes.js';
import { print, printJson } from '../output.js';
import { storeUrl } from '../store-url.js';
import { storeKindOf } from '../stores.js';
import type { ListFlags } from './list.js';

export interface MigrateFlags extends ListFlags {
  readonly print?: boolean;
}

/** Makes or completes the table of the locks, or only says how. */
export async function migrate(flags: MigrateFlags): Promise<number> {
  const url = storeUrl(flags.store) ?? `sqlite:${makeDefaultStore()}`;
  const { statements, note } = await storeKindOf(url).migrate(url, flags.print === true);
  if (flags.json === true) printJson({ statements });
  else if (statements.length === 0) print(flags.print === true ? `-- ${note}` : note);
  else for (const statement of statements) print(statement.endsWith(';') ? statement : `${statement};`);
  return EXIT_OK;
}
