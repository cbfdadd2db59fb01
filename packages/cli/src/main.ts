// First: nothing else may take its time while the arguments are in sight.
import './hide-arguments.js';
import { failureOf } from './errors.js';
import { EXIT_USAGE } from './exit-codes.js';
import { complain } from './output.js';
import { runProgram } from './program.js';

/** Enough for what is on its way through a pipe. */
const LINGER_MS = 300;

try {
  process.exitCode = await runProgram(process.argv.slice(2));
} catch (error) {
  const { exitCode, message } = failureOf(error);
  complain(message);
  if (exitCode === EXIT_USAGE)
    complain('"joblatch --help" and "joblatch COMMAND --help" say what is accepted');
  process.exitCode = exitCode;
}

// All is said and done. A client library that still waits for a silent server must not keep the process.
setTimeout(() => process.exit(), LINGER_MS).unref();
