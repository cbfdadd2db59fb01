export { type MemoryProviderOptions, memoryProvider } from './provider.js';
export type { MemoryRecord, MemoryStore } from './store.js';
