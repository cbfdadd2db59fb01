// A reporter of vitest that keeps what the gate wants to know of a run, in the file $JOBLATCH_REPORT: how many
// tests passed, and one sentence for each fault. A test that was skipped without leave is a fault.

import { writeFileSync } from 'node:fs';
import { skipLeave } from './allowed-skips.js';

export default class GateReporter {
  onTestRunEnd(modules, unhandledErrors) {
    let passed = 0;
    const skipped = {};
    const faults = unhandledErrors.map(({ message }) => `an error that nobody caught: ${firstLine(message)}`);
    for (const module of modules) {
      const file = module.relativeModuleId;
      // A file or a suite that could not be loaded, or whose hooks failed: it may have no tests to count.
      for (const { message } of [module, ...module.children.allSuites()].flatMap((part) => part.errors()))
        faults.push(`${file}: ${firstLine(message)}`);
      for (const test of module.children.allTests()) {
        const { state, note = 'no reason given' } = test.result();
        const leave = state === 'skipped' ? skipLeave(test.fullName, note) : undefined;
        if (state === 'passed') passed++;
        else if (leave !== undefined) skipped[leave] = (skipped[leave] ?? 0) + 1;
        else if (state === 'skipped')
          faults.push(`${file}: ${test.fullName}: skipped without leave: ${note}`);
        else faults.push(`${file}: ${test.fullName}`);
      }
    }
    writeFileSync(process.env.JOBLATCH_REPORT, JSON.stringify({ passed, faults, skipped }));
  }
}

const firstLine = (message) => message.split('\n', 1)[0];
