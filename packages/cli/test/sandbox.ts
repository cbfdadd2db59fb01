import { type ChildProcess, execFileSync, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach } from 'vitest';

export const JOBLATCH: string = fileURLToPath(new URL('../bin/joblatch.js', import.meta.url));

export interface Result {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly bytes: Buffer;
  readonly stderr: string;
}

/** A joblatch that runs. */
export interface Running {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly done: Promise<Result>;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly input?: string | Buffer;
  readonly stdio?: StdioOptions;
  readonly cwd?: string;
  /** In a process group of its own. */
  readonly detached?: boolean;
}

/** A folder, a store and an environment of its own for every test; what still runs afterwards is killed. */
export class Sandbox {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'joblatch-cli-'));
  readonly store: string;
  readonly #running = new Set<ChildProcess>();

  constructor(store?: string) {
    this.store = store ?? this.path('locks.db');
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Reads a file that a command writes, when it is there and has a whole line. */
  async line(name: string): Promise<string> {
    await until(
      () => existsSync(this.path(name)) && readFileSync(this.path(name), 'utf8').endsWith('\n'),
      name,
    );
    return readFileSync(this.path(name), 'utf8').trim();
  }

  async json(name: string): Promise<Record<string, unknown>> {
    return JSON.parse(await this.line(name)) as Record<string, unknown>;
  }

  start(args: readonly string[], options: StartOptions = {}): Running {
    const child = spawn(process.execPath, [JOBLATCH, ...args], {
      cwd: options.cwd ?? this.folder,
      env: { ...cleanEnvironment(), HOME: this.folder, JOBLATCH_STORE: this.store, ...options.env },
      stdio: options.stdio ?? 'pipe',
      detached: options.detached ?? false,
    });
    this.#running.add(child);
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input);
    return { child, pid: child.pid as number, done: finish(child) };
  }

  run(args: readonly string[], options?: StartOptions): Promise<Result> {
    return this.start(args, options).done;
  }

  /** For what must work before the test can begin. */
  async ok(args: readonly string[]): Promise<void> {
    const { code, stderr } = await this.run(args);
    if (code !== 0) throw new Error(`joblatch ${args.join(' ')}: status ${code}: ${stderr}`);
  }

  /** Runs `joblatch COMMAND --json` and reads what it prints. */
  async ask<T>(...args: readonly string[]): Promise<T> {
    const { stdout, stderr, code } = await this.run([...args, '--json']);
    if (stdout === '')
      throw new Error(`joblatch ${args.join(' ')} printed nothing, status ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  async state(name: string): Promise<string | undefined> {
    return (await this.ask<{ state: string } | null>('show', name))?.state;
  }

  clear(): void {
    for (const child of this.#running) if (child.exitCode === null) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Gives the tests of a file, or of one `describe`, a fresh sandbox each; with a store that is made for each, if told how. */
export function sandboxes(freshStore?: () => Promise<string>): () => Sandbox {
  let box: Sandbox | undefined;
  beforeEach(async () => {
    box = new Sandbox(await freshStore?.());
  });
  afterEach(() => box?.clear());
  return () => box as Sandbox;
}

async function finish(child: ChildProcess): Promise<Result> {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => err.push(chunk));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  const bytes = Buffer.concat(out);
  return { code, signal, bytes, stdout: bytes.toString(), stderr: Buffer.concat(err).toString() };
}

/** Nothing of what the tests themselves were started with. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(JOBLATCH|XDG|NO_COLOR|FORCE_COLOR|NODE_OPTIONS)/.test(name),
    ),
  );
}

export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not so after 20 s: ${what}`);
    await sleep(20);
  }
}

/** Whether a process runs. One that is dead but that nobody has asked about does not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^(Z|$)/.test(
      execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).trim(),
    );
  } catch {
    return false;
  }
}
