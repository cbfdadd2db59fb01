import type { LockProvider } from 'joblatch';
import { migratePostgres } from 'joblatch/postgres';
import { beforeAll, expect, test } from 'vitest';
import { CLIENT_NAMES, openPostgres } from '../support/postgres-clients.js';
import {
  behindTheBack,
  describeWithPostgres,
  type Home,
  home,
  keepsTheContract,
  shedlockTable,
} from '../support/postgres-server.ts';
import { ISOLATIONS, transactions } from '../support/postgres-transactions.ts';

const ZONES = ['-05:00', '+05:00', 'Europe/Prague', 'UTC'];
const TAKERS = 50;

/** Everything that an application may have set on its sessions, one after another. */
const withSettings = (url: string, settings: Readonly<Record<string, string>>): string => {
  const changed = new URL(url);
  const options = Object.entries(settings).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`,
  );
  changed.searchParams.set(
    'options',
    [url && new URL(url).searchParams.get('options'), ...options].join(' '),
  );
  return changed.href;
};

/** Each provider that is opened has sessions of the next kind, so that kinds meet within a case. */
function oneAfterAnother(urls: readonly string[], table: string): () => Promise<LockProvider> {
  let next = 0;
  return () => {
    const url = urls[next % urls.length] as string;
    const name = CLIENT_NAMES[next % CLIENT_NAMES.length] as (typeof CLIENT_NAMES)[number];
    next += 1;
    return openPostgres(name, url, { table });
  };
}

const NEEDS_MORE = ['noSlots', 'openSkewed', 'interrupt', 'moduleUrl'] as const;

/** -05:00 means five hours west to ISO, and east to POSIX, as a setting: both are among the zones. */
const inZones = (at: Home): string[] => ZONES.map((zone) => withSettings(at.url, { TimeZone: zone }));

describeWithPostgres('PostgreSQL: sessions in four time zones keep the contract on timestamptz', (server) => {
  const at = home(server);
  const table = at.freshTable();
  beforeAll(async () => void (await migratePostgres({ pool: at.console, table })));
  keepsTheContract(
    { open: oneAfterAnother(inZones(at), table), ...behindTheBack(at, () => table, 'now()') },
    NEEDS_MORE,
  );
});

describeWithPostgres(
  "PostgreSQL: sessions in four time zones keep the contract on ShedLock's timestamps",
  (server) => {
    const at = home(server);
    const table = at.freshTable();
    beforeAll(async () => {
      await at.console.query(shedlockTable(table));
      // The contract has keys of 512 characters, and ShedLock's table has not.
      await at.console.query(`alter table ${table} alter column name type varchar(512)`);
      await migratePostgres({ pool: at.console, table });
    });
    keepsTheContract(
      {
        open: oneAfterAnother(inZones(at), table),
        ...behindTheBack(at, () => table, "timezone('utc', now())"),
      },
      NEEDS_MORE,
    );
  },
);

describeWithPostgres('PostgreSQL: sessions of three isolation levels keep the contract', (server) => {
  const at = home(server);
  const table = at.freshTable();
  beforeAll(async () => void (await migratePostgres({ pool: at.console, table })));
  const urls = ISOLATIONS.map((level) => withSettings(at.url, { default_transaction_isolation: level }));
  let begun = 0;
  const nextUrl = (): string => {
    begun += 1;
    return urls[begun % urls.length] as string;
  };
  keepsTheContract(
    {
      open: oneAfterAnother(urls, table),
      ...behindTheBack(at, () => table, 'now()'),
      ...transactions('pg Pool', nextUrl),
    },
    NEEDS_MORE,
  );
});

describeWithPostgres('PostgreSQL: fifty first takers', (server) => {
  const at = home(server);
  for (const level of [...ISOLATIONS, 'of every kind']) {
    test(`${level}, through every client: one winner, no error`, async () => {
      const table = await at.madeTable();
      const levels: readonly string[] = level === 'of every kind' ? ISOLATIONS : [level];
      const urls = levels.map((each) => withSettings(at.url, { default_transaction_isolation: each }));
      const open = oneAfterAnother(urls, table);
      const providers = await Promise.all(Array.from({ length: 6 }, open));
      for (let race = 0; race < 20; race += 1) {
        // Half of the races are for a key that nobody has seen, half for one whose lease is over.
        const key = `key-${Math.floor(race / 2)}`;
        const results = await Promise.all(
          Array.from({ length: TAKERS }, (_, i) =>
            (providers[i % providers.length] as LockProvider).acquire({
              key,
              owner: `taker:${race}:${i}`,
              leaseMs: 60_000,
            }),
          ),
        );
        expect(results.filter(({ ok }) => ok)).toHaveLength(1);
        await at.console.query(`update ${table} set lock_until = now() - interval '1 second'`);
      }
      await Promise.all(providers.map((provider) => provider.close?.()));
    });
  }

  test('a counter without protection is exact under every isolation level at once', async () => {
    const table = await at.madeTable();
    const urls = ISOLATIONS.map((each) => withSettings(at.url, { default_transaction_isolation: each }));
    const open = oneAfterAnother(urls, table);
    const providers = await Promise.all(Array.from({ length: 6 }, open));
    let count = 0;
    let refusals = 0;
    await Promise.all(
      providers.map(async (provider, i) => {
        for (let round = 0; round < 25; ) {
          const owner = `counter:${i}:${round}`;
          const result = await provider.acquire({ key: 'counter', owner, leaseMs: 30_000 });
          if (!result.ok) {
            refusals += 1;
            continue;
          }
          const read = count;
          await new Promise((resolve) => setTimeout(resolve, 1));
          count = read + 1;
          // A taker who still saw the key free may have its row locked for a moment: 'unknown', and never 'lost'.
          const grant = { key: 'counter', owner, token: result.token };
          const [renewed] = await provider.renewMany([{ ...grant, leaseMs: 30_000 }]);
          expect(renewed).toBeOneOf(['ok', 'unknown']);
          expect(await provider.release({ key: 'counter', owner })).toBe(true);
          round += 1;
        }
      }),
    );
    expect(count).toBe(6 * 25);
    expect(refusals).toBeGreaterThan(0);
    await Promise.all(providers.map((provider) => provider.close?.()));
  });
});

describeWithPostgres('PostgreSQL: what an application sets on its clients', (server) => {
  const at = home(server);

  test('settings of the session that change how text is read or shown make no difference', async () => {
    const table = await at.madeTable();
    const settings = {
      standard_conforming_strings: 'off',
      DateStyle: 'German',
      IntervalStyle: 'sql_standard',
      bytea_output: 'escape',
      extra_float_digits: '-15',
      backslash_quote: 'off',
      statement_timeout: '5s',
      idle_in_transaction_session_timeout: '10ms',
    };
    for (const name of CLIENT_NAMES) {
      const provider = await openPostgres(name, withSettings(at.url, settings), { table });
      const key = `Übergröße '\\' " $1 ? :a ${name} 🔒`;
      const result = await provider.acquire({ key, owner: 'host:1', leaseMs: 60_000, oncePerMs: 60_000 });
      expect(result).toMatchObject({ ok: true, token: expect.any(Number) });
      const token = result.ok ? result.token : 0;
      expect(await provider.renewMany([{ key, owner: 'host:1', token, leaseMs: 90_000 }])).toEqual(['ok']);
      expect(await provider.inspect({ key })).toMatchObject([{ key, token, state: 'held' }]);
      expect(await provider.release({ key, owner: 'host:1' })).toBe(true);
      await provider.close?.();
    }
  });

  test('no setting of ours stays in the session', async () => {
    const table = await at.madeTable();
    const clientOptions = { max: 1 };
    const provider = await openPostgres('pg Pool', at.url, { table, clientOptions });
    const { openClient, sourceOf } = await import('../support/postgres-clients.js');
    await provider.close?.();
    const pool = await openClient('pg Pool', at.url, clientOptions);
    const { postgresProvider } = await import('joblatch/postgres');
    const used = postgresProvider({ ...sourceOf('pg Pool', pool), table });
    await used.acquire({ key: 'k', owner: 'o', leaseMs: 1_000 });
    await used.release({ key: 'k', owner: 'o' });
    const { rows } = await pool.query(
      `select current_setting('lock_timeout') as lock, current_setting('synchronous_commit') as sync,
        coalesce(current_setting('joblatch.probe', true), '') as probe,
        (select json_agg(distinct left(name, 9)) from pg_prepared_statements) as prepared`,
    );
    // Statements are prepared once a connection, under names that no application has.
    expect(rows).toEqual([{ lock: '0', sync: 'on', probe: '', prepared: ['joblatch_'] }]);
    await pool.end();
  });

  test.each([
    ['pg Pool', { types: { getTypeParser: () => () => ({ hostile: true }) } }],
    ['pg Pool', { binary: true }],
    ['pg Client', { types: { getTypeParser: () => () => undefined } }],
    [
      'postgres.js',
      {
        transform: {
          undefined: null,
          column: { from: (name: string) => `x_${name}`, to: (name: string) => name },
          value: { from: () => 'hostile', to: (value: unknown) => value },
          row: { from: (row: object) => ({ wrapped: Object.values(row)[0] }) },
        },
        types: {
          text: { to: 25, from: [25], parse: () => 'hostile', serialize: () => 'hostile' },
          json: { to: 114, from: [114], parse: () => 'hostile', serialize: () => 'hostile' },
          bigint: { to: 20, from: [20], parse: () => 'hostile', serialize: () => 'hostile' },
        },
        prepare: true,
      },
    ],
    ['postgres.js', { prepare: false, fetch_types: false }],
    ['postgres.js', { max: 1 }],
  ] as const)('%s with hostile parsers and transforms: %j', async (name, clientOptions) => {
    const table = await at.madeTable();
    const provider = await openPostgres(name, at.url, { table, clientOptions });
    const taken = await provider.acquire({ key: 'k', owner: 'o', leaseMs: 60_000, slot: Date.now() });
    expect(taken).toMatchObject({ ok: true, token: expect.any(Number), leftMs: expect.any(Number) });
    expect(await provider.acquire({ key: 'k', owner: 'p', leaseMs: 1 })).toMatchObject({
      ok: false,
      reason: 'held',
    });
    expect(await provider.renewMany([{ key: 'k', owner: 'o', token: 1, leaseMs: 1 }])).toEqual(['ok']);
    expect(await provider.inspect({})).toMatchObject([{ key: 'k', owner: 'o', state: 'held' }]);
    expect(await provider.release({ key: 'k', owner: 'o' })).toBe(true);
    await provider.close?.();
  });
});
