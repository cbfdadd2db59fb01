import { setTimeout as sleep } from 'node:timers/promises';
import type { LockProvider } from 'joblatch';
import { expect } from 'vitest';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let stories = 0;

/**
 * Every verb, with every kind of answer: what one client hands over must be read as what any other does. Names are
 * such as patterns and hash slots find hard.
 */
export async function playsTheStory(provider: LockProvider): Promise<void> {
  stories += 1;
  const { inspect: lists } = await provider.abilities();
  for (const odd of ['plain', '{tag}', '{}', 'a}b', 'x{', '*?[a]\\', 'ü \u{1F512}']) {
    const key = `story-${process.pid}-${stories}-${odd}`;
    const owner = `host:1:${odd.length}`;
    const second = Math.floor(Date.now() / 1000) * 1000;

    const first = await provider.acquire({ key, owner, leaseMs: MINUTE, slot: second });
    expect(first).toEqual({ ok: true, token: expect.any(Number), leftMs: MINUTE, slot: second });
    const token = first.ok ? first.token : 0;
    expect(token).toBeGreaterThan(1.7e15);

    const held = await provider.acquire({ key, owner: 'other', leaseMs: 1 });
    expect(held).toEqual({ ok: false, reason: 'held', leftMs: expect.any(Number) });
    const taken = await provider.acquire({ key, owner: 'other', leaseMs: 1, slot: second });
    expect(taken).toMatchObject({ ok: false, reason: 'slot' });

    const renewal = { key, owner, token, leaseMs: HOUR };
    expect(await provider.renewMany([renewal, { ...renewal, owner: 'other' }])).toEqual(['ok', 'lost']);
    const [record] = await provider.inspect({ key });
    expect(record).toMatchObject({ key, state: 'held', owner, token, slot: second });
    expect(record?.leftMs).toBeGreaterThan(HOUR - MINUTE);
    if (lists)
      expect(await provider.inspect({})).toContainEqual(
        expect.objectContaining({ key, state: 'held', token }),
      );

    expect(await provider.release({ key, owner, keepMs: 2 * HOUR })).toBe(true);
    expect(await provider.release({ key, owner })).toBe(false);
    expect(await provider.inspect({ key })).toMatchObject([{ state: 'kept', owner }]);
    expect(await provider.acquire({ key, owner: 'other', leaseMs: 1 })).toMatchObject({ reason: 'held' });

    expect(await provider.forceRelease(key)).toBe(true);
    expect(await provider.forceRelease(key)).toBe(false);
    expect(await provider.acquire({ key, owner: 'last', leaseMs: MINUTE })).toMatchObject({ ok: true });
    expect((await provider.inspect({ key }))[0]?.token).toBeGreaterThan(token + 1);

    const periodic = `${key}-per`;
    const next = await provider.acquire({
      key: periodic,
      owner: 'next',
      leaseMs: MINUTE,
      oncePerMs: HOUR,
      claim: 'release',
    });
    expect(next).toMatchObject({ ok: true, slot: expect.any(Number) });
    expect(await provider.release({ key: periodic, owner: 'next' })).toBe(true);
    const free = await provider.inspect({ key: periodic });
    expect(free).toMatchObject([{ state: 'free', leftMs: 0, owner: 'next' }]);
  }
  const idle = { key: `story-${process.pid}-${stories}-idle`, owner: 'host:1:idle' };
  await provider.acquire({ ...idle, leaseMs: MINUTE });
  await provider.release(idle);
  await sleep(5);
  const gone = await provider.purge({ idleMs: 1 });
  expect((await provider.inspect({ key: idle.key })).length).toBe(lists ? 0 : 1);
  if (lists) expect(gone).toBeGreaterThan(0);
}
