import { describe, test } from 'vitest';

/** The server that the tests may use; `npm run stores -- --exec "npm test"` says where it is. */
export const redisUrl: string | undefined = process.env.JOBLATCH_TEST_REDIS;

const NO_SERVER = 'JOBLATCH_TEST_REDIS is not set; npm run stores -- --only redis --exec "npm test" sets it';

/** Describes something that needs the server; without it a skipped test says why. */
export function describeWithRedis(what: string, body: (url: string) => void): void {
  describe(what, () => {
    if (redisUrl !== undefined) return body(redisUrl);
    console.warn(`skipped, ${what}: ${NO_SERVER}`);
    test.skip(`not here: ${NO_SERVER}`, () => {});
  });
}
