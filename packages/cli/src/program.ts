import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { doctor } from './commands/doctor.js';
import { list } from './commands/list.js';
import { migrate } from './commands/migrate.js';
import { purge } from './commands/purge.js';
import { release } from './commands/release.js';
import { run } from './commands/run.js';
import { show } from './commands/show.js';
import { watch } from './commands/watch.js';
import { UsageError } from './errors.js';
import { EXIT_OK, EXIT_USAGE } from './exit-codes.js';
import { PROGRAM_HELP, RUN_HELP, STORE_HELP } from './help.js';
import { writeFully } from './output.js';

/** Reads the command line and does what it says. Gives the exit status. @throws UsageError */
export async function runProgram(args: readonly string[]): Promise<number> {
  let exitCode = EXIT_OK;
  const program = createProgram((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return statusOf(error);
  }
  return exitCode;
}

/** Help and version were asked for and are out; help without being asked means that nothing was said. */
function statusOf(error: CommanderError): number {
  if (error.exitCode === 0) return EXIT_OK;
  if (error.code === 'commander.help') return EXIT_USAGE;
  throw new UsageError(error.message.replace(/^error: /, '').replaceAll('\n', ' '));
}

function createProgram(done: (exitCode: number) => void): Command {
  const program = new Command('joblatch')
    .description('Makes a command happen once in a fleet, and shows who holds which lock.')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    // Options of the command that is run are not ours, wherever they stand.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => writeFully(1, text),
      writeErr: (text) => writeFully(2, text),
      outputError: () => {}, // Told by whoever catches the error, in the same words as every other.
    })
    .addHelpText('after', PROGRAM_HELP);
  addRun(program, done);
  addTools(program, done);
  return program;
}

function addRun(program: Command, done: (exitCode: number) => void): void {
  program
    .command('run')
    .description('Run a command if no other host or process runs it; otherwise skip it.')
    .usage('--name NAME --at-most-for TIME [options] -- COMMAND [ARGUMENT...]')
    // Optional for the parser only: what is missing is told all at once.
    .argument('[command...]', 'required. The command and its arguments')
    .option(
      '-n, --name <name>',
      'required. The lock: what has the same name in the same store excludes each other',
    )
    .option('--at-most-for <time>', 'required. When the lock frees itself if nobody gives it back')
    .option('--at-least-for <time>', 'keep the lock this long, however soon the command ends')
    .option('--once-per <time>', 'one run in every such period, aligned to UTC by the clock of the store')
    .addOption(
      new Option('--per-slot <promise>', 'what a period of --once-per promises if a run fails').choices([
        'at-most-once',
        'at-least-once',
      ]),
    )
    .option('--keep-alive', 'renew a short lock while the command runs: a crash frees it within 30s')
    .option('--wait <time>', 'wait for the lock that long before skipping')
    .option('--skip-exit-code <n>', 'the exit status when the command was skipped (default: 0)')
    .option('--grace <time>', 'from SIGTERM to SIGKILL when the lock was lost', '10s')
    .option('--foreground', 'leave the command in the process group of the terminal')
    .option('--report <file>', 'write the outcome as JSON to a file, or to a descriptor with fd:N')
    .option('-s, --store <url>', STORE_HELP)
    .option('-q, --quiet', 'no notices on stderr, only errors')
    .passThroughOptions()
    .addHelpText('after', RUN_HELP)
    .action(async (command: string[], flags: Parameters<typeof run>[1]) => done(await run(command, flags)));
}

function addTools(program: Command, done: (exitCode: number) => void): void {
  const tool = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--json', 'print JSON')
      .option('-s, --store <url>', STORE_HELP)
      .option('-q, --quiet', 'no notices on stderr, only errors');

  tool('list', 'List all locks, held and free.').action(async (flags: Parameters<typeof list>[0]) =>
    done(await list(flags)),
  );
  tool('show', 'Tell why something did not run: who holds it, since when, until when, its last slot.')
    .argument('<name>', 'the name of the lock')
    .action(async (name: string, flags: Parameters<typeof show>[1]) => done(await show(name, flags)));
  tool('watch', 'Show the locks as they change, until interrupted.')
    .argument('[name]', 'only this one')
    .option('--interval <time>', 'how often to look', '1s')
    .action(async (name: string | undefined, flags: Parameters<typeof watch>[1]) =>
      done(await watch(name, flags)),
    );
  tool('release', 'Take a lock away from whoever holds it.')
    .argument('<name>', 'the name of the lock')
    .option('--force', 'required: the holder may still be at work, and is not stopped')
    .action(async (name: string, flags: Parameters<typeof release>[1]) => done(await release(name, flags)));
  tool('purge', 'Forget locks that have been free for long.')
    .option('--older-than <time>', 'required. Only those that have been free for longer than this')
    .action(async (flags: Parameters<typeof purge>[0]) => done(await purge(flags)));
  tool('migrate', 'Make or complete the table of the locks (PostgreSQL, MariaDB, MySQL).')
    .option('--print', 'only print the SQL, for those who run their own migrations')
    .action(async (flags: Parameters<typeof migrate>[0]) => done(await migrate(flags)));
  tool('doctor', 'Examine the store: can it be relied on, and what can break its promises?').action(
    async (flags: Parameters<typeof doctor>[0]) => done(await doctor(flags)),
  );
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { readonly version: string }).version;
}
