import { setTimeout as sleep } from 'node:timers/promises';
import type { LockProvider, LockRecord } from 'joblatch';
import { expect } from 'vitest';
import { type ClientName, closeClient, openClient, openMysql } from './mysql-clients.js';
import type { Home } from './mysql-server.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** What clients escape, what character sets lack, what patterns mean, and what comparisons leave out. */
export const ODD_KEY = 'Zürich ☃ \u{1D11E} \\ \' " % _ and a blank at the end ';
const OWNER = `host:1 \\ ' " %_`;

/** How an application sets its client up, and what of the provider goes with it. */
export interface Setting {
  readonly client: ClientName;
  readonly clientOptions?: Readonly<Record<string, unknown>>;
  readonly prepare?: boolean;
}

/** Every verb with every kind of answer, and a guard in a transaction of the application, on a client that is set up so. */
export async function playsTheMysqlStory(at: Home, setting: Setting): Promise<void> {
  const { client, prepare = true, clientOptions = {} } = setting;
  const table = await at.madeTable();
  const provider = await openMysql(client, at.url, { table, prepare, clientOptions });
  try {
    await locks(provider);
    await slots(provider);
    await purges(provider);
    await guards(provider, setting, at.url);
    await outlivesItsTable(provider, at, table);
  } finally {
    await provider.close?.();
  }
}

async function locks(provider: LockProvider): Promise<void> {
  const key = ODD_KEY;
  const slot = Math.floor(Date.now() / 1_000) * 1_000;
  const first = await provider.acquire({ key, owner: OWNER, leaseMs: MINUTE, slot });
  expect(first).toEqual({ ok: true, token: expect.any(Number), leftMs: MINUTE, slot });
  const token = first.ok ? first.token : 0;
  expect(token).toBeGreaterThan(1.7e15);
  expect(await provider.acquire({ key, owner: 'other', leaseMs: 1 })).toEqual({
    ok: false,
    reason: 'held',
    leftMs: expect.any(Number),
  });
  // Without the blank it is another key.
  const near = { key: key.trimEnd(), owner: OWNER, leaseMs: MINUTE };
  expect(await provider.acquire(near)).toMatchObject({ ok: true });

  const renewal = { key, owner: OWNER, token, leaseMs: HOUR };
  const nearRenewal = { ...near, token: 1, leaseMs: HOUR };
  expect(await provider.renewMany([renewal, nearRenewal])).toEqual(['ok', 'ok']);
  // One that changes nothing, one that does, and some that are lost.
  const shorter = { ...renewal, leaseMs: 1 };
  const longer = { ...nearRenewal, leaseMs: 2 * HOUR };
  expect(await provider.renewMany([shorter])).toEqual(['ok']);
  expect(
    await provider.renewMany([shorter, { ...renewal, owner: 'other' }, longer, { ...renewal, key: 'none' }]),
  ).toEqual(['ok', 'lost', 'ok', 'lost']);
  expect(await provider.renewMany([{ ...renewal, owner: 'other' }])).toEqual(['lost']);

  const [record] = await provider.inspect({ key });
  expect(record).toMatchObject({ key, state: 'held', owner: OWNER, token, slot });
  expect(record?.leftMs).toBeGreaterThan(HOUR - MINUTE);
  expect(record?.leftMs).toBeLessThanOrEqual(HOUR);
  expect(record?.acquiredAgoMs).toBeLessThan(MINUTE);
  expect((await provider.inspect({})).map((each) => each.key)).toEqual([near.key, key]);

  expect(await provider.release({ key, owner: 'other' })).toBe(false);
  expect(await provider.release({ key, owner: OWNER, keepMs: 2 * HOUR })).toBe(true);
  expect(await provider.release({ key, owner: OWNER })).toBe(false);
  expect(await provider.inspect({ key })).toMatchObject([{ key, state: 'kept', owner: OWNER }]);
  expect(await provider.acquire({ key, owner: 'other', leaseMs: 1 })).toMatchObject({ reason: 'held' });
  expect(await provider.forceRelease(key)).toBe(true);
  expect(await provider.forceRelease(key)).toBe(false);
  expect(await provider.forceRelease('none')).toBe(false);
  expect(await provider.release({ key: near.key, owner: OWNER })).toBe(true);

  let last = token + 1;
  for (const owner of ['a', 'b', 'c']) {
    const next = await provider.acquire({ key, owner, leaseMs: MINUTE });
    expect(next).toEqual({ ok: true, token: expect.any(Number), leftMs: MINUTE });
    if (!next.ok) return;
    expect(next.token).toBeGreaterThan(last);
    last = next.token;
    expect(await provider.inspect({ key })).toMatchObject([{ token: last, owner, slot }]);
    expect(await provider.release({ key, owner })).toBe(true);
  }
}

