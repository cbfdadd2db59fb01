import { setTimeout as sleep } from 'node:timers/promises';
import { isLockError } from 'joblatch';
import { describe, expect, test } from 'vitest';
import { bothSides } from './both-sides.ts';
import { Java, type JavaLocks } from './java.ts';
import type { Setting } from './stores.ts';

const LEASE_MS = 60_000;
/** Time enough for what a test does under it, and not too long to wait for. */
const SHORT_MS = 700;

/** Java asks again and again, until it is given the key. */
async function untilJavaHas(shedlock: JavaLocks, key: string): Promise<void> {
  while ((await shedlock.lock(key, LEASE_MS)) === undefined) await sleep(20);
}

/** What holds on both sides, whatever they share. */
export function holdsBothWays(setting: Setting): void {
  const withBoth = bothSides(setting);

  describe.concurrent('both ways', () => {
    test('what Java holds, Node is refused, and has as soon as Java gives it back', () =>
      withBoth(async ({ node, shedlock }) => {
        const held = await shedlock.lock('report', LEASE_MS);
        expect(await node.tryAcquire('report')).toBeUndefined();
        await expect(node.acquire('report', { wait: 0 })).rejects.toMatchObject({ reason: 'held' });
        await held?.unlock();
        const lock = await node.tryAcquire('report');
        expect(lock?.held).toBe(true);
      }));

    test('what Node holds, Java is refused, and has as soon as Node gives it back', () =>
      withBoth(async ({ node, shedlock }) => {
        const lock = await node.acquire('report', { lease: LEASE_MS });
        expect(await shedlock.lock('report', LEASE_MS)).toBeUndefined();
        expect(await shedlock.lock('another', LEASE_MS)).toBeDefined();
        expect(await lock.release()).toBe(true);
        expect(await shedlock.lock('report', LEASE_MS)).toBeDefined();
      }));

    test('Node takes over when the lease of Java has run out, and not before', () =>
      withBoth(async ({ node, shedlock }) => {
        const asked = performance.now();
        expect(await shedlock.lock('report', SHORT_MS)).toBeDefined();
        expect(await node.tryAcquire('report')).toBeUndefined();
        const lock = await node.acquire('report', { wait: '10s' });
        expect(lock.held).toBe(true);
        // Java's lease began after this clock was read; Java's own clock counts whole milliseconds.
        expect(performance.now() - asked).toBeGreaterThan(SHORT_MS - 2);
      }));

    test('Java takes over when the lease of Node has run out, and not before', () =>
      withBoth(async ({ node, shedlock }) => {
        const lock = await node.acquire('report', { lease: SHORT_MS });
        await untilJavaHas(shedlock, 'report');
        expect(lock.held).toBe(false);
        expect(await node.tryAcquire('report')).toBeUndefined();
      }));

    test('lockAtLeastFor of Java holds for Node', () =>
      withBoth(async ({ node, shedlock }) => {
        const asked = performance.now();
        const held = await shedlock.lock('report', LEASE_MS, SHORT_MS);
        await held?.unlock();
        expect(await node.tryAcquire('report')).toBeUndefined();
        await node.acquire('report', { wait: '10s' });
        expect(performance.now() - asked).toBeGreaterThan(SHORT_MS - 2);
      }));

    test('lockAtLeastFor of Node holds for Java', () =>
      withBoth(async ({ node, shedlock }) => {
        const job = node.job(
          { name: 'report', lockAtMostFor: LEASE_MS, lockAtLeastFor: SHORT_MS },
          () => 'done',
        );
        const asked = performance.now();
        expect(await job()).toMatchObject({ status: 'ran', value: 'done' });
        expect(await shedlock.lock('report', LEASE_MS)).toBeUndefined();
        await untilJavaHas(shedlock, 'report');
        expect(performance.now() - asked).toBeGreaterThan(SHORT_MS - 2);
      }));

    test('what either side has extended, the other does not get', () =>
      withBoth(async ({ node, shedlock }) => {
        const held = await shedlock.lock('java', SHORT_MS);
        expect(await held?.extend(LEASE_MS)).toBe(true);
        const extended = await node.acquire('node', { lease: SHORT_MS });
        await extended.extend(LEASE_MS);
        await sleep(SHORT_MS + 100);
        expect(await node.tryAcquire('java')).toBeUndefined();
        expect(await shedlock.lock('node', LEASE_MS)).toBeUndefined();
        expect(extended.held).toBe(true);
      }));

    test("Node's late release leaves the lock of Java alone", () =>
      withBoth(async ({ node, shedlock }) => {
        const late = await node.acquire('report', { lease: SHORT_MS });
        await untilJavaHas(shedlock, 'report');
        expect(await late.release()).toBe(false);
        expect(await node.tryAcquire('report')).toBeUndefined();
      }));

    if (setting.has.ownerCheck) {
      test("Java's late release leaves the lock of Node alone", () =>
        withBoth(async ({ node, shedlock }) => {
          const late = await shedlock.lock('report', SHORT_MS);
          const lock = await node.acquire('report', { wait: '10s', lease: LEASE_MS });
          await late?.unlock();
          expect(await node.tryAcquire('report')).toBeUndefined();
          expect(await shedlock.lock('report', LEASE_MS)).toBeUndefined();
          expect(await lock.release()).toBe(true);
        }));
    } else {
      test("Java's late release deletes the lock of Node, which is told so at its next renewal", () =>
        withBoth(async ({ node, shedlock }) => {
          const late = await shedlock.lock('report', SHORT_MS);
          const lock = await node.acquire('report', { wait: '10s', lease: LEASE_MS });
          await late?.unlock();
          await expect(lock.extend(LEASE_MS)).rejects.toSatisfy((error) => isLockError(error, 'LOST'));
          expect(lock.held).toBe(false);
        }));
    }

    test('a record that is deleted while Node has it: Node is told, and whoever asks next has the lock', () =>
      withBoth(async ({ node, shedlock, deleteRecord }) => {
        const lock = await node.acquire('report', { lease: LEASE_MS });
        await deleteRecord('report');
        await expect(lock.extend(LEASE_MS)).rejects.toSatisfy((error) => isLockError(error, 'LOST'));
        expect(await shedlock.lock('report', LEASE_MS)).toBeDefined();
        expect(await node.tryAcquire('report')).toBeUndefined();
      }));

    test('a record that is deleted while Java has it: Node makes it again, and Java is refused', () =>
      withBoth(async ({ node, shedlock, deleteRecord }) => {
        expect(await shedlock.lock('report', LEASE_MS)).toBeDefined();
        await deleteRecord('report');
        const javas = await shedlock.lock('report', SHORT_MS);
        expect(javas !== undefined).toBe(setting.has.javaMakesRecordAgain);
        await javas?.unlock();
        const lock = await node.acquire('report', { lease: LEASE_MS });
        expect(await shedlock.lock('report', LEASE_MS)).toBeUndefined();
        expect(await lock.release()).toBe(true);
        expect(await shedlock.lock('report', LEASE_MS)).toBeDefined();
      }));

    test('names as long as they may be, and with odd characters, are one on both sides', () =>
      withBoth(async ({ node, shedlock }) => {
        const longest = 'n'.repeat(setting.has.nameLimit ?? 512);
        const odd = 'daily: 50 % "off" {x} \\ it\'s';
        const wide = 'tägliche Abrechnung 🎉';
        for (const name of setting.has.anyCharacter ? [longest, odd, wide] : [longest, odd]) {
          const lock = await node.acquire(name, { lease: LEASE_MS });
          expect(await shedlock.lock(name, LEASE_MS)).toBeUndefined();
          await lock.release();
          expect(await shedlock.lock(name, LEASE_MS)).toBeDefined();
          expect(await node.tryAcquire(name)).toBeUndefined();
        }
      }));

    if (setting.has.nameLimit !== undefined) {
      const limit = setting.has.nameLimit;
      test('a name that is too long for the table is refused by Node, and never cut', () =>
        withBoth(async ({ node }) => {
          const attempt = node.tryAcquire('n'.repeat(limit + 1));
          if (setting.name.startsWith('our table')) return void expect(await attempt).toBeDefined();
          await expect(attempt).rejects.toThrow(/64/);
          expect(await node.tryAcquire('n'.repeat(limit))).toBeDefined();
        }));
    }

    test("the token of Node grows across Java's turns", () =>
      withBoth(async ({ node, shedlock }) => {
        let last = 0n;
        for (let turn = 0; turn < 5; turn++) {
          const lock = await node.acquire('report', { lease: LEASE_MS });
          if (lock.token !== undefined) {
            expect(BigInt(lock.token)).toBeGreaterThan(last);
            last = BigInt(lock.token);
          }
          await lock.release();
          await (await shedlock.lock('report', LEASE_MS))?.unlock();
        }
        expect(last > 0n || !setting.has.tokens).toBe(true);
      }));

    if (setting.has.tokens) {
      test('a slot that Node has run stays taken when Java has had a turn', () =>
        withBoth(async ({ node, shedlock }) => {
          const job = node.job({ name: 'report', lockAtMostFor: '10m', oncePer: '31d' }, () => 'done');
          expect(await job()).toMatchObject({ status: 'ran' });
          const held = await shedlock.lock('report', LEASE_MS);
          expect(held).toBeDefined();
          await held?.unlock();
          expect(await job()).toMatchObject({ status: 'skipped', reason: 'slot' });
        }));
    }

    test('a Java process that was killed keeps its lock for its lease, and no longer', () =>
      withBoth(async ({ node, java: store }) => {
        const doomed = new Java(setting.zone);
        const shedlock = await doomed.open(store);
        expect(await shedlock.lock('report', 2 * SHORT_MS)).toBeDefined();
        doomed.kill();
        expect(await node.tryAcquire('report')).toBeUndefined();
        expect((await node.acquire('report', { wait: '10s' })).held).toBe(true);
      }));
  });
}
