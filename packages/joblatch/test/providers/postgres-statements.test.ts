import { createServer, type Socket } from 'node:net';
import type { LockProvider } from 'joblatch';
import { type PgQuery, postgresProvider } from 'joblatch/postgres';
import { expect, test } from 'vitest';
import {
  CLIENT_NAMES,
  closeClient,
  openClient,
  openPostgres,
  sourceOf,
} from '../support/postgres-clients.js';
import { describeWithPostgres, home, type Pool } from '../support/postgres-server.ts';

const KEY = "secret-key '\\ $1";
const OWNER = 'secret-owner';

/** Each verb once, with values that are found again. */
const verbs: Readonly<Record<string, (provider: LockProvider) => Promise<unknown>>> = {
  acquire: (p) => p.acquire({ key: KEY, owner: OWNER, leaseMs: 60_077 }),
  'acquire, refused': (p) => p.acquire({ key: KEY, owner: OWNER, leaseMs: 60_077 }),
  'acquire, refused again': (p) => p.acquire({ key: KEY, owner: OWNER, leaseMs: 60_077 }),
  'acquire, a slot': (p) => p.acquire({ key: `${KEY}2`, owner: OWNER, leaseMs: 60_077, slot: Date.now() }),
  'acquire, a period': (p) => p.acquire({ key: `${KEY}3`, owner: OWNER, leaseMs: 60_077, oncePerMs: 60_077 }),
  renewMany: (p) => p.renewMany([{ key: KEY, owner: OWNER, token: 1, leaseMs: 60_077 }]),
  release: (p) => p.release({ key: KEY, owner: OWNER, keepMs: 60_077 }),
  inspect: (p) => p.inspect({ key: KEY, limit: 60_077 }),
  'inspect, all': (p) => p.inspect({}),
  forceRelease: (p) => p.forceRelease(KEY),
  purge: (p) => p.purge({ idleMs: 60_077 }),
};

/** A pool that tells what its connections are asked, and can fail before it asks. */
function spied(pool: Pool, before: (query: PgQuery) => void) {
  return {
    on: () => {},
    removeListener: () => {},
    query: () => {},
    totalCount: 0,
    connect: async () => {
      const client = await pool.connect();
      const query = async (asked: PgQuery) => {
        before(asked);
        return client.query(asked);
      };
      return Object.create(client, { query: { value: query } });
    },
  };
}

const failure = (code: string, message = 'as told') => Object.assign(new Error(message), { code });

describeWithPostgres('PostgreSQL: the statements', (server) => {
  const at = home(server);

  test('each verb is one message; its values are bound, and its text is the same whatever they are', async () => {
    const table = await at.madeTable();
    const asked: PgQuery[] = [];
    const provider = postgresProvider({ pool: spied(at.console, (query) => asked.push(query)), table });
    await provider.abilities();
    const texts = new Map<string, string>();
    for (const [what, verb] of Object.entries(verbs)) {
      asked.length = 0;
      await verb(provider);
      expect(asked, what).toHaveLength(1);
      const [{ text, values, name }] = asked as [PgQuery];
      expect(text, what).not.toMatch(/secret|60077/);
      expect(text, what).not.toContain(';');
      expect(values?.every((value) => value === null || typeof value === 'string')).toBe(true);
      expect(name, what).toMatch(/^joblatch_[\w-]{20}$/);
      // The same name never has another text, or pg would refuse it.
      expect(texts.get(name as string) ?? text, what).toBe(text);
      texts.set(name as string, text);
    }
    expect(texts.size).toBeLessThan(Object.keys(verbs).length);
    const other = postgresProvider({
      pool: spied(at.console, (query) => asked.push(query)),
      table: await at.madeTable(),
    });
    await other.abilities();
    asked.length = 0;
    await verbs.acquire?.(other);
    expect(texts.has(asked[0]?.name as string)).toBe(false);
  });

  test.each([
    ['26000', 'prepared statement "x" does not exist'],
    ['42P05', 'prepared statement "x" already exists'],
    ['08P01', 'prepared statement did not exist'],
  ])('%s of a pooler: the call goes on without a name, and so do those after it', async (code, message) => {
    const table = await at.madeTable();
    const names: (string | undefined)[] = [];
    const pool = spied(at.console, ({ name }) => {
      names.push(name);
      if (name !== undefined && names.length > 1) throw failure(code, message);
    });
    const provider = postgresProvider({ pool, table });
    await provider.abilities();
    for (const verb of Object.values(verbs)) await verb(provider);
    expect(names.filter((name) => name !== undefined)).toHaveLength(2);
    expect(names).toHaveLength(Object.keys(verbs).length + 2);
  });

  test.each(['08P01', '57P01', '40003'])(
    '%s for another reason is an error, and not sent again',
    async (code) => {
      const table = await at.madeTable();
      let sent = 0;
      const pool = spied(at.console, () => {
        sent += 1;
        if (sent > 1) throw failure(code, 'server conn crashed?');
      });
      const provider = postgresProvider({ pool, table });
      await provider.abilities();
      await expect(verbs.acquire?.(provider)).rejects.toMatchObject({ code: 'STORE' });
      expect(sent).toBe(2);
    },
  );

  test('prepare: false names nothing', async () => {
    const table = await at.madeTable();
    const asked: PgQuery[] = [];
    const provider = postgresProvider({
      pool: spied(at.console, (query) => asked.push(query)),
      table,
      prepare: false,
    });
    for (const verb of Object.values(verbs)) await verb(provider);
    expect(asked.some((query) => 'name' in query)).toBe(false);
  });

  // PGlite has no wire.
  for (const name of CLIENT_NAMES) {
    test(`${name}: a verb that was used before is one round trip, and is not parsed again`, async () => {
      const table = await at.madeTable();
      const wire = await Wire.to(at.url);
      const client = await openClient(name, wire.url, name === 'pg Client' ? {} : { max: 2 });
      const provider = postgresProvider({ ...sourceOf(name, client), table });
      const round = async (): Promise<Record<string, string>> => {
        const seen: Record<string, string> = {};
        for (const [what, verb] of Object.entries(verbs)) {
          wire.turns.length = 0;
          await verb(provider);
          seen[what] = wire.turns.join(' ');
        }
        // Who was refused looks first the next time, until he has it.
        await provider.forceRelease(KEY);
        await verbs.acquire?.(provider);
        await provider.forceRelease(KEY);
        return seen;
      };
      for (let i = 0; i < 3; i += 1) await round();
      for (const [what, turns] of Object.entries(await round()))
        expect(turns, what).toMatch(name === 'postgres.js' ? /^BES$/ : /^BDES$/);
      await closeClient(name, client);
      wire.close();
    });
  }
});

