import type { Invariant } from './invariants.js';

/** A fault that somebody might bring into the library, as a change of its source. */
export interface Mutant {
  readonly name: string;
  /** Under `packages/joblatch/src`. */
  readonly file: string;
  /** Must be there exactly once. */
  readonly find: string;
  readonly replace: string;
  /** The invariants that may tell of it; another one, or a crash, is not good enough. */
  readonly caughtBy: readonly Invariant[];
}

const HELD_LOCK = 'lock/held-lock.ts';
const CLIENT = 'lock/client.ts';
const KEEPER = 'lock/keeper.ts';
const ACQUIRE = 'lock/acquire.ts';
const STORE_CALL = 'lock/store-call.ts';
const RUN_JOB = 'jobs/run-job.ts';
const MEMORY = 'providers/memory/provider.ts';

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'owner check dropped at the release',
    file: MEMORY,
    find: `    const record = this.#live(key, owner, now);
    if (record === undefined) return false;
    const until`,
    replace: `    const record = this.#records.get(key);
    if (record === undefined || record.until <= now) return false;
    const until`,
    caughtBy: ['never-revive'],
  },
  {
    name: 'owner check dropped at the renewal',
    file: MEMORY,
    find: `      const record = this.#live(key, owner, now);
      if (record === undefined) return 'lost';`,
    replace: `      const record = this.#records.get(key);
      if (record === undefined || record.until <= now) return 'lost';`,
    caughtBy: ['never-revive'],
  },
  {
    name: 'renewal that revives',
    file: MEMORY,
    find: `record.owner === owner && record.until > now ?`,
    replace: `record.owner === owner ?`,
    caughtBy: ['never-revive'],
  },
  {
    name: 'deadline counted from the reply',
    file: CLIENT,
    find: 'const sentAt = sending.at as number;',
    replace: 'const sentAt = this.settings.runtime.monotonic();',
    caughtBy: ['held-is-true'],
  },
  {
    name: 'late grant kept',
    file: CLIENT,
    find: `const late = now >= deadlineOf(sentAt, Math.min(leaseMs, granted.leftMs));`,
    replace: `const late = now >= deadlineOf(now, Math.min(leaseMs, granted.leftMs));`,
    caughtBy: ['held-is-true'],
  },
  {
    name: 'grant that comes after the stop not given back',
    file: CLIENT,
    find: `    this.#giveBackLater({ key, owner, keepMs: late ? atLeastMs : 0 }, leaseMs, 'granted');
    if (!late) throw`,
    replace: `    if (!late) throw`,
    caughtBy: ['drain', 'handed-back'],
  },
  {
    name: 'lost reply of an acquire forgotten',
    file: CLIENT,
    find: `    this.#giveBackLater(request, leaseMs, 'uncertain');
`,
    replace: '',
    caughtBy: ['handed-back'],
  },
  {
    name: 'given back once, though the request may come later',
    file: STORE_CALL,
    find: `if (wasHeld || isFinal) this`,
    replace: `if (wasHeld || isFinal || entry.until > 0) this`,
    caughtBy: ['handed-back', 'drain'],
  },
  {
    name: 'renewal not stopped at the release',
    file: CLIENT,
    find: `    this.#keeper.remove(lock);
    const { key, owner, token, atLeastMs: keepMs } = lock;
    const request`,
    replace: `    const { key, owner, token, atLeastMs: keepMs } = lock;
    const request`,
    caughtBy: ['never-revive', 'leaks', 'drain'],
  },
  {
    name: 'renewal error taken as a loss',
    file: KEEPER,
    find: `      for (const lock of concerned) {
        this.#retryLater(lock);
        this.moved(lock);
      }`,
    replace: `      for (const lock of concerned) lock.lose('renewal');`,
    caughtBy: ['no-false-loss'],
  },
  {
    name: 'refused renewal taken as passing',
    file: KEEPER,
    find: `          else if (result === 'lost') lock.lose('renewal');
          else`,
    replace: `          else`,
    caughtBy: ['told-of-loss'],
  },
  {
    name: 'renewal never tried again after an error',
    file: KEEPER,
    find: `      for (const lock of concerned) {
        this.#retryLater(lock);
        this.moved(lock);
      }`,
    replace: `      for (const lock of concerned) this.moved(lock);`,
    caughtBy: ['kept-alive'],
  },
  {
    name: 'renewal answered after the deadline counts',
    file: HELD_LOCK,
    find: `    if (this.noticeLoss() || this.#state !== 'held') return;
    this.#deadline`,
    replace: `    if (this.#state !== 'held') return;
    this.#deadline`,
    caughtBy: ['never-revive', 'held-is-true'],
  },
  {
    name: 'no margin for clocks that run apart',
    file: HELD_LOCK,
    find: `  return leaseMs * DRIFT_RATE + DRIFT_MS;`,
    replace: `  return leaseMs * DRIFT_RATE * 0 + DRIFT_MS * 0;`,
    caughtBy: ['held-is-true'],
  },
  {
    name: 'held is what the timer has noticed',
    file: HELD_LOCK,
    find: `    return this.#state === 'held' && this.#home.monotonic() < this.#deadline;`,
    replace: `    return this.#state === 'held';`,
    caughtBy: ['held-is-true'],
  },
  {
    name: 'at-least counted from the release',
    file: MEMORY,
    find: `    const until = Math.max(now, record.acquiredAt + keepMs);`,
    replace: `    const until = now + keepMs;`,
    caughtBy: ['at-least'],
  },
  {
    name: 'at-least counted from the extension',
    file: MEMORY,
    find: `now + leaseMs, record.acquiredAt + atLeastMs);`,
    replace: `now + leaseMs, now + atLeastMs);`,
    caughtBy: ['renewal-end'],
  },
  {
    name: 'at-least forgotten under keep-alive',
    file: RUN_JOB,
    find: `leaseMs: renewLeaseMs === undefined ? job.atMostMs : Math.max(renewLeaseMs, job.atLeastMs),`,
    replace: `leaseMs: renewLeaseMs ?? job.atMostMs,`,
    caughtBy: ['at-least'],
  },
  {
    name: 'at-least forgotten at the release',
    file: CLIENT,
    find: `const request: ReleaseRequest = { key, owner, keepMs, slot: doneSlot };`,
    replace: `const request: ReleaseRequest = { key, owner, keepMs: keepMs * 0, slot: doneSlot };`,
    caughtBy: ['at-least'],
  },
  {
    name: 'slot claimed only in memory',
    file: MEMORY,
    find: `slot: claim === 'acquire' ? later(slot, last?.slot) : last?.slot,`,
    replace: `slot: claim === 'acquire' ? last?.slot : last?.slot,`,
    caughtBy: ['slots'],
  },
  {
    name: 'slot compared by < instead of <=',
    file: MEMORY,
    find: `(last === undefined || slot > last);`,
    replace: `(last === undefined || slot >= last);`,
    caughtBy: ['slots'],
  },
  {
    name: 'future slot accepted',
    file: MEMORY,
    find: ` && slot <= wall + SLOT_AHEAD_MS`,
    replace: ` && slot <= wall + SLOT_AHEAD_MS * 1e6`,
    caughtBy: ['slots'],
  },
  {
    name: 'slot recorded though the run failed',
    file: RUN_JOB,
    find: `const succeeded = 'value' in ending && loss === undefined;`,
    replace: `const succeeded = loss === undefined;`,
    caughtBy: ['slots'],
  },
  {
    name: 'slot recorded though the lock was lost',
    file: RUN_JOB,
    find: `  const loss = lossUntilNow(lock);
  const succeeded = 'value' in ending && loss === undefined;`,
    replace: `  const loss = lossUntilNow(lock);
  const succeeded = 'value' in ending;`,
    caughtBy: ['slots'],
  },
  {
    name: 'cap not enforced',
    file: HELD_LOCK,
    find: `Math.ceil(Math.min(this.renewLeaseMs as number, this.#capAt - now))`,
    replace: `Math.ceil(this.renewLeaseMs as number)`,
    caughtBy: ['at-most'],
  },
  {
    name: 'token from the clock of the host',
    file: MEMORY,
    find: `Math.floor(wall * 1000), minToken);`,
    replace: `Date.now() * 1000, minToken);`,
    caughtBy: ['fencing'],
  },
  {
    name: 'token not kept after the release',
    file: MEMORY,
    find: `const token = Math.max((last?.token ?? 0) + 1,`,
    replace: `const token = Math.max(last?.state === 'granted' ? last.token + 1 : 1,`,
    caughtBy: ['fencing'],
  },
  {
    name: 'wait without a poll',
    file: ACQUIRE,
    find: `place.isFirst ? Math.min(restMs, untilNextLook(client, refused)) : restMs;`,
    replace: `place.isFirst ? Math.min(restMs, refused.leftMs ?? untilNextLook(client, refused)) : restMs;`,
    caughtBy: ['waiting'],
  },
  {
    name: 'next in line is not woken',
    file: 'lock/activity.ts',
    find: `else if (wasFirst) line[0]?.wake();`,
    replace: `else if (wasFirst) line[0]?.isFirst;`,
    caughtBy: ['waiting'],
  },
  {
    name: 'release before the promise settles',
    file: RUN_JOB,
    find: `    return { value: await fn(context) };`,
    replace: `    const value = fn(context);
    void Promise.resolve(value).catch(() => {});
    await Promise.resolve();
    return { value: value as Awaited<typeof value> };`,
    caughtBy: ['outcome', 'job-is-locked', 'nesting'],
  },
  {
    name: 'lock given back while the job runs',
    file: RUN_JOB,
    find: `  const { ending, tookMs } = await execute(run, fn, false);
  // What`,
    replace: `  const running = execute(run, fn, false);
  await Promise.race([running, client.activity.sleep(20, undefined, () => {})]);
  void lock.release().catch(() => false);
  const { ending, tookMs } = await running;
  // What`,
    caughtBy: ['job-is-locked', 'drain', 'leaks'],
  },
  {
    name: 'nested call after the outer hold ended',
    file: RUN_JOB,
    find: `&& run.context.name === job.name && run.lock.held);`,
    replace: `&& run.context.name === job.name);`,
    caughtBy: ['nesting'],
  },
  {
    name: 'left behind by a run that has settled, and still inside',
    file: RUN_JOB,
    find: `  run.active = false;
`,
    replace: ``,
    caughtBy: ['nesting', 'outcome'],
  },
  {
    name: 'outcome computed before the release',
    file: RUN_JOB,
    find: 'const detectedBy = loss ?? lostBy;',
    replace: `const detectedBy = lostBy === 'release' ? loss : (loss ?? lostBy);`,
    caughtBy: ['outcome'],
  },
  {
    name: 'store call without a time-out',
    file: STORE_CALL,
    find: `const stopTimer = runtime.setTimer(() => cancel(timeoutError(limits)), limits.timeoutMs);`,
    replace: `const stopTimer = runtime.setTimer(() => cancel(timeoutError(limits)), limits.timeoutMs * 1_000);`,
    caughtBy: ['bounded', 'kept-alive', 'leaks', 'handed-back'],
  },
  {
    name: 'runs are started after stop',
    file: RUN_JOB,
    find: `  if (client.activity.stopping) {
    client.events`,
    replace: `  if (client.activity.stopping && client.activity.idle) {
    client.events`,
    caughtBy: ['drain', 'outcome'],
  },
  {
    name: 'stop does not wait for the grace',
    file: CLIENT,
    find: `    await this.activity.until(this.#isDrained, graceMs);`,
    replace: `    await this.activity.until(this.#isDrained, graceMs / 1_000);`,
    caughtBy: ['no-false-loss', 'job-is-locked'],
  },
  {
    name: 'stop gives nothing back',
    file: CLIENT,
    find: `    for (const lock of this.#keeper.locks) this.#abandon(lock);`,
    replace: ``,
    caughtBy: ['drain', 'leaks'],
  },
  {
    name: 'one timer too many',
    file: 'lock/activity.ts',
    find: `      const done = (): void => {
        stopTimer();`,
    replace: `      const done = (): void => {`,
    caughtBy: ['leaks'],
  },
  {
    name: 'listener left on the signal of the caller',
    file: 'lock/activity.ts',
    find: `    if (fanOut.callbacks.size === 0) signal.removeEventListener('abort', fanOut);`,
    replace: ``,
    caughtBy: ['leaks'],
  },
  {
    name: 'suspension not counted',
    file: 'provider/runtime.ts',
    find: `    return fine + suspended;`,
    replace: `    return fine + suspended * 0;`,
    caughtBy: ['held-is-true'],
  },
  {
    name: 'giving back without a pause between tries',
    file: STORE_CALL,
    find: `jittered(this.#runtime, retryMs);`,
    replace: `jittered(this.#runtime, retryMs * 0);`,
    caughtBy: ['restraint'],
  },
  {
    name: 'one owner id for all',
    file: 'provider/runtime.ts',
    find: 'let i = 0; i < RANDOM_GROUPS; i += 1',
    replace: 'let i = RANDOM_GROUPS; i < RANDOM_GROUPS; i += 1',
    caughtBy: ['owners'],
  },
  {
    name: 'the loss is told twice',
    file: HELD_LOCK,
    find: `  lose(detectedBy: LossDetection): void {
    if (this.#state !== 'held') return;`,
    replace: `  lose(detectedBy: LossDetection): void {
    if (this.#state === 'released') return;`,
    caughtBy: ['events'],
  },
];
