import { failureOf } from './errors.js';
import { EXIT_USAGE } from './exit-codes.js';
import { complain } from './output.js';
import { runProgram } from './program.js';

try {
  process.exitCode = await runProgram(process.argv.slice(2));
} catch (error) {
  const { exitCode, message } = failureOf(error);
  complain(message);
  if (exitCode === EXIT_USAGE)
    complain('"joblatch --help" and "joblatch COMMAND --help" say what is accepted');
  process.exitCode = exitCode;
}
