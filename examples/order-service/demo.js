// Starts the demo and cleans up behind it. What happens in it is in director.js; what it is about, in README.md.
//
//   npm run demo                      with the lock: every count is right, or the exit code is 1
//   npm run demo -- --without-lock    the same without it: duplicates, or the exit code is 1

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Director } from './director.js';
import { createView } from './view.js';

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

const mode = readMode();
const folder = mkdtempSync(join(tmpdir(), 'joblatch-demo-'));
const view = createView(process.stdout);
const director = new Director({ mode, folder, view });

// However this process ends, no worker and no file stays behind. (If it is killed, the workers see that.)
process.once('exit', () => {
  director.killAll();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});
for (const [signal, code] of Object.entries(SIGNALS)) process.once(signal, () => process.exit(code));
process.stdout.on('error', () => process.exit(1));

let ok = false;
try {
  ok = await director.play();
} catch (error) {
  view.done();
  view.line(`The demo could not go on: ${error.message}`);
}
process.exit(ok ? 0 : 1);

function readMode() {
  if (process.platform === 'win32')
    quit('The demo pauses a process with SIGSTOP, which Windows does not have.');
  try {
    const { values } = parseArgs({ options: { 'without-lock': { type: 'boolean' } } });
    return values['without-lock'] ? 'without-lock' : 'with-lock';
  } catch (error) {
    return quit(`${error.message}\nusage: npm run demo [-- --without-lock]`);
  }
}

function quit(message) {
  console.error(message);
  process.exit(2);
}
