import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { openSqlite } from '../support/open-sqlite.js';
import { describePerDriver, freshFile, scratchFolder } from '../support/sqlite-drivers.ts';

const WORKER = fileURLToPath(new URL('worker.js', import.meta.url));
const folder = scratchFolder();

type Fact = Record<string, unknown>;

/** An instance: what it tells, fact by fact. */
class Instance {
  readonly child: ChildProcess;
  readonly exit: Promise<number | null>;
  readonly #facts: Fact[] = [];
  #wake: () => void = () => {};

  constructor(...args: string[]) {
    this.child = spawn(process.execPath, [WORKER, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let errors = '';
    this.child.stderr?.on('data', (chunk: Buffer) => {
      errors += chunk.toString();
    });
    createInterface({ input: this.child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      this.#facts.push(JSON.parse(line) as Fact);
      this.#wake();
    });
    this.exit = new Promise((resolve) => {
      this.child.once('close', (code) => {
        if (code !== 0 && code !== null) this.#facts.push({ failed: errors });
        this.#facts.push({ ended: true });
        this.#wake();
        resolve(code);
      });
    });
    running.add(this);
  }

  async next(): Promise<Fact> {
    while (this.#facts.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#facts.shift() as Fact;
  }
}

const running = new Set<Instance>();
afterEach(() => {
  for (const { child } of running) child.kill('SIGKILL');
  running.clear();
});

async function count(driver: string, mode: 'locked' | 'unlocked', rounds: number): Promise<Fact> {
  const store = freshFile(folder);
  const counter = `${freshFile(folder)}.txt`;
  writeFileSync(counter, '0');
  const start = (): Instance => new Instance('count', driver, store, counter, String(rounds), mode);
  const instances = Array.from({ length: 8 }, start);
  for (const instance of instances) expect(await instance.next()).toEqual({ ready: true });
  writeFileSync(`${counter}.go`, '');
  let refusals = 0;
  for (const instance of instances) refusals += (await instance.next()).refusals as number;
  return { total: Number(readFileSync(counter, 'utf8')), refusals };
}

describePerDriver('a fleet over one file', ({ name: driver }) => {
  test('eight processes, a hundred rounds each: an unprotected counter is exact', {
    timeout: 120_000,
  }, async () => {
    const { total, refusals } = await count(driver, 'locked', 100);
    expect(total).toBe(800);
    expect(refusals).toBeGreaterThan(0);
    console.log(`${driver}: 800 increments, ${refusals} refusals`);
  });

  test('a holder that was stopped past its lease knows at the first read', async () => {
    const store = freshFile(folder);
    const flag = `${store}.flag`;
    const holder = new Instance('stand', driver, store, flag, '1500ms');
    const { token } = await holder.next();
    holder.child.kill('SIGSTOP');
    const successor = await new Instance('takeOver', driver, store).next();
    writeFileSync(flag, '');
    holder.child.kill('SIGCONT');
    const { outcome } = await holder.next();
    expect(outcome).toMatchObject({
      status: 'lost',
      detectedBy: 'deadline',
      value: { held: false, aborted: true },
    });
    expect(token).toBeLessThan(successor.token as number);
  });

  test('a holder whose event loop was blocked past its lease knows at the first read', async () => {
    const store = freshFile(folder);
    const flag = `${store}.flag`;
    const holder = new Instance('stand', driver, store, flag, '1s');
    await holder.next();
    await new Instance('takeOver', driver, store).next();
    writeFileSync(flag, '');
    expect(await holder.next()).toMatchObject({ outcome: { status: 'lost', value: { held: false } } });
  });

  test('SIGTERM: what runs is aborted after the grace, the key is free, the process ends by itself', async () => {
    const store = freshFile(folder);
    const instance = new Instance('drain', driver, store, '200ms');
    await instance.next();
    instance.child.kill('SIGTERM');
    expect(await instance.next()).toMatchObject({ outcome: { status: 'ran', value: 'STOPPED' } });
    expect(await instance.next()).toEqual({ closed: true });
    expect(await instance.exit).toBe(0);
    const provider = openSqlite(driver, store);
    expect(await provider.inspect({ key: 'drain' })).toMatchObject([{ state: 'free' }]);
    await provider.close?.();
  });

  test('a lock in the hand keeps no process alive', async () => {
    const instance = new Instance('forget', driver, freshFile(folder));
    expect(await instance.next()).toEqual({ in: true });
    expect(await instance.exit).toBe(0);
  });

  test('ten thousand locks held: one call a beat', { timeout: 90_000 }, async () => {
    const instance = new Instance('many', driver, freshFile(folder), '10000');
    expect(await instance.next()).toEqual({ beats: 3, lost: 0, held: 10_000 });
  });
});

test('the same without the lock loses counts', { timeout: 60_000 }, async () => {
  const { total } = await count('libsql', 'unlocked', 100);
  expect(total).toBeLessThan(800);
});
