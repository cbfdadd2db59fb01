import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLocks, isLockError, type LockProvider, type Locks } from 'joblatch';
import { expect, test } from 'vitest';
import { guard, hold, LEASE_MS, type Outcome, outcomeOf } from './guard-round.js';

/** A database with locks and with counters that nothing protects but the lock. */
export interface GuardedDatabase {
  /** A client of its own; {@link close} closes it. */
  openProvider(): Promise<LockProvider>;
  begin(isolation: string): Promise<GuardedTransaction>;
  /** Whether the database has undone the transaction with this error: a serialization failure, an end by the server. */
  isRolledBack(error: Error): boolean;
  /** Whether it has closed the connection, since the transaction sat idle for too long. */
  isClosed(error: Error): boolean;
  /** A counter at 0 for each key. */
  reset(keys: readonly string[]): Promise<void>;
  total(): Promise<number>;
  close(): Promise<void>;
}

export interface GuardedTransaction {
  /** What `guard` is given. */
  readonly transaction: object;
  /** The counter, without any lock. */
  read(key: string): Promise<number>;
  /** Writes it, whatever it is by now. */
  write(key: string, n: number): Promise<void>;
  /** Does something in the database for so long: the transaction is not idle meanwhile. */
  stayBusy(ms: number): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

export interface GuardStory {
  open(): GuardedDatabase;
  /** For worker processes: a module of plain JavaScript whose `open()` gives the same database. */
  module(): string;
  readonly isolations: readonly string[];
  /** Those under which a process that is stopped after it has read leaves the others alone. Default: all. */
  readonly stops?: readonly string[];
  /** Under which the database lets updates be lost that nothing protects. */
  readonly loses: readonly string[];
}

/** With JOBLATCH_GUARD_ROUNDS=10000: 10,000 rounds, 200 stops, 1,000 renewals. By default what takes some seconds each. */
const FULL = Number(process.env.JOBLATCH_GUARD_ROUNDS ?? 0);
const ROUNDS = FULL || 600;
const STOPS = Math.ceil(FULL / 50) || 24;
const RENEWALS = Math.ceil(FULL / 10) || 48;
/** The same without the guard: enough to see it lose. */
const UNGUARDED_ROUNDS = 400;
const UNGUARDED_STOPS = 6;
const TIMEOUT_MS = 20_000 + FULL * 60;

const KEYS = Array.from({ length: 16 }, (_, i) => `counter-${i}`);
/** So many contend for a key, each through a provider of its own. */
const PROVIDERS = 2;
/** Of the rounds that wait until the lease is over. */
const LATE = 0.4;

type Mode = 'guarded' | 'unguarded';

/** What becomes of read-modify-write transactions under a lock that runs out while they are open. */
export function tellsTheGuardStory(story: GuardStory): void {
  for (const isolation of story.isolations) {
    test(`${isolation}: holders who are late, over ${KEYS.length} keys: no update is lost`, {
      timeout: TIMEOUT_MS,
    }, async () => {
      const found = await contend(story, isolation, 'guarded', ROUNDS);
      console.log(`${isolation}, guarded: ${JSON.stringify(found)}`);
      expect(found.lost).toBe(0);
      expect(found.committed).toBeGreaterThan(0);
      expect(found.refused + found.undone).toBeGreaterThan(0);
    });

    test(`${isolation}: guarded transactions longer than the lease, renewed meanwhile: none is lost`, {
      timeout: TIMEOUT_MS,
    }, async () => {
      const found = await renew(story, isolation, RENEWALS);
      console.log(`${isolation}, renewed: ${JSON.stringify(found)}`);
      expect(found).toMatchObject({ lost: 0, aborted: 0, taken: 0, held: RENEWALS - found.late });
      expect(found.late).toBeLessThanOrEqual(RENEWALS * LATE_AT_MOST);
      expect(found.refusals).toBeGreaterThanOrEqual(RENEWALS);
    });
  }

  for (const isolation of story.stops ?? story.isolations) {
    test(`${isolation}: a process that is stopped in its transaction: no update is lost`, {
      timeout: TIMEOUT_MS,
    }, async () => {
      const found = await stop(story, isolation, 'guarded', STOPS);
      console.log(`${isolation}, stopped, guarded: ${JSON.stringify(found)}`);
      expect(found.lost).toBe(0);
      expect(found.committed).toBeGreaterThan(0);
    });
  }

  for (const isolation of story.loses) {
    test(`${isolation}: the same without the guard loses updates`, { timeout: TIMEOUT_MS }, async () => {
      const late = await contend(story, isolation, 'unguarded', UNGUARDED_ROUNDS);
      const stopped = await stop(story, isolation, 'unguarded', UNGUARDED_STOPS);
      console.log(`${isolation}, unguarded: ${JSON.stringify(late)}; stopped: ${JSON.stringify(stopped)}`);
      expect(late.lost).toBeGreaterThan(0);
      expect(stopped.lost).toBeGreaterThan(0);
    });
  }
}

interface Tally {
  rounds: number;
  committed: number;
  refused: number;
  undone: number;
  lost: number;
}

const tally = (): Tally => ({ rounds: 0, committed: 0, refused: 0, undone: 0, lost: 0 });

async function contend({ open }: GuardStory, isolation: string, mode: Mode, rounds: number): Promise<Tally> {
  const database = open();
  const found = tally();
  const round = async (provider: LockProvider, key: string): Promise<void> => {
    const holding = await hold(provider, key);
    found.rounds += 1;
    found[await transact(database, provider, holding, isolation, mode)] += 1;
    await provider.release(holding);
  };
  try {
    await database.reset(KEYS);
    const providers = await Promise.all(Array.from({ length: PROVIDERS }, () => database.openProvider()));
    const holders = KEYS.flatMap((key) => providers.map((provider) => () => round(provider, key)));
    await repeat(rounds, holders);
    found.lost = found.committed - (await database.total());
    return found;
  } finally {
    await database.close();
  }
}

/** One transaction of a holder, late or not: guarded first or last, idle or busy until the lease is over. */
async function transact(
  database: GuardedDatabase,
  provider: LockProvider,
  holding: Awaited<ReturnType<typeof hold>>,
  isolation: string,
  mode: Mode,
): Promise<Outcome> {
  const first = Math.random() < 0.5;
  const tx = await database.begin(isolation);
  return outcomeOf(database, tx, async () => {
    const isGuarded = async (): Promise<boolean> => mode === 'unguarded' || guard(provider, holding, tx);
    if (first && !(await isGuarded())) return false;
    const read = await tx.read(holding.key);
    if (Math.random() < LATE) {
      const wait = 60 + Math.random() * 30;
      await (Math.random() < 0.5 ? sleep(wait) : tx.stayBusy(wait));
    }
    await tx.write(holding.key, read + 1);
    return first || isGuarded();
  });
}

/** Waits for all of them, also when one fails: the database must not be closed under the others. */
async function all(works: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(works);
  await Promise.all(works);
}

/** Plays so many rounds, each worker one after another; none is begun any more when one has failed. */
async function repeat(rounds: number, workers: readonly (() => Promise<void>)[]): Promise<void> {
  let left = rounds;
  const work = async (round: () => Promise<void>): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await round().catch((error: unknown) => {
        left = 0;
        throw error;
      });
    }
  };
  await all(workers.map(work));
}

