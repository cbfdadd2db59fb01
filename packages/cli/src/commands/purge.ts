import { EXIT_OK } from '../exit-codes.js';
import { withStore } from '../open-store.js';
import { print, printJson } from '../output.js';
import { readDuration, required } from '../parse.js';
import type { ListFlags } from './list.js';

export interface PurgeFlags extends ListFlags {
  readonly olderThan?: string;
}

/** Forgets records that have been free for long. */
export async function purge(flags: PurgeFlags): Promise<number> {
  const idleMs = readDuration(required(flags.olderThan, '--older-than 30d'), '--older-than', { min: 0 });
  const purged = await withStore(flags, (provider, options) => provider.purge({ idleMs }, options));
  if (flags.json === true) printJson({ purged });
  else print(`purged ${purged} ${purged === 1 ? 'record' : 'records'}`);
  return EXIT_OK;
}
