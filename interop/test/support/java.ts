import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const target = fileURLToPath(new URL('../../java/target', import.meta.url));

/** Why there is no Java to steer, if so. */
export const noJava: string | undefined = existsSync(`${target}/lib`)
  ? undefined
  : 'interop/java is not built; npm run interop builds it, which needs Java 17 and Maven';

/** What a ShedLock provider of `LockProviders.java` is called. */
export type Kind = 'databaseTime' | 'ownClockInUtc' | 'redis' | 'redisWithoutSafeUpdate';

/** Where a Java process finds its locks; `space` is a table, or an environment on Redis. */
export interface JavaStore {
  readonly kind: Kind;
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly space: string;
}

/** A Java process with ShedLock, see `Steered.java`. What it is asked it does one after the other. */
export class Java {
  readonly #process: ChildProcess;
  readonly #waiting: { resolve(answer: string): void; reject(reason: Error): void }[] = [];
  #complaints = '';
  #ended: Error | undefined;
  #names = 0;

  /** @param zone of the JVM, and so of what it takes for local time */
  constructor(zone: string) {
    const options = [`-Duser.timezone=${zone}`, '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn', '-Xmx128m'];
    const classes = ['-cp', `${target}/classes:${target}/lib/*`, 'dev.joblatch.interop.Steered'];
    const child = spawn('java', [...options, ...classes], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#process = child;
    createInterface({ input: child.stdout }).on('line', (line) => this.#waiting.shift()?.resolve(line));
    child.stderr.on('data', (text) => {
      this.#complaints += text;
    });
    const end = (why: string) => {
      this.#ended ??= new Error(`Java ${why}: ${this.#complaints}`);
      for (const { reject } of this.#waiting.splice(0)) reject(this.#ended);
    };
    child.on('error', (error) => end(`did not start, ${error.message}`));
    child.on('exit', (code, signal) => end(`ended with ${signal ?? code}`));
    child.stdin.on('error', () => {});
  }

  /** Opens a lock provider. */
  async open({ kind, url, user, password, space }: JavaStore): Promise<JavaLocks> {
    const id = this.#name();
    await this.#ask('opened', 'open', id, kind, url, user, password, space);
    const given = async (words: readonly (string | number)[]) => {
      const answer = await this.#ask('granted|refused|extended', ...words);
      return answer !== 'refused';
    };
    return {
      lock: async (name, atMostMs, atLeastMs = 0) => {
        const lock = this.#name();
        if (!(await given(['lock', id, lock, name, atMostMs, atLeastMs]))) return undefined;
        return {
          extend: (most, least = 0) => given(['extend', lock, most, least]),
          unlock: async () => void (await this.#ask('unlocked', 'unlock', lock)),
        };
      },
      increment: async (name, times, file) => {
        const answer = await this.#ask(/^incremented /, 'increment', id, name, times, file);
        return Number(answer.split(' ')[1]);
      },
    };
  }

  async close(): Promise<void> {
    if (this.#ended !== undefined) return;
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.stdin?.end();
    await ended;
  }

  /** Ends it as a crash would. */
  kill(): void {
    this.#process.kill('SIGKILL');
  }

  #name(): string {
    this.#names += 1;
    return String(this.#names);
  }

  async #ask(expected: string | RegExp, ...words: readonly (string | number)[]): Promise<string> {
    if (this.#ended !== undefined) throw this.#ended;
    const answer = await new Promise<string>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#process.stdin?.write(`${words.join('\t')}\n`);
    });
    const fits = typeof expected === 'string' ? expected.split('|').includes(answer) : expected.test(answer);
    if (!fits) throw new Error(answer);
    return answer;
  }
}

/** A ShedLock provider in a Java process. */
export interface JavaLocks {
  /** One attempt: the lock, or undefined if it is held. */
  lock(name: string, atMostMs: number, atLeastMs?: number): Promise<JavaLock | undefined>;
  /** Adds one to the number in a file, so often, each time under the lock; gives how often it was refused. */
  increment(name: string, times: number, file: string): Promise<number>;
}

export interface JavaLock {
  extend(atMostMs: number, atLeastMs?: number): Promise<boolean>;
  unlock(): Promise<void>;
}
