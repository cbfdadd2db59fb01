// Reads what reporter.js kept of a run of the tests; prints how many passed and how many faults there are, as
// two numbers, and says the rest on stderr.
//
//   node .ci/count-tests.js REPORT

import { existsSync, readFileSync } from 'node:fs';

const [file] = process.argv.slice(2);
const { passed, faults, skipped } = existsSync(file)
  ? JSON.parse(readFileSync(file, 'utf8'))
  : { passed: 0, faults: ['the tests did not run to their end'], skipped: {} };

for (const [because, count] of Object.entries(skipped)) console.error(`    ${count} skipped: ${because}`);
for (const fault of faults) console.error(`    not passed: ${fault}`);
console.log(passed, faults.length);
