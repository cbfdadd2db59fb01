import { createLocks } from 'joblatch';
import { type MemoryStore, memoryProvider } from 'joblatch/memory';
import { manualRuntime } from 'joblatch/testing';
import { describe, expect, test } from 'vitest';

describe('time stands until it is advanced', () => {
  test('both clocks go on by what is advanced, from where they started', async () => {
    const runtime = manualRuntime({ start: 1_000_000 });
    expect([runtime.wall(), runtime.monotonic()]).toEqual([1_000_000, 0]);
    await runtime.advance(250);
    await runtime.advance(0.5);
    expect([runtime.wall(), runtime.monotonic()]).toEqual([1_000_250.5, 250.5]);
  });

  test('timers fire in their order, each at its instant, those of one instant as they were armed', async () => {
    const runtime = manualRuntime();
    const fired: string[] = [];
    const arm = (name: string, delayMs: number) =>
      runtime.setTimer(() => fired.push(`${name} at ${runtime.monotonic()}`), delayMs);
    arm('c', 30);
    arm('a', 10);
    arm('b1', 20);
    arm('b2', 20);
    arm('late', 31);
    await runtime.advance(30);
    expect(fired).toEqual(['a at 10', 'b1 at 20', 'b2 at 20', 'c at 30']);
    expect(runtime.pendingTimers()).toBe(1);
  });

  test('a timer that is armed while time passes fires in the same advance, if it is due', async () => {
    const runtime = manualRuntime();
    const fired: number[] = [];
    const beat = (): void => {
      fired.push(runtime.monotonic());
      runtime.setTimer(beat, 10);
    };
    runtime.setTimer(beat, 10);
    await runtime.advance(35);
    expect(fired).toEqual([10, 20, 30]);
  });

  test('promises settle between two timers', async () => {
    const runtime = manualRuntime();
    const seen: string[] = [];
    runtime.setTimer(() => {
      void Promise.resolve()
        .then(() => {})
        .then(() => seen.push(`promise at ${runtime.monotonic()}`));
    }, 1);
    runtime.setTimer(() => seen.push('timer at 2'), 2);
    await runtime.advance(2);
    expect(seen).toEqual(['promise at 1', 'timer at 2']);
  });

  test('a cancelled timer does not fire and does not pend; a background one is told apart', async () => {
    const runtime = manualRuntime();
    let fired = 0;
    const cancel = runtime.setTimer(() => {
      fired += 1;
    }, 10);
    runtime.setTimer(() => {}, 10, { background: true });
    expect([runtime.pendingTimers(), runtime.pendingTimers('foreground')]).toEqual([2, 1]);
    cancel();
    cancel();
    expect([runtime.pendingTimers(), runtime.pendingTimers('foreground')]).toEqual([1, 0]);
    await runtime.advance(100);
    expect([fired, runtime.pendingTimers()]).toEqual([0, 0]);
  });

  test('a delay of ten years is nothing special', async () => {
    const runtime = manualRuntime();
    let fired = false;
    const tenYears = 3_652 * 86_400_000;
    runtime.setTimer(() => {
      fired = true;
    }, tenYears);
    await runtime.advance(tenYears - 1);
    expect(fired).toBe(false);
    await runtime.advance(1);
    expect(fired).toBe(true);
  });

  test('advances that overlap follow each other', async () => {
    const runtime = manualRuntime();
    await Promise.all([runtime.advance(10), runtime.advance(20)]);
    expect(runtime.monotonic()).toBe(30);
  });

  test('what a timer throws comes out of advance, and time can go on', async () => {
    const runtime = manualRuntime();
    runtime.setTimer(() => {
      throw new Error('from the timer');
    }, 5);
    await expect(runtime.advance(10)).rejects.toThrow('from the timer');
    await runtime.advance(10);
    expect(runtime.monotonic()).toBe(15);
  });

  test('time does not go back', async () => {
    await expect(manualRuntime().advance(-1)).rejects.toThrow('not by -1');
  });

  test('a timer that arms itself again without delay, for ever, is found', async () => {
    const runtime = manualRuntime();
    const again = (): void => void runtime.setTimer(again, 0);
    again();
    await expect(runtime.advance(1)).rejects.toThrow('timers fired in one instant');
  });
});

