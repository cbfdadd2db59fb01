import { readFile, writeFile } from 'node:fs/promises';
import type { LockProvider } from '../../provider/lock-provider.js';
import { createOwnerId, nodeRuntime } from '../../provider/runtime.js';
import type { CountAnswer, CountArgs } from './messages.js';

/** Reading, sleeping and writing overlap for certain when two do it at a time. */
const WORK_MS = 2;
/** Who is refused asks again soon, then less and less often: polling must not starve the holder of the machine. */
const FIRST_RETRY_MS = 5;
const LONGEST_RETRY_MS = 50;
/** Much longer than all the others together need. */
const PATIENCE_MS = 120_000;

/** Increments a number in a file, so that an increment is lost whenever two are in here at a time. */
export async function countRounds(
  provider: LockProvider,
  { file, rounds, lock }: CountArgs,
): Promise<CountAnswer> {
  const { fencing } = await provider.abilities();
  let [refusals, lost, staleTokens] = [0, 0, 0];
  for (let round = 0; round < rounds; round += 1) {
    if (lock === undefined) {
      await increment(file, 0);
      continue;
    }
    const owner = createOwnerId(nodeRuntime);
    const giveUpAt = nodeRuntime.monotonic() + PATIENCE_MS;
    let retryMs = FIRST_RETRY_MS;
    let result = await provider.acquire({ ...lock, owner });
    while (!result.ok) {
      if (nodeRuntime.monotonic() > giveUpAt) throw new Error(`Had no turn within ${PATIENCE_MS} ms.`);
      refusals += 1;
      await sleep(nodeRuntime.random() * retryMs);
      retryMs = Math.min(retryMs * 1.5, LONGEST_RETRY_MS);
      result = await provider.acquire({ ...lock, owner });
    }
    const lastToken = await increment(file, result.token);
    if (fencing && lastToken >= result.token) staleTokens += 1;
    if (!(await provider.release({ key: lock.key, owner }))) lost += 1;
  }
  return { refusals, lost, staleTokens };
}

/** The file holds the number and the token of the last one who wrote it, which is handed back. */
async function increment(file: string, token: number): Promise<number> {
  const [count = 0, lastToken = 0] = (await readFile(file, 'utf8')).split(' ').map(Number);
  await sleep(nodeRuntime.random() * WORK_MS);
  await writeFile(file, `${count + 1} ${token}`);
  return lastToken;
}

async function sleep(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    nodeRuntime.setTimer(resolve, ms);
  });
}
