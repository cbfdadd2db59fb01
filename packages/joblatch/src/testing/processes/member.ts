import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Command, CommandName, Commands, Reply } from './messages.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

/** One worker process, as its parent sees it. */
export class Member {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #exited: Promise<void>;
  #lastId = 0;
  #stderr = '';

  private constructor(moduleUrl: string, env: Readonly<Record<string, string>>) {
    // None of the parent's flags: a test runner's loaders are nothing to the worker.
    this.#child = fork(WORKER, [moduleUrl], {
      env: { ...process.env, ...env },
      execArgv: [],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    });
    this.#child.stderr?.on('data', (data: Buffer) => {
      this.#stderr += data.toString();
    });
    this.#child.on('message', (message: Reply) => this.#settle(message));
    this.#child.on('error', (error) => this.#fail(error));
    this.#exited = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => {
        this.#fail(new Error(`A worker process ended (${signal ?? code}).\n${this.#stderr}`));
        resolve();
      });
    });
  }

  /** Starts a worker and waits until it has opened its provider. */
  static async start(moduleUrl: string | URL, env: Readonly<Record<string, string>> = {}): Promise<Member> {
    const member = new Member(String(moduleUrl), env);
    await new Promise((resolve, reject) => member.#waiting.set(0, { resolve, reject }));
    return member;
  }

  async ask<N extends CommandName>(name: N, args: Commands[N]['args']): Promise<Commands[N]['answer']> {
    this.#lastId += 1;
    const command: Command<N> = { id: this.#lastId, name, args };
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#waiting.set(command.id, { resolve, reject });
    });
    this.#child.send(command);
    return (await answer) as Commands[N]['answer'];
  }

  /** SIGSTOP: it does nothing any more, and does not know it. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.#child.kill('SIGCONT');
  }

  /** SIGKILL: it ends without a word, paused or not. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  #settle(message: Reply): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ('error' in message) waiting?.reject(new Error(`In a worker process: ${message.error}`));
    else waiting?.resolve(message.answer);
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
