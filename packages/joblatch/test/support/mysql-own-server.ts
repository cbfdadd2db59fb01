import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mariadb } from '../../../../scripts/stores/mariadb.js';
import { findBinary, findStore } from '../../../../scripts/stores/table.js';
import { openClient } from './mysql-clients.js';

const binaries = findStore(mariadb) as { readonly install: string; readonly server: string } | undefined;

/** Why there can be no server of our own, if so. */
export const noOwnMariadb: string | undefined =
  binaries === undefined
    ? 'MariaDB is not on this machine; on Debian: apt-get install mariadb-server-core'
    : undefined;

const START_TIMEOUT_MS = 30_000;

/** It refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** A MariaDB with settings of its own, and data that is gone with it. */
export class OwnMariadb {
  readonly url: string;
  readonly #command: readonly string[];
  readonly #folder: string;
  readonly #user: { uid: number; gid: number } | undefined;
  #server: ChildProcess | undefined;

  private constructor(url: string, command: readonly string[], folder: string) {
    this.url = url;
    this.#command = command;
    this.#folder = folder;
    this.#user = unprivileged();
  }

  /** @param env for the server, such as a clock that is wrong */
  static async start(args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Promise<OwnMariadb> {
    if (binaries === undefined) throw new Error(noOwnMariadb);
    const folder = mkdtempSync(join(tmpdir(), 'joblatch-own-'));
    chmodSync(folder, 0o711);
    const user = unprivileged();
    if (user) chownSync(folder, user.uid, user.gid);
    const data = join(folder, 'data');
    execFileSync(
      binaries.install,
      ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db'],
      { ...user, cwd: folder, stdio: 'ignore' },
    );
    const init = join(folder, 'init.sql');
    writeFileSync(init, 'create database if not exists joblatch;\n');
    const port = await freePort();
    const setpriv = process.platform === 'linux' ? findBinary('setpriv') : undefined;
    const command = [
      // It ends with us, also when we are killed.
      ...(setpriv ? [setpriv, '--pdeathsig', 'KILL', '--'] : []),
      binaries.server,
      '--no-defaults',
      `--datadir=${data}`,
      `--socket=${join(folder, 'socket')}`,
      `--pid-file=${join(folder, 'pid')}`,
      // Not the one of all: a server that starts removes what others have there.
      `--tmpdir=${folder}`,
      `--init-file=${init}`,
      '--bind-address=127.0.0.1',
      `--port=${port}`,
      '--innodb-flush-log-at-trx-commit=2',
      ...args,
    ];
    const own = new OwnMariadb(`mysql://root@127.0.0.1:${port}/joblatch`, command, folder);
    await own.start(env);
    return own;
  }

  async start(env: NodeJS.ProcessEnv = {}): Promise<void> {
    const [program, ...args] = this.#command as [string, ...string[]];
    this.#server = spawn(program, args, {
      ...this.#user,
      cwd: this.#folder,
      stdio: 'ignore',
      env: { ...process.env, ...env },
    });
    const giveUpAt = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      try {
        const connection = await openClient('mysql2 connection', this.url);
        return await connection.end();
      } catch (error) {
        if (performance.now() > giveUpAt) throw error;
        await sleep(100);
      }
    }
  }

  /** As if the power failed. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async stop(): Promise<void> {
    await this.#end('SIGTERM');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined || server.exitCode !== null) return;
    const ended = once(server, 'exit');
    server.kill(signal);
    await ended;
  }
}
