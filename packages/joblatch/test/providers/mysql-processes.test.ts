import { multiProcessContract } from 'joblatch/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { describeWithMariadb, home } from '../support/mysql-server.ts';
import { CLIENTS, ISOLATIONS, optionsFor, setUpsOf, TABLES } from '../support/mysql-sessions.ts';
import { loadPrague } from '../support/mysql-zones.ts';

/** What several processes do to each other, in every combination: our DATETIME columns, and ShedLock's TIMESTAMP. */
describeWithMariadb('processes with sessions of four zones', (server) => {
  const at = home(server);
  beforeAll(() => loadPrague(at.console));
  const combinations = CLIENTS.flatMap((name) =>
    ISOLATIONS.flatMap((isolation) =>
      (['ours', 'ShedLock, TIMESTAMP, completed'] as const).map((kind) => [name, isolation, kind] as const),
    ),
  );
  describe.each(combinations)('%s, %s, table: %s', (name, isolation, kind) => {
    const table = at.freshTable();
    beforeAll(() => TABLES[kind](at, table));
    const options = optionsFor(name, at, table, setUpsOf(isolation));
    for (const { name: what, run } of multiProcessContract(options)) {
      test(what, async () => {
        expect((await run()).skip).toBeUndefined();
      });
    }
  });
});
