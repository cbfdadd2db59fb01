export type { SqliteDatabase, SqliteDriver, SqliteStatement, SqliteValue } from './client.js';
export type { SqliteProviderOptions } from './options.js';
export { sqliteProvider } from './provider.js';