describe('the wall clock', () => {
  test('can be set and moved, and neither timers nor the monotonic clock notice', async () => {
    const runtime = manualRuntime({ start: 1_000 });
    let fired = false;
    runtime.setTimer(() => {
      fired = true;
    }, 100);
    runtime.jumpWall(3_600_000);
    expect(runtime.wall()).toBe(3_601_000);
    runtime.setWall(5);
    expect([runtime.wall(), runtime.monotonic()]).toEqual([5, 0]);
    await runtime.advance(99);
    expect([runtime.wall(), fired]).toEqual([104, false]);
    await runtime.advance(1);
    expect(fired).toBe(true);
  });
});

describe('random numbers', () => {
  const draw = (random: () => number): number[] => Array.from({ length: 1_000 }, random);

  test('are determined by the seed, and differ between seeds and instances', () => {
    const first = draw(manualRuntime({ seed: 7 }).random);
    expect(draw(manualRuntime({ seed: 7 }).random)).toEqual(first);
    const others = [manualRuntime({ seed: 8 }), manualRuntime(), manualRuntime({ seed: 7 }).fork()];
    for (const { random } of others) expect(draw(random)).not.toEqual(first);
  });

  test('lie in [0, 1) and are spread', () => {
    const numbers = draw(manualRuntime().random);
    expect(numbers.every((n) => n >= 0 && n < 1)).toBe(true);
    const mean = numbers.reduce((sum, n) => sum + n, 0) / numbers.length;
    expect(mean).toBeGreaterThan(0.45);
    expect(mean).toBeLessThan(0.55);
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

describe('instances', () => {
  test('share one time, and have names, wall clocks and timers of their own', async () => {
    const time = manualRuntime({ start: 0 });
    const fast = time.fork({ wallOffsetMs: 60_000, instance: 'fast' });
    const other = time.fork();
    other.setTimer(() => {}, 50);
    await fast.advance(10);
    expect([time.monotonic(), fast.monotonic(), other.monotonic()]).toEqual([10, 10, 10]);
    expect([time.wall(), fast.wall()]).toEqual([10, 60_010]);
    expect([time.instance, fast.instance, other.instance]).toEqual(['manual:1', 'fast', 'manual:3']);
    expect([time.pendingTimers(), other.pendingTimers()]).toEqual([0, 1]);
  });

  test('their timers fire in one order', async () => {
    const time = manualRuntime();
    const fired: string[] = [];
    const [a, b] = [time.fork(), time.fork()];
    b.setTimer(() => fired.push('b'), 20);
    a.setTimer(() => fired.push('a'), 10);
    a.setTimer(() => fired.push('a'), 30);
    await time.advance(30);
    expect(fired).toEqual(['a', 'b', 'a']);
  });

  test('a paused one is a clock that nobody advances; continued, it is late', async () => {
    const time = manualRuntime();
    const a = time.fork();
    const fired: string[] = [];
    a.setTimer(() => fired.push(`late at ${a.monotonic()}`), 10);
    const cancel = a.setTimer(() => fired.push('never'), 20);
    a.setTimer(() => fired.push(`in time at ${a.monotonic()}`), 150);
    await time.advance(5);
    a.pause();
    await time.advance(95);
    expect([a.monotonic(), time.monotonic(), fired]).toEqual([5, 100, []]);
    cancel();
    await a.resume();
    expect([a.monotonic(), fired]).toEqual([100, ['late at 100']]);
    await time.advance(50);
    expect(fired).toEqual(['late at 100', 'in time at 150']);
    expect(a.pendingTimers()).toBe(0);
  });

  test('a holder that was paused past its lease knows it as soon as it is continued', async () => {
    const time = manualRuntime();
    const store: MemoryStore = new Map();
    const provider = memoryProvider({ store, runtime: time });
    const [one, two] = [time.fork(), time.fork()];
    const a = createLocks({ provider, runtime: one });
    const b = createLocks({ provider, runtime: two });
    const held = await a.tryAcquire('key', { lease: 1_000 });
    one.pause();
    await time.advance(1_001);
    const next = await b.tryAcquire('key', { lease: 1_000 });
    await one.resume();
    expect([held?.held, next?.held]).toEqual([false, true]);
    expect(next?.token).toBeGreaterThan(held?.token ?? Number.POSITIVE_INFINITY);
  });
});
