// Reads vitest's JSON report; prints how many tests passed and how many did not, as two numbers. A test that
// was skipped without leave counts as failed. Says which ones on stderr.
//
//   node .ci/count-tests.js REPORT NODE-MAJOR

import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { ALLOWED_SKIPS } from './allowed-skips.js';

const [reportFile, major] = process.argv.slice(2);

function isAllowed(name) {
  return ALLOWED_SKIPS.some(({ majors, test }) => majors.includes(Number(major)) && test.test(name));
}

function count(report) {
  let passed = 0;
  const faults = [];
  const skipped = [];
  for (const file of report.testResults) {
    const path = relative('.', file.name);
    // A file that could not be loaded has no tests, but a message.
    if (file.status === 'failed' && file.assertionResults.length === 0)
      faults.push(`${path}: ${file.message.split('\n', 1)[0]}`);
    for (const { fullName, status } of file.assertionResults) {
      if (status === 'passed') passed++;
      else if (status === 'failed') faults.push(`${path}: ${fullName}`);
      else if (isAllowed(fullName)) skipped.push(fullName);
      else faults.push(`${path}: ${fullName} (${status}, and not in .ci/allowed-skips.js)`);
    }
  }
  return { passed, faults, skipped };
}

if (existsSync(reportFile)) {
  const { passed, faults, skipped } = count(JSON.parse(readFileSync(reportFile, 'utf8')));
  if (skipped.length > 0) console.error(`    ${skipped.length} skipped, with leave`);
  for (const fault of faults) console.error(`    not passed: ${fault}`);
  console.log(passed, faults.length);
} else {
  console.error('    no report: the tests did not run');
  console.log(0, 1);
}
