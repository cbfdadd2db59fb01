// What `increment` of Steered.java does, in Node: node incrementer.js MODULE NAME TIMES FILE. Adds one to the number
// in the file, so often, each time under the lock of the provider that the module opens; prints how often it was refused.

import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from 'joblatch';

const [module, name, times, file] = process.argv.slice(2);
const provider = await (await import(module)).open();
const locks = createLocks({ provider });

let refusals = 0;
for (let done = 0; done < Number(times); ) {
  const lock = await locks.tryAcquire(name, { lease: '30s' });
  if (lock === undefined) {
    refusals += 1;
  } else {
    const number = Number(readFileSync(file, 'utf8'));
    await sleep(1);
    writeFileSync(`${file}.${process.pid}`, String(number + 1));
    renameSync(`${file}.${process.pid}`, file);
    await lock.release();
    done += 1;
  }
  await sleep(1);
}
await locks.close();
await provider.close?.();
console.log(refusals);