/** Sees which messages a client sends between two answers. */
class Wire {
  readonly url: string;
  /** The types of the messages, a string for each time that the client had its turn. */
  readonly turns: string[] = [];
  readonly #close: () => void;

  static async to(url: string): Promise<Wire> {
    const { hostname, port } = new URL(url);
    const { connect } = await import('node:net');
    const sockets: Socket[] = [];
    let wire: Wire | undefined;
    const proxy = createServer((client) => {
      const upstream = connect(Number(port), hostname);
      sockets.push(client, upstream);
      let started = false;
      let clientsTurn = true;
      client.on('data', (data) => {
        if (started) {
          let types = '';
          for (let at = 0; at < data.length; at += 1 + data.readInt32BE(at + 1))
            types += String.fromCharCode(data[at] as number);
          if (clientsTurn) wire?.turns.push(types);
          else if (wire) wire.turns[wire.turns.length - 1] += types;
        }
        // The first message has no type.
        started = true;
        clientsTurn = false;
        upstream.write(data);
      });
      upstream.on('data', (data) => {
        clientsTurn = true;
        client.write(data);
      });
      for (const socket of [client, upstream]) socket.on('error', () => {});
      client.on('close', () => upstream.destroy());
      upstream.on('close', () => client.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const through = new URL(url);
    through.port = String((proxy.address() as { port: number }).port);
    wire = new Wire(through.href, () => {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    });
    return wire;
  }

  private constructor(url: string, close: () => void) {
    this.url = url;
    this.#close = close;
  }

  close(): void {
    this.#close();
  }
}

describeWithPostgres('PostgreSQL: no statement waits longer than it may', (server) => {
  const at = home(server);
  const HOLD_MS = 10_000;

  /** What each verb would have to wait for, if it did not skip it: with a limit that is ended by the server. */
  const cases: Readonly<
    Record<string, readonly [blocks: string, verb: (p: LockProvider) => Promise<unknown>, atMostMs: number]>
  > = {
    'acquire, an uncommitted insert': [
      "insert into $t values ('new', now() + interval '1 hour', now(), 'x', 1, null)",
      (p) => p.acquire({ key: 'new', owner: OWNER, leaseMs: 1_000 }),
      400,
    ],
    'acquire with a slot, an uncommitted insert': [
      "insert into $t values ('new', now() + interval '1 hour', now(), 'x', 1, null)",
      (p) => p.acquire({ key: 'new', owner: OWNER, leaseMs: 1_000, slot: Date.now() }),
      800,
    ],
    'acquire, a locked row': [
      'select from $t for update',
      (p) => p.acquire({ key: 'over', owner: OWNER, leaseMs: 1_000 }),
      400,
    ],
    'renewMany, a locked row': [
      'select from $t for update',
      (p) => p.renewMany([{ key: 'held', owner: OWNER, token: 1, leaseMs: 1_000 }]),
      400,
    ],
    'release, a locked row': [
      'select from $t for update',
      (p) => p.release({ key: 'held', owner: OWNER }),
      1_500,
    ],
    'forceRelease, a locked row': ['select from $t for update', (p) => p.forceRelease('held'), 1_500],
    'purge, a locked row': ['select from $t for update', (p) => p.purge({ idleMs: 0 }), 400],
  };

  for (const name of CLIENT_NAMES) {
    test.each(Object.entries(cases))(`${name}: %s`, async (_what, [blocks, verb, atMostMs]) => {
      const table = await at.madeTable();
      const provider = await openPostgres(name, at.url, { table, timeoutMs: HOLD_MS });
      await provider.acquire({ key: 'held', owner: OWNER, leaseMs: 60_000 });
      await provider.acquire({ key: 'over', owner: 'x', leaseMs: 60_000 });
      await provider.release({ key: 'over', owner: 'x' });
      const other = await at.console.connect();
      try {
        await other.query('begin');
        await other.query(blocks.replace('$t', table));
        const start = performance.now();
        await verb(provider).catch((error: Error) => expect(error.message).toContain('lock timeout'));
        expect(performance.now() - start).toBeLessThan(atMostMs);
      } finally {
        await other.query('rollback');
        other.release();
      }
      await provider.close?.();
    });
  }
});