async function slots(provider: LockProvider): Promise<void> {
  const at = Math.floor(Date.now() / 1_000) * 1_000;
  const take = (slot: number) => provider.acquire({ key: 'slots', owner: OWNER, leaseMs: MINUTE, slot });
  const release = () => provider.release({ key: 'slots', owner: OWNER });
  expect(await take(at - 2_000)).toMatchObject({ ok: true, slot: at - 2_000 });
  expect(await release()).toBe(true);
  expect(await take(at - 2_000)).toEqual({ ok: false, reason: 'slot' });
  expect(await take(at - 1_000)).toMatchObject({ ok: true });
  expect(await take(at - 1_000)).toMatchObject({ ok: false, reason: 'slot', leftMs: expect.any(Number) });
  expect(await release()).toBe(true);

  const periodic = { key: 'periods', owner: OWNER, leaseMs: MINUTE, oncePerMs: HOUR } as const;
  const current = await provider.acquire({ ...periodic, claim: 'release' });
  expect(current).toMatchObject({ ok: true, slot: expect.any(Number) });
  const { slot } = current as { slot: number };
  expect(slot % HOUR).toBe(0);
  const [claimed] = await provider.inspect({ key: 'periods' });
  expect(claimed).not.toHaveProperty('slot');
  expect(await provider.release({ key: 'periods', owner: OWNER, slot })).toBe(true);
  expect(await provider.inspect({ key: 'periods' })).toMatchObject([{ state: 'free', leftMs: 0, slot }]);
}

async function purges(provider: LockProvider): Promise<void> {
  const before = (await provider.inspect({})).map(({ key }) => key);
  for (const key of ['idle 1', 'idle 2', 'busy']) {
    await provider.acquire({ key, owner: OWNER, leaseMs: MINUTE });
    if (key !== 'busy') await provider.release({ key, owner: OWNER });
  }
  await sleep(5);
  expect(await provider.purge({ idleMs: HOUR })).toBe(0);
  // Also what the verbs before left without a slot.
  expect(await provider.purge({ idleMs: 1 })).toBeGreaterThanOrEqual(2);
  const left = (await provider.inspect({})).map(({ key }: LockRecord) => key);
  expect(left).toContain('busy');
  expect(left.filter((key) => key.startsWith('idle'))).toEqual([]);
  // Its slot is remembered.
  expect(before).toContain(ODD_KEY);
  expect(left).toContain(ODD_KEY);
  expect(await provider.purge({ idleMs: 1 })).toBe(0);
  expect(await provider.release({ key: 'busy', owner: OWNER })).toBe(true);
}

interface Lent {
  query(sql: string): Promise<unknown>;
  release?(): unknown;
}

async function guards(provider: LockProvider, setting: Setting, url: string): Promise<void> {
  const client = await openClient(setting.client, url, setting.clientOptions);
  try {
    const grant = await provider.acquire({ key: ODD_KEY, owner: OWNER, leaseMs: MINUTE });
    const { token } = grant as { token: number };
    const request = { key: ODD_KEY, owner: OWNER, token, leftMs: MINUTE };
    // What the application itself has: with callbacks, a connection of that kind.
    const { lent, own } = await lend(client);
    await expect(provider.guard?.(request, own)).rejects.toMatchObject({
      code: 'OPTIONS',
      message: expect.stringContaining('no transaction open'),
    });
    await lent.query('start transaction');
    expect(await provider.guard?.({ ...request, token: token - 1 }, own)).toBe(false);
    expect(await provider.guard?.({ ...request, owner: 'other' }, own)).toBe(false);
    expect(await provider.guard?.(request, own)).toBe(true);
    expect(await provider.renewMany([{ ...request, leaseMs: HOUR }])).toEqual(['ok']);
    await lent.query('commit');
    await lent.release?.();
    expect(await provider.release({ key: ODD_KEY, owner: OWNER })).toBe(true);
  } finally {
    await closeClient(setting.client, client);
  }
}

interface Lending {
  getConnection?(callback?: (error: Error | null, connection: object) => void): Promise<object>;
  promise?(): Lent;
}

async function lend(client: Lending): Promise<{ readonly lent: Lent; readonly own: object }> {
  if (client.getConnection === undefined) {
    return { lent: { query: (sql) => (client as Lent).query(sql) }, own: client };
  }
  if (client.promise === undefined) {
    const lent = (await client.getConnection()) as Lent;
    return { lent, own: lent };
  }
  const own = await new Promise<Lending>((resolve, reject) => {
    client.getConnection?.((error, connection) => (error ? reject(error) : resolve(connection)));
  });
  const lent = own.promise?.() as Lent;
  return {
    lent: { query: (sql) => lent.query(sql), release: () => (own as { release(): void }).release() },
    own,
  };
}

/** Errors of the server are read as well: a table that is gone is looked for again, and is missed. */
async function outlivesItsTable(provider: LockProvider, { console }: Home, table: string): Promise<void> {
  await console.query(`drop table ${table}`);
  await expect(provider.acquire({ key: 'k', owner: OWNER, leaseMs: MINUTE })).rejects.toMatchObject({
    code: 'STORE',
    message: expect.stringContaining('does not exist'),
  });
}