/** A holder in a process of its own. */
class Worker {
  readonly child: ChildProcess;
  #settle: { resolve(answer: unknown): void; reject(error: Error): void } | undefined;

  private constructor(module: string) {
    const worker = fileURLToPath(new URL('guard-worker.js', import.meta.url));
    this.child = fork(worker, [module], { execArgv: [] });
    this.child.on('message', ({ answer, error }: { answer?: unknown; error?: string }) => {
      if (error === undefined) this.#settle?.resolve(answer);
      else this.#settle?.reject(new Error(`In a worker process: ${error}`));
    });
    this.child.once('exit', (code, signal) =>
      this.#settle?.reject(new Error(`A worker process ended: ${signal ?? code}`)),
    );
  }

  static async start(module: string): Promise<Worker> {
    const worker = new Worker(module);
    await worker.#answer();
    return worker;
  }

  #answer<T>(): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#settle = { resolve: resolve as (answer: unknown) => void, reject };
    });
  }

  async begin(key: string, isolation: string): Promise<void> {
    this.child.send({ name: 'begin', args: { key, isolation } });
    await this.#answer();
  }

  async end(mode: Mode, first: boolean): Promise<Outcome> {
    this.child.send({ name: 'end', args: { mode, first } });
    return (await this.#answer<{ outcome: Outcome }>()).outcome;
  }
}

