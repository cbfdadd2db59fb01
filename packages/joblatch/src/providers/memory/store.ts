/** One record, as every store keeps it. Ends are instants of the runtime's monotonic clock. */
export interface MemoryRecord {
  readonly owner: string;
  readonly token: number;
  readonly acquiredAt: number;
  readonly until: number;
  readonly state: 'granted' | 'released';
  readonly slot: number | undefined;
}

/** What several memory providers of one process may share, as several clients share a database. */
export type MemoryStore = Map<string, MemoryRecord>;
