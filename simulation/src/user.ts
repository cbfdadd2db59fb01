import { getEventListeners } from 'node:events';
import type { JobContext, Lock, Outcome } from 'joblatch';
import type { Claim, Terms } from './claim.js';
import { insist, Violation } from './invariants.js';
import type { Library } from './library.js';
import { type JobKey, type Plan, SIGNALS, type SlotAsked, type Step, type UserAct } from './plan.js';
import { OwnError, type Process } from './process.js';
import type { Counters } from './sometimes.js';

type LockAct = Extract<UserAct, { readonly do: 'try' | 'acquire' | 'withLock' }>;

/** What the fleet as a whole has run: slots, and which of them are done. */
export class Ledger {
  readonly #started = new Map<string, number>();
  readonly #done = new Set<string>();
  readonly #failed = new Set<string>();

  start(counters: Counters, job: JobKey, slot: number, mayRepeat: boolean): void {
    const id = `${job.name}\n${slot}`;
    const before = this.#started.get(id) ?? 0;
    this.#started.set(id, before + 1);
    if (this.#failed.has(id) && !this.#done.has(id)) counters.hit('slot tried again after a failure');
    if (mayRepeat) return;
    if (job.options.perSlot === 'at-most-once') {
      insist(before === 0, 'slots', () => `slot ${slot} of ${job.name} was run ${before + 1} times`);
    } else {
      insist(
        !this.#done.has(id),
        'slots',
        () => `slot ${slot} of ${job.name} was run again after it was done`,
      );
    }
  }

  done(job: JobKey, slot: number | undefined): void {
    if (slot !== undefined) this.#done.add(`${job.name}\n${slot}`);
  }

  fail(job: JobKey, slot: number | undefined): void {
    if (slot !== undefined) this.#failed.add(`${job.name}\n${slot}`);
  }
}

/** The program on one process: it does with the library what people do, and checks what it is told. */
export class User {
  readonly #library: Library;
  readonly #plan: Plan;
  readonly #process: Process;
  readonly #counters: Counters;
  readonly #ledger: Ledger;
  /** Whether the store may have forgotten what slots were run. */
  readonly #hasForgotten: (key: string) => boolean;
  readonly #signals: AbortController[] = Array.from({ length: SIGNALS }, () => new AbortController());

  constructor(
    library: Library,
    plan: Plan,
    process: Process,
    counters: Counters,
    ledger: Ledger,
    hasForgotten: (key: string) => boolean,
  ) {
    this.#library = library;
    this.#plan = plan;
    this.#process = process;
    this.#counters = counters;
    this.#ledger = ledger;
    this.#hasForgotten = hasForgotten;
  }

  /** Never rejects, but for a violation. */
  async act(what: UserAct): Promise<void> {
    switch (what.do) {
      case 'job':
        return this.#job(what.key, what.slot, what.tick, what.steps);
      case 'try':
      case 'acquire':
        return this.#take(what);
      case 'withLock':
        return this.#withLock(what);
      case 'abort signal': {
        this.#process.trace(() => `aborts signal ${what.signal}`);
        this.#signals[what.signal]?.abort(new OwnError('the user has had enough'));
        this.#signals[what.signal] = new AbortController();
        return;
      }
      case 'stop':
      case 'close':
        return this.#process.stop(what.graceMs, what.do === 'close');
    }
  }

  /** Listeners that the library has left on our signals. */
  get listeners(): number {
    return this.#signals.reduce((sum, { signal }) => sum + getEventListeners(signal, 'abort').length, 0);
  }

