import { setTimeout as sleep } from 'node:timers/promises';
import type { Lock } from 'joblatch';
import type { ContractTransaction } from 'joblatch/testing';
import { expect, test } from 'vitest';
import { bothSides } from './both-sides.ts';
import type { JavaLocks } from './java.ts';
import type { Setting } from './stores.ts';

const LEASE_MS = 1_500;

interface Guarded {
  readonly lock: Lock;
  readonly transaction: ContractTransaction;
  readonly shedlock: JavaLocks;
}

/** With a transaction that a lock guards, whose lease is short. */
function withGuard(setting: Setting): (work: (guarded: Guarded) => Promise<void>) => Promise<void> {
  const withBoth = bothSides(setting);
  return (work) =>
    withBoth(async ({ node, shedlock, beginTransaction }) => {
      if (beginTransaction === undefined) throw new Error(`${setting.name} has no transactions.`);
      // So that it has connected, and knows the record.
      await (await shedlock.lock('settle', 1_000))?.unlock();
      const lock = await node.acquire('settle', { lease: LEASE_MS });
      const transaction = await beginTransaction();
      try {
        await lock.guard(transaction.transaction);
        await work({ lock, transaction, shedlock });
      } finally {
        // After a commit, or when the server has cut it off, there is nothing to undo, and this says so.
        await transaction.rollback().catch(() => {});
      }
    });
}

/** PostgreSQL: a plain update does not see `FOR KEY SHARE`. */
export function javaPassesGuards(setting: Setting): void {
  const guarded = withGuard(setting);
  const query = ({ transaction }: ContractTransaction, sql: string): Promise<unknown> =>
    (transaction as { query(text: string): Promise<unknown> }).query(sql);

  test('a guard keeps Java out for the lease only: it takes over while a statement of the transaction runs', () =>
    guarded(async ({ lock, shedlock, transaction }) => {
      const running = query(transaction, `select pg_sleep(${(lock.leftMs + 1_000) / 1_000})`);
      expect(await shedlock.lock('settle', 60_000)).toBeUndefined();
      await sleep(lock.leftMs + 100);
      expect(await shedlock.lock('settle', 60_000)).toBeDefined();
      await running;
      await transaction.commit();
    }));

  test('a guarded transaction in which nothing comes ends with the lease, so that Java takes over behind nobody', () =>
    guarded(async ({ lock, shedlock, transaction }) => {
      await sleep(lock.leftMs + 100);
      expect(await shedlock.lock('settle', 60_000)).toBeDefined();
      await expect(transaction.commit()).rejects.toThrow();
    }));
}

/** MariaDB, with our index: Java waits at its entry, and asks again of the row. */
export function javaWaitsForGuards(setting: Setting): void {
  const guarded = withGuard(setting);
  test('a guard keeps Java out: once the lease is over it waits for the commit, then takes over', () =>
    guarded(async ({ lock, shedlock, transaction }) => {
      expect(await shedlock.lock('settle', 60_000)).toBeUndefined();
      await sleep(lock.leftMs + 20);
      let answered = false;
      const attempt = shedlock.lock('settle', 60_000).then((given) => {
        answered = true;
        return given;
      });
      await sleep(200);
      expect(answered).toBe(false);
      await transaction.commit();
      expect(await attempt).toBeDefined();
    }));
}
