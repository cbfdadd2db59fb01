import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { postgres } from '../../../../scripts/stores/postgres.js';
import { findBinary, findStore } from '../../../../scripts/stores/table.js';
import { openClient } from './postgres-clients.js';

const binaries = findStore(postgres) as { readonly initdb: string; readonly postgres: string } | undefined;
const pgbouncer = findBinary('pgbouncer');

/** Why there can be no server of our own, if so. */
export const noOwnServer: string | undefined =
  binaries === undefined
    ? 'PostgreSQL is not on this machine; on Debian: apt-get install postgresql'
    : undefined;
export const noPgbouncer: string | undefined =
  pgbouncer === undefined
    ? 'pgbouncer is not on this machine; on Debian: apt-get install pgbouncer'
    : undefined;

const basebackup = findBinary('pg_basebackup');
/** Why there can be no standby that follows it, if so. */
export const noStandby: string | undefined =
  noOwnServer ??
  (basebackup === undefined
    ? 'pg_basebackup is not on this machine; on Debian: apt-get install postgresql-client'
    : undefined);

const START_TIMEOUT_MS = 30_000;

/** Both refuse to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

export function scratch(): { folder: string; user: { uid: number; gid: number } | undefined } {
  const folder = mkdtempSync(join(tmpdir(), 'joblatch-own-'));
  chmodSync(folder, 0o711);
  const user = unprivileged();
  if (user) chownSync(folder, user.uid, user.gid);
  return { folder, user };
}

/** A program that ends with us, also when we are killed. */
export function run(
  command: readonly string[],
  folder: string,
  user: { uid: number; gid: number } | undefined,
): ChildProcess {
  const setpriv = process.platform === 'linux' ? findBinary('setpriv') : undefined;
  const [program, ...args] = [...(setpriv ? [setpriv, '--pdeathsig', 'KILL', '--'] : []), ...command] as [
    string,
  ];
  return spawn(program, args, { ...user, cwd: folder, stdio: 'ignore' });
}

export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

async function untilAnswered(url: string): Promise<void> {
  for (const deadline = Date.now() + START_TIMEOUT_MS; ; await sleep(50)) {
    try {
      const client = await openClient('pg Client', url);
      await client.query('select 1');
      return await client.end();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

/** A server that a test may stop, start and kill. */
export class OwnServer {
  readonly url: string;
  readonly #data: string;
  readonly #folder: string;
  readonly #port: number;
  readonly #user: { uid: number; gid: number } | undefined;
  #child: ChildProcess | undefined;
  #settings: readonly string[] = [];

  /** More files of the server's user, and settings that name them: what `prepare` gives. */
  static async start(prepare?: (folder: string) => readonly string[]): Promise<OwnServer> {
    const { folder, user } = scratch();
    const server = new OwnServer(folder, user, await freePort());
    for (const [command, ...args] of postgres.prepare({ binaries, data: server.#data }))
      server.#execute(command as string, args as string[]);
    server.#settings = prepare?.(folder) ?? [];
    if (user) for (const file of readdirSync(folder)) chownSync(join(folder, file), user.uid, user.gid);
    await server.start();
    return server;
  }

  /** A hot standby that follows this server. */
  async standby(): Promise<OwnServer> {
    const { folder, user } = scratch();
    const server = new OwnServer(folder, user, await freePort());
    server.#execute(basebackup as string, [
      ...['-d', this.url, '-D', server.#data],
      ...['--write-recovery-conf', '--checkpoint=fast', '--no-sync'],
    ]);
    await server.start();
    return server;
  }

  private constructor(folder: string, user: { uid: number; gid: number } | undefined, port: number) {
    this.#folder = folder;
    this.#data = join(folder, 'data');
    this.#user = user;
    this.#port = port;
    this.url = postgres.url({ port });
    mkdirSync(this.#data, { mode: 0o700 });
    if (user) chownSync(this.#data, user.uid, user.gid);
  }

  #execute(command: string, args: readonly string[]): void {
    execFileSync(command, args, { ...this.#user, cwd: this.#folder, stdio: 'ignore' });
  }

  async start(): Promise<void> {
    const command = postgres.command({ binaries, data: this.#data, port: this.#port }) as string[];
    const settings = ['autovacuum=off', ...this.#settings].flatMap((setting) => ['-c', setting]);
    this.#child = run([...command, ...settings], this.#folder, this.#user);
    await untilAnswered(this.url);
  }

  /** `SIGINT` ends connections in order, `SIGQUIT` as a crash would. */
  async stop(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    child.kill(signal);
    await once(child, 'exit');
  }

  /** From the next start on it only follows, and can only be read. */
  becomeStandby(): void {
    writeFileSync(join(this.#data, 'standby.signal'), '');
  }

  async remove(): Promise<void> {
    await this.stop('SIGQUIT');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** pgbouncer in transaction mode in front of a server: fewer connections behind it than before it. */
export async function startPgbouncer(server: string): Promise<{ url: string; stop(): Promise<void> }> {
  const { folder, user } = scratch();
  const { hostname, port: serverPort, username } = new URL(server);
  const port = await freePort();
  const users = join(folder, 'users.txt');
  writeFileSync(users, `"${username}" ""\n`);
  const config = join(folder, 'pgbouncer.ini');
  writeFileSync(
    config,
    `[databases]
* = host=${hostname} port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = 3
ignore_startup_parameters = extra_float_digits,options
`,
  );
  const child = run([pgbouncer as string, config], folder, user);
  const url = new URL(server);
  url.port = String(port);
  url.search = '';
  await untilAnswered(url.href);
  return {
    url: url.href,
    stop: async () => {
      child.kill('SIGKILL');
      await once(child, 'exit');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
