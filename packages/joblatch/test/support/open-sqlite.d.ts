import type { LockProvider } from 'joblatch';

export declare function opensByPath(driver: string): driver is 'node:sqlite' | 'libsql';
export declare function openSqlite(driver: string, path: string): LockProvider;
export declare function open(): LockProvider;
export declare function moduleUrl(driver: string, path: string): URL;