  async #job(key: number, slot: SlotAsked, tick: boolean, steps: readonly Step[]): Promise<void> {
    const job = this.#plan.jobs[key] as JobKey;
    const { locks } = this.#process;
    let claim: Claim | undefined;
    let settled: { readonly error?: unknown; readonly held: boolean } | undefined;
    let nestedIn: Lock | undefined;
    let slotOfRun: number | undefined;
    const oncePer = slot !== undefined && 'oncePerMs' in slot ? slot.oncePerMs : undefined;
    const named = slot !== undefined && 'slot' in slot ? slot.slot : undefined;
    const run = locks.job({ name: job.name, ...job.options, oncePer }, async (context) => {
      const { lock } = context;
      const known = this.#process.claims.get(lock.owner);
      if (known?.lock !== undefined) nestedIn = lock;
      claim = nestedIn === undefined ? this.#process.hold(lock, termsOf(job, this.#plan)) : known;
      if (nestedIn === undefined) {
        slotOfRun = context.slot;
        this.#enter(job, context, named, oncePer);
      }
      try {
        await this.#do(steps, context.lock, claim as Claim, context);
        settled = { held: lock.held };
        return context.token;
      } catch (error) {
        settled = { error, held: lock.held };
        throw error;
      } finally {
        if (nestedIn === undefined && settled !== undefined && 'error' in settled) {
          this.#ledger.fail(job, context.slot);
        }
      }
    });
    this.#process.trace(
      () => `${tick ? 'ticks' : 'runs'} ${job.name}${named === undefined ? '' : ` for slot ${named}`}`,
    );
    if (tick) {
      run.tick();
      return;
    }
    try {
      const outcome = await (named === undefined ? run() : run({ slot: named }));
      this.#judge(job, outcome, claim, settled, nestedIn);
      // Recorded, since the store has answered the release.
      if (outcome.status === 'ran' && claim?.releasedEvents === 1) this.#ledger.done(job, slotOfRun);
    } catch (error) {
      this.#judgeError(`the job ${job.name}`, error, settled);
    }
  }

  #enter(
    job: JobKey,
    { name, lock, slot }: JobContext,
    named: number | undefined,
    oncePer: number | undefined,
  ): void {
    insist(
      name === job.name && lock.key === job.name,
      'outcome',
      () => `${job.name} runs as ${name} under ${lock.key}`,
    );
    insist(
      named === undefined ? (slot === undefined) === (oncePer === undefined) : slot === named,
      'slots',
      () => `${job.name} was called for slot ${named} and runs for ${slot}`,
    );
    if (slot !== undefined) this.#ledger.start(this.#counters, job, slot, this.#hasForgotten(job.name));
    this.#process.trace(() => `  starts ${job.name}`);
  }

  #judge(
    job: JobKey,
    outcome: Outcome<number>,
    claim: Claim | undefined,
    settled: { readonly error?: unknown; readonly held: boolean } | undefined,
    nestedIn: Lock | undefined,
  ): void {
    this.#process.trace(
      () => `  ${job.name}: ${outcome.status}${'reason' in outcome ? `, ${outcome.reason}` : ''}`,
    );
    if (outcome.status === 'skipped') {
      insist(claim === undefined, 'outcome', () => `${job.name} was run, and its outcome is skipped`);
      if (outcome.reason === 'stopping') {
        insist(
          this.#process.stopCalledAt !== undefined,
          'outcome',
          () => `${job.name} was skipped: stopping, and it is not`,
        );
      }
      return;
    }
    insist(
      claim !== undefined && settled !== undefined,
      'outcome',
      () => `${job.name} was not run, and its outcome is ${outcome.status}`,
    );
    insist(
      outcome.token === claim.token,
      'fencing',
      () => `${job.name} ran with token ${claim.token}, and tells ${outcome.token}`,
    );
    const gone = nestedIn === undefined && claim.goneAtRelease;
    if (outcome.status === 'ran') {
      this.#counters.hit('run: ran');
      insist(
        settled.held,
        'outcome',
        () => `${job.name} was not held when its run ended, and its outcome is ran`,
      );
      insist(!('error' in settled), 'outcome', () => `${job.name} failed, and its outcome is ran`);
      insist(
        !gone,
        'outcome',
        () => `the store said at the release that ${job.name} was gone, and its outcome is ran`,
      );
      insist(
        outcome.value === claim.token,
        'outcome',
        () => `${job.name} gave ${claim.token}, and its outcome ${outcome.value}`,
      );
      return;
    }
    // No job of the simulation guards a transaction: its store has none.
    if (outcome.detectedBy !== 'guard') this.#counters.hit(`run: lost by ${outcome.detectedBy}`);
    // An outer run that did not wait for this one gave the lock away before this one's outcome was made.
    const givenAway = nestedIn !== undefined && claim.releasing;
    insist(
      !settled.held || gone || claim.toldLost || givenAway,
      'outcome',
      () => `${job.name} was held until its run ended, and its outcome is lost`,
    );
    if ('error' in settled)
      insist(outcome.error === settled.error, 'outcome', () => `${job.name} lost its own error`);
  }

  #judgeError(what: string, error: unknown, settled?: { readonly error?: unknown }): void {
    if (error instanceof Violation) throw error;
    this.#process.trace(() => `  ${what} failed: ${String(error)}`);
    if (settled !== undefined && 'error' in settled && settled.error === error) {
      this.#counters.hit('run: failed');
      return;
    }
    if (error instanceof OwnError) {
      this.#counters.hit('attempt given up by its signal');
      return;
    }
    const { isLockError } = this.#library.core;
    if (isLockError(error, 'STOPPED')) {
      insist(
        this.#process.stopCalledAt !== undefined,
        'outcome',
        () => `${what} is refused as stopping, and it is not`,
      );
      this.#counters.hit('refused: stopping');
      return;
    }
    if (isLockError(error, 'NOT_ACQUIRED')) {
      this.#counters.hit('waited in vain');
      return;
    }
    insist(isLockError(error, 'STORE'), 'fail-closed', () => `${what} failed with ${String(error)}`);
    this.#counters.hit('attempt failed');
    this.#process.failed(what, error);
  }

  async #take(what: LockAct): Promise<void> {
    const key = this.#plan.keys[what.key] as string;
    const { locks, config } = this.#process;
    const options = this.#optionsOf(what);
    this.#process.trace(() => `${what.do === 'try' ? 'tries' : 'waits for'} ${key}`);
    let lock: Lock | undefined;
    try {
      lock =
        what.do === 'try'
          ? await this.#process.call(
              `the attempt at ${key}`,
              config.storeTimeoutMs,
              locks.tryAcquire(key, options),
            )
          : await this.#wait(key, what, () => locks.acquire(key, { ...options, wait: what.waitMs }));
    } catch (error) {
      this.#judgeError(`the attempt at ${key}`, error);
      return;
    }
    if (lock === undefined) return;
    const claim = this.#process.hold(lock, this.#terms(what));
    try {
      await this.#do(what.steps, lock, claim, undefined);
    } catch (error) {
      if (error instanceof Violation) throw error;
    }
    await this.#letGo(lock, claim, what.end);
  }

  async #wait(key: string, { waitMs }: LockAct, acquire: () => Promise<Lock>): Promise<Lock> {
    const waiter = { key, since: this.#process.now };
    const limitMs = waitMs + 2 * this.#process.config.storeTimeoutMs;
    this.#process.waiters.add(waiter);
    try {
      const lock = await this.#process.call(`waiting for ${key}`, limitMs, acquire());
      if (this.#process.now - waiter.since > 50) this.#counters.hit('waited and got it');
      return lock;
    } finally {
      this.#process.waiters.delete(waiter);
    }
  }

  async #letGo(lock: Lock, claim: Claim, end: LockAct['end']): Promise<void> {
    if (end === 'drop') return;
    const { config } = this.#process;
    if (end === 'release while extending') {
      void this.#extend(lock, claim, 1_000, undefined).catch(() => {});
    }
    claim.releasing = true;
    try {
      const wasHeld = await this.#process.call(
        `the release of ${lock.key}`,
        config.storeTimeoutMs,
        lock.release(),
      );
      if (wasHeld) claim.releasedTrue += 1;
      insist(
        claim.releasedTrue <= 1 && (!wasHeld || claim.releaseAnswers > 0),
        'outcome',
        () => `the release of ${lock.key} says that it was held, and nobody has said so`,
      );
    } catch (error) {
      this.#counters.hit('release failed');
      this.#judgeError(`the release of ${lock.key}`, error);
    }
    if (end === 'release twice') {
      this.#counters.hit('released twice');
      await lock
        .release()
        .catch((error: unknown) => this.#judgeError(`the second release of ${lock.key}`, error));
    }
  }

  async #withLock(what: LockAct): Promise<void> {
    const key = this.#plan.keys[what.key] as string;
    const options = { ...this.#optionsOf(what), wait: what.waitMs };
    let ending: { readonly error?: unknown; readonly held: boolean } | undefined;
    let claim: Claim | undefined;
    const waiter = { key, since: this.#process.now };
    this.#process.waiters.add(waiter);
    this.#process.trace(() => `waits for ${key}, with a function`);
    try {
      const result = await this.#process.locks.withLock(key, options, async (lock) => {
        this.#process.waiters.delete(waiter);
        const mine = this.#process.hold(lock, this.#terms(what));
        claim = mine;
        mine.running += 1;
        try {
          await this.#do(what.steps, lock, mine, undefined);
          ending = { held: lock.held };
          return lock.token;
        } catch (error) {
          ending = { held: lock.held, error };
          throw error;
        } finally {
          mine.running -= 1;
          mine.releasing = true;
        }
      });
      insist(
        (ending?.held === true || claim?.releasedInside === true) &&
          result === claim?.token &&
          !claim.goneAtRelease,
        'outcome',
        () => `withLock of ${key} gave ${result}, and its lock was not held`,
      );
    } catch (error) {
      if (error instanceof Violation) throw error;
      if (this.#library.core.isLockError(error, 'LOST') && ending !== undefined && ending.error !== error) {
        insist(
          !ending.held || claim?.goneAtRelease === true || claim?.toldLost === true,
          'outcome',
          () => `withLock of ${key} says that it was lost, and it was held`,
        );
      } else {
        this.#judgeError(`withLock of ${key}`, error, ending);
      }
    } finally {
      this.#process.waiters.delete(waiter);
    }
  }

  #optionsOf({ key, leaseMs, atLeastMs, slot, signal }: LockAct) {
    if (signal !== undefined) this.#process.abortable.add(this.#plan.keys[key] as string);
    return {
      lease: leaseMs,
      atLeast: atLeastMs,
      slot: slot !== undefined && 'slot' in slot ? slot.slot : undefined,
      oncePer: slot !== undefined && 'oncePerMs' in slot ? slot.oncePerMs : undefined,
      signal: signal === undefined ? undefined : this.#signals[signal]?.signal,
    };
  }

  #terms({ leaseMs, atLeastMs }: LockAct): Terms {
    return {
      atLeastMs: [atLeastMs],
      atMostMs: leaseMs,
      renewLeaseMs: leaseMs === undefined ? this.#plan.client.watchdogLeaseMs : undefined,
    };
  }

  async #do(
    steps: readonly Step[],
    lock: Lock,
    claim: Claim,
    context: JobContext | undefined,
  ): Promise<void> {
    const { machine } = this.#process;
    for (const step of steps) {
      switch (step.do) {
        case 'work':
          await machine.sleep(step.ms);
          break;
        case 'block':
          this.#process.trace(() => `blocks its event loop for ${step.ms} ms`);
          machine.pause(step.ms);
          await machine.sleep(0);
          break;
        case 'extend':
          await this.#extend(lock, claim, step.ms, step.atLeastMs, context !== undefined);
          break;
        case 'nest':
          if (context !== undefined) await this.#nested(context, step.steps);
          break;
        case 'detach':
          if (context !== undefined) void this.#detached(context, step.ms, step.steps);
          break;
        case 'inner':
          await this.#inner(step.key, step.steps);
          break;
        case 'assert':
          this.#assert(lock, claim, context);
          break;
        case 'release':
          claim.releasing = true;
          claim.releasedInside = true;
          await lock.release().catch((error: unknown) => this.#judgeError('a release inside', error));
          break;
        case 'until abort':
          await this.#untilAbort(lock, claim);
          break;
        case 'throw':
          throw new OwnError('the function fails');
        case 'hang':
          this.#counters.hit('run: never ended');
          await new Promise(() => {});
      }
    }
  }

  async #extend(
    lock: Lock,
    claim: Claim,
    ms: number,
    atLeastMs: number | undefined,
    active = false,
  ): Promise<void> {
    const before = claim.terms?.atLeastMs ?? [];
    if (claim.terms && atLeastMs !== undefined) claim.terms.atLeastMs = [...before, atLeastMs];
    claim.extensions.push(ms);
    const sentAt = this.#process.machine.monotonic();
    try {
      const extending = active
        ? this.#library.core.extendActiveLock(ms, atLeastMs)
        : lock.extend(ms, { atLeast: atLeastMs });
      await this.#process.call(
        `the extension of ${lock.key}`,
        4 * this.#process.config.storeTimeoutMs,
        extending,
      );
      this.#counters.hit('extended');
      claim.capAt = Math.max(claim.capAt, this.#process.machine.monotonic() + ms);
      this.#insistOnExtension(lock, claim, ms, sentAt);
      if (claim.terms && atLeastMs !== undefined && claim.extensions.length === 1)
        claim.terms.atLeastMs = [atLeastMs];
    } catch (error) {
      if (error instanceof Violation) throw error;
      this.#counters.hit('extension failed');
      const { isLockError } = this.#library.core;
      insist(
        isLockError(error, 'LOST') || isLockError(error, 'STORE') || isLockError(error, 'NOT_LOCKED'),
        'fail-closed',
        () => `the extension of ${lock.key} failed with ${String(error)}`,
      );
      if (isLockError(error, 'LOST')) {
        insist(
          !lock.held,
          'outcome',
          () => `the extension of ${lock.key} says that it is lost, and it is held`,
        );
      }
    } finally {
      claim.extensions.splice(claim.extensions.indexOf(ms), 1);
    }
  }

  #insistOnExtension(lock: Lock, claim: Claim, ms: number, sentAt: number): void {
    const { machine } = this.#process;
    const renewLeaseMs = claim.terms?.renewLeaseMs;
    const capped = claim.terms?.atMostMs !== undefined && renewLeaseMs !== undefined;
    const leaseMs = capped ? Math.min(ms, renewLeaseMs) : ms;
    const due = leaseMs * 0.99 - 2 - (machine.monotonic() - sentAt);
    insist(
      !lock.held || lock.leftMs >= due - 0.001,
      'outcome',
      () => `${lock.key} was extended by ${ms} ms, and is held for another ${lock.leftMs} ms`,
    );
  }

  async #nested(context: JobContext, steps: readonly Step[]): Promise<void> {
    const key = this.#plan.jobs.findIndex(({ name }) => name === context.name);
    const wasHeld = context.lock.held;
    const callsBefore = this.#process.network.calls;
    const nested = this.#job(key, undefined, false, [{ do: 'assert' }, { do: 'work', ms: 0 }, ...steps]);
    const asked = this.#process.network.calls > callsBefore;
    insist(
      !asked || !wasHeld,
      'nesting',
      () => `a nested run of ${context.name} asks the store, and the outer one is held`,
    );
    await nested;
  }

  async #detached(context: JobContext, ms: number, steps: readonly Step[]): Promise<void> {
    await this.#process.machine.sleep(ms);
    const claim = this.#process.claims.get(context.lock.owner);
    insist(
      claim?.running !== 0 || this.#library.core.currentJob(context.name)?.token !== context.token,
      'nesting',
      () => `what a run of ${context.name} left behind is still inside of it, and it has ended`,
    );
    const key = this.#plan.jobs.findIndex(({ name }) => name === context.name);
    await this.#job(key, undefined, false, steps);
  }

  async #inner(key: number, steps: readonly Step[]): Promise<void> {
    await this.#take({
      do: 'try',
      key,
      leaseMs: undefined,
      atLeastMs: 0,
      waitMs: 0,
      slot: undefined,
      signal: undefined,
      steps,
      end: 'release',
    });
  }

  /** What the library says when it is asked directly is what `held` says. */
  #assert(lock: Lock, claim: Claim, context: JobContext | undefined): void {
    const { core } = this.#library;
    const { held } = lock;
    const passes = (assert: () => void): boolean => {
      try {
        assert();
        return true;
      } catch (error) {
        insist(
          core.isLockError(error, 'LOST') || core.isLockError(error, 'NOT_LOCKED'),
          'outcome',
          () => `an assertion about ${lock.key} failed with ${String(error)}`,
        );
        return false;
      }
    };
    insist(
      passes(() => lock.assertHeld()) === held,
      'outcome',
      () => `assertHeld of ${lock.key} disagrees with held`,
    );
    if (context === undefined || claim.running === 0) return;
    insist(
      passes(() => core.assertLocked(context.name)) === held,
      'outcome',
      () => `assertLocked of ${lock.key} disagrees with held`,
    );
    insist(
      core.currentJob(context.name)?.token === context.token,
      'nesting',
      () => `${lock.key} runs in another job`,
    );
  }

  async #untilAbort(lock: Lock, claim: Claim): Promise<void> {
    claim.signalWatched = true;
    const { signal } = lock;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}

function termsOf({ options }: JobKey, { client }: Plan): Terms {
  return {
    atLeastMs: [options.lockAtLeastFor],
    atMostMs: options.lockAtMostFor,
    renewLeaseMs: options.keepAlive ? Math.min(client.watchdogLeaseMs, options.lockAtMostFor) : undefined,
  };
}
