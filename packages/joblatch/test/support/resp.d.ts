export type Reply = string | number | null | Error | readonly Reply[];
export declare function redis(url: string, ...words: readonly (string | number)[]): Promise<Reply>;
