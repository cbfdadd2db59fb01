import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mariadb } from '../../../../scripts/stores/mariadb.js';
import { findStore } from '../../../../scripts/stores/table.js';
import { closeClient, noClients, openClient } from './mysql-clients.js';
import { freePort, run, scratch } from './postgres-own-server.ts';

const binaries = findStore(mariadb) as { readonly install: string; readonly server: string } | undefined;

/** Why there can be no server of our own, if so. Who sets no server wants no tests of one. */
export const noOwnMariadb: string | undefined =
  noClients ??
  (process.env.JOBLATCH_TEST_MARIADB === undefined
    ? 'JOBLATCH_TEST_MARIADB is not set; npm run stores -- --only mariadb --exec "npm test" sets it'
    : binaries === undefined
      ? 'MariaDB is not on this machine; on Debian: apt-get install mariadb-server-core'
      : undefined);

const START_TIMEOUT_MS = 30_000;

/** A server with settings that would disturb others on a shared one, and data that is gone with it. */
export class OwnMariadb {
  readonly url: string;
  readonly folder: string;
  readonly #child: ChildProcess;

  /** @param prepare writes more files of the server's user, and gives settings, which may name them */
  static async start(prepare: (folder: string) => readonly string[] = () => []): Promise<OwnMariadb> {
    const { folder, user } = scratch();
    const data = join(folder, 'server');
    mkdirSync(data);
    const settings = prepare(folder);
    const place = { binaries, data, port: await freePort() };
    const commands = mariadb.prepare(place) as string[][];
    if (user)
      for (const file of ['server', ...readdirSync(folder)])
        chownSync(join(folder, file), user.uid, user.gid);
    for (const [command, ...args] of commands)
      execFileSync(command as string, args, { ...user, cwd: folder, stdio: 'pipe' });
    const child = run([...(mariadb.command(place) as string[]), ...settings], folder, user);
    const server = new OwnMariadb(mariadb.url(place), folder, child);
    await server.#untilAnswered();
    return server;
  }

  private constructor(url: string, folder: string, child: ChildProcess) {
    this.url = url;
    this.folder = folder;
    this.#child = child;
  }

  async query(sql: string): Promise<void> {
    const connection = await openClient('mysql2 connection', this.url, { multipleStatements: true });
    try {
      await connection.query(sql);
    } finally {
      await closeClient('mysql2 connection', connection);
    }
  }

  async remove(): Promise<void> {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #untilAnswered(): Promise<void> {
    for (const deadline = performance.now() + START_TIMEOUT_MS; ; await sleep(50)) {
      try {
        return await this.query('do 0');
      } catch (error) {
        if (performance.now() > deadline || this.#child.exitCode !== null) throw error;
      }
    }
  }
}
