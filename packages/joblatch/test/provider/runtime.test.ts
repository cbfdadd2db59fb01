import { createOwnerId, nodeRuntime } from 'joblatch';
import { describe, expect, test } from 'vitest';
import { createNodeRuntime, suspensionAwareClock } from '../../dist/provider/runtime.js';

describe('the monotonic clock', () => {
  const clocks = () => {
    const now = { fine: 5_000, uptime: 90_000 };
    const clock = suspensionAwareClock(
      () => now.fine,
      // In steps of 10 ms, as on Linux.
      () => Math.floor(now.uptime / 10) * 10,
      25,
    );
    const pass = (ms: number): void => {
      now.fine += ms;
      now.uptime += ms;
    };
    return { now, clock, pass };
  };

  test('goes with the fine clock while the machine runs', () => {
    const { clock, pass } = clocks();
    const start = clock();
    for (let i = 0; i < 1_000; i += 1) {
      pass(7.3);
      expect(clock() - start).toBeCloseTo(7.3 * (i + 1), 6);
    }
  });

  test('counts the time in which the machine was suspended, rather too much than too little', () => {
    const { now, clock, pass } = clocks();
    const start = clock();
    pass(1_000);
    now.uptime += 3_600_000;
    pass(2);
    const elapsed = clock() - start;
    expect(elapsed).toBeGreaterThanOrEqual(3_601_002);
    expect(elapsed).toBeLessThan(3_601_002 + 50);
    pass(500);
    expect(clock() - start - elapsed).toBeCloseTo(500, 6);
    now.uptime += 60_000;
    pass(2);
    expect(clock() - start).toBeGreaterThanOrEqual(3_661_504);
  });

  test('never goes back, also when the uptime does', () => {
    const { now, clock, pass } = clocks();
    let last = clock();
    for (const jump of [0, -50_000, 70_000, -10, 5_000, -5_000]) {
      now.uptime += jump;
      pass(3);
      const next = clock();
      expect(next).toBeGreaterThanOrEqual(last);
      last = next;
    }
  });
});

describe('timers of this process', () => {
  test('are never early, also when the loop was blocked before they were set', async () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
    const before = nodeRuntime.monotonic();
    await new Promise<void>((resolve) => {
      nodeRuntime.setTimer(resolve, 40);
    });
    expect(nodeRuntime.monotonic() - before).toBeGreaterThanOrEqual(40);
  });

  test('of 30 days do not fire at once, and can be cancelled', async () => {
    let fired = false;
    const cancel = nodeRuntime.setTimer(() => {
      fired = true;
    }, 30 * 86_400_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    cancel();
    expect(fired).toBe(false);
  });
});

test('a timer that was due while the machine was suspended fires soon after it goes on', async () => {
  const before = performance.now();
  let suspendedMs = 0;
  const runtime = createNodeRuntime(() => performance.now() + suspendedMs);
  let cancel = (): void => {};
  const fired = new Promise<void>((resolve) => {
    cancel = runtime.setTimer(resolve, 3_600_000);
  });
  setTimeout(() => {
    suspendedMs = 3_700_000;
  }, 50);
  await fired;
  cancel();
  expect(performance.now() - before).toBeLessThan(20_000);
});

describe('owner ids', () => {
  test('are all different, fit every store and say where the holder runs', () => {
    const ids = new Set(Array.from({ length: 100_000 }, () => createOwnerId(nodeRuntime)));
    expect(ids.size).toBe(100_000);
    for (const id of ids) expect(id).toMatch(/^[\x21-\x7d]+:\d+:[0-9a-z]{20}$/);
  });

  test('of a host with a long or odd name are cut and cleaned at the readable part', () => {
    const id = createOwnerId({ ...nodeRuntime, instance: `hôst ${'x'.repeat(400)}:7` });
    expect(id).toHaveLength(254);
    expect(id).toMatch(/^x+:7:[0-9a-z]{20}$/);
    expect(createOwnerId({ ...nodeRuntime, instance: 'hôst \n1:7' })).toMatch(/^h_st__1:7:/);
  });
});
