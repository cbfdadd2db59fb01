// A process of its own: imports the module of the provider under test and does what its parent tells it.
import type { LockProvider } from '../../provider/lock-provider.js';
import { countRounds } from './count-rounds.js';
import type { Command, CommandName, Commands, Reply } from './messages.js';
import { race } from './race.js';

type Handlers = {
  readonly [N in CommandName]: (args: Commands[N]['args']) => Promise<Commands[N]['answer']>;
};

let opened: LockProvider | undefined;
// The parent has gone or has said that this is all; it may do so before the provider is open.
process.on('disconnect', () => void leave());

const provider = await openProvider(process.argv[2] ?? '');
const handlers: Handlers = {
  acquire: (request) => provider.acquire(request),
  renewMany: (requests) => provider.renewMany(requests),
  release: (request) => provider.release(request),
  race: (args) => race(provider, args),
  count: (args) => countRounds(provider, args),
};

process.on('message', (message: Command) => void obey(message));
process.send?.({ id: 0, answer: 'ready' } satisfies Reply);

async function openProvider(moduleUrl: string): Promise<LockProvider> {
  const module: { readonly open?: unknown } = await import(moduleUrl);
  if (typeof module.open !== 'function') throw new TypeError(`${moduleUrl} exports no function open().`);
  const provider: LockProvider = await module.open();
  opened = provider;
  return provider;
}

async function obey<N extends CommandName>({ id, name, args }: Command<N>): Promise<void> {
  try {
    reply({ id, answer: await handlers[name](args) });
  } catch (error) {
    reply({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

function reply(message: Reply): void {
  // Without a parent nobody waits for it.
  if (process.connected) process.send?.(message);
}

async function leave(): Promise<void> {
  try {
    await opened?.close?.();
  } finally {
    process.exit();
  }
}
