import { passwordIn, redact } from './redact.js';

// Every user of a host sees the arguments of every process, and the URL of a store may hold a password. Node then
// writes the title over them. What is started by us does not get them.
const shown = process.argv.slice(2).map(withoutPassword);
if (shown.some((argument, i) => argument !== process.argv[i + 2]))
  process.title = ['joblatch', ...shown].join(' ');

function withoutPassword(argument: string): string {
  const password = passwordIn(argument.replace(/^(?:--store=|-s)/, ''));
  return redact(password ? argument.replaceAll(password, '***') : argument);
}