/** In half of the rounds it is stopped after it has read, in the others anywhere between its write and its commit. */
async function stop(story: GuardStory, isolation: string, mode: Mode, stops: number): Promise<Tally> {
  const database = story.open();
  const found = tally();
  const key = KEYS[0] as string;
  const [stopped, successor] = [await Worker.start(story.module()), await Worker.start(story.module())];
  const count = (outcome: Outcome): void => {
    found[outcome] += 1;
  };
  try {
    await database.reset([key]);
    for (; found.rounds < stops; found.rounds += 1) {
      await stopped.begin(key, isolation);
      const midway = found.rounds % 2 === 1;
      // Where it is stopped midway, the guard is done or on its way.
      let ending = midway ? stopped.end(mode, Math.random() < 0.5) : undefined;
      if (midway) await sleep(Math.random() * 6);
      stopped.child.kill('SIGSTOP');
      // Takes over when the lease is over and the transaction, if it was guarded, has ended.
      await successor.begin(key, isolation);
      const succeeding = successor.end(mode, true);
      // What the stopped one has written without a guard may still be in the way of the other's write.
      if (midway) await Promise.race([succeeding.catch(() => {}), sleep(3 * LEASE_MS)]);
      else count(await succeeding);
      ending ??= stopped.end(mode, Math.random() < 0.5);
      stopped.child.kill('SIGCONT');
      count(await ending);
      if (midway) count(await succeeding);
    }
    found.lost = found.committed - (await database.total());
    return found;
  } finally {
    for (const { child } of [stopped, successor]) child.kill('SIGKILL');
    await database.close();
  }
}

/** Renewed by the watchdog every third of it. */
const RENEWED_LEASE_MS = 300;
/** So many may be lost by right, on a machine that is too busy to renew in time. If guards kept renewals out, all would be. */
const LATE_AT_MOST = 0.1;
/** By hand as well: renewals are to come at every moment of a guard. */
const EXTEND_EVERY_MS = 5;
const STEP_MS = 20;

interface Renewed {
  held: number;
  /** The machine was too slow, by the holder's own clock or for the transaction to be kept open. */
  late: number;
  /** Told by the database. */
  lost: number;
  aborted: number;
  refusals: number;
  taken: number;
}

async function renew({ open }: GuardStory, isolation: string, rounds: number): Promise<Renewed> {
  const database = open();
  const found: Renewed = { held: 0, late: 0, lost: 0, aborted: 0, refusals: 0, taken: 0 };
  try {
    await database.reset(KEYS);
    const locks = createLocks({
      provider: await database.openProvider(),
      watchdogLease: RENEWED_LEASE_MS,
      pollEvery: 5,
    });
    const taker = await database.openProvider();
    locks.on('lost', ({ detectedBy }) => {
      if (detectedBy !== 'deadline') found.lost += 1;
    });
    // A renewal that takes too long is told by what becomes of the lock.
    locks.on('error', () => {});
    const holders = KEYS.slice(0, 8).map(
      (key) => () => longer(database, locks, taker, { key, isolation, found }),
    );
    await repeat(rounds, holders);
    await locks.close();
    return found;
  } finally {
    await database.close();
  }
}

interface LongRound {
  readonly key: string;
  readonly isolation: string;
  readonly found: Renewed;
}

/** One guarded transaction that is longer than the lease, while somebody else tries to take the key. */
async function longer(
  database: GuardedDatabase,
  locks: Locks,
  taker: LockProvider,
  { key, isolation, found }: LongRound,
): Promise<void> {
  const lock = await locks.acquire(key);
  const tx = await database.begin(isolation);
  const until = performance.now() + 1.5 * RENEWED_LEASE_MS;
  const renew = async (): Promise<void> => {
    for (; performance.now() < until; await sleep(EXTEND_EVERY_MS)) await lock.extend(RENEWED_LEASE_MS);
  };
  const work = async (): Promise<void> => {
    for (; performance.now() < until; await sleep(STEP_MS)) {
      await tx.read(key);
      const { ok } = await taker.acquire({ key, owner: `taker-${Math.random()}`, leaseMs: LEASE_MS });
      found[ok ? 'taken' : 'refusals'] += 1;
    }
  };
  try {
    await lock.guard(tx.transaction);
    await all([renew(), work()]);
    await lock.guard(tx.transaction);
    if (lock.held) found.held += 1;
    if (lock.signal.aborted) found.aborted += 1;
  } catch (error) {
    await tx.rollback().catch(() => {});
    await lock.release();
    if (!isLate(database, error)) throw error;
    found.late += 1;
    return;
  }
  await tx.commit();
  await lock.release();
}

function isLate(database: GuardedDatabase, error: unknown): boolean {
  if (isLockError(error, 'LOST')) return error.detectedBy === 'deadline';
  const cause = isLockError(error, 'STORE') ? error.cause : error;
  return cause instanceof Error && database.isClosed(cause);
}
