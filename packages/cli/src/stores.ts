import { UsageError } from './errors.js';
import { redact } from './redact.js';
import { mysqlStore } from './stores/mysql.js';
import { postgresStore } from './stores/postgres.js';
import { redisStore } from './stores/redis.js';
import { sqliteStore } from './stores/sqlite.js';
import type { StoreKind } from './stores/store-kind.js';

/** Every store that `--store` can name: a new one is a file in stores/ and a word here. */
const KINDS: readonly StoreKind[] = [sqliteStore, postgresStore, mysqlStore, redisStore];

export const STORE_FORMS: string = KINDS.flatMap((kind) => kind.forms).join('; ');

/** @throws UsageError for a store that is not supported */
export function storeKindOf(url: string): StoreKind {
  const kind = KINDS.find((one) => one.accepts(url));
  if (kind !== undefined) return kind;
  throw new UsageError(
    `The store ${JSON.stringify(redact(url))} ${problemOf(url)}. Accepted: ${STORE_FORMS}.`,
  );
}

function problemOf(url: string): string {
  if (/^memory:/i.test(url)) return 'lives in one process and would exclude nobody';
  return 'is not one that joblatch knows';
}
