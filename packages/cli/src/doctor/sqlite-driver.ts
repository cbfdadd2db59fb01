/** What is used of a handle. */
export interface SqliteHandle {
  prepare(sql: string): { all(): unknown[] };
  close(): unknown;
}

type Database = new (path: string, options?: object) => SqliteHandle;

/** In the order in which the library itself tries them. */
export async function openSqlite(path: string): Promise<{ driver: string; handle: SqliteHandle }> {
  const builtin = withoutWarning(() => process.getBuiltinModule?.('node:sqlite')) as
    | { readonly DatabaseSync: Database }
    | undefined;
  if (builtin !== undefined)
    return { driver: `node:sqlite of Node ${process.versions.node}`, handle: new builtin.DatabaseSync(path) };
  const { default: Libsql } = (await import('libsql')) as unknown as { readonly default: Database };
  return { driver: 'libsql', handle: new Libsql(path) };
}

/** Node 22 says that it is experimental; whoever runs a command can do nothing about it. */
function withoutWarning<T>(work: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}
