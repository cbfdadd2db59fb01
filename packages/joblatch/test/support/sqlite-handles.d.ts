import type { SqliteDatabase } from 'joblatch/sqlite';

export type OpenHandle = (path: string, options?: Readonly<Record<string, unknown>>) => SqliteDatabase;

export declare const DRIVER_NAMES: readonly string[];
export declare function loadDriver(name: string): OpenHandle;
export declare function packageFolder(name: string): string;
