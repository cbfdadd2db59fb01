import assert from 'node:assert/strict';
import { isLockError } from '../../provider/errors.js';
import { type CaseDefinition, define } from './case.js';
import type { ContractTransaction } from './options.js';
import { LONG_LEASE_MS, pick, type Scene, type Taken, TooSlowError } from './scene.js';
import { show } from './show.js';

/** "At once", on a machine that has other things to do. */
const AT_ONCE_MS = 2_000;
const NEEDS = ['guard', 'beginTransaction'] as const;
const BESIDE = [...NEEDS, 'manyWriters'] as const;

/** Transactions of the application that are guarded by a grant. */
export const guarding: readonly CaseDefinition[] = [
  define('a guard of a live grant answers true, and the transaction can be committed', NEEDS, async (s) => {
    const taken = await s.take(s.key());
    await within(s, async (tx) => {
      await guarded(s, tx, taken);
      await tx.commit();
    });
    await s.renewed(taken, LONG_LEASE_MS);
    await s.released(taken);
  }),

  define('a guard answers true after a rollback of an earlier one', NEEDS, async (s) => {
    const taken = await s.take(s.key());
    await within(s, (tx) => guarded(s, tx, taken));
    await within(s, (tx) => guarded(s, tx, taken));
    await s.released(taken);
  }),

  define('a guard of a grant that was given back answers false', NEEDS, async (s) => {
    const taken = await s.take(s.key());
    await s.released(taken);
    await notGuarded(s, taken);
    await s.released(await s.take(taken.key));
  }),

  define('a guard of a grant that was given back and is kept answers false', NEEDS, async (s) => {
    const taken = await s.take(s.key());
    await s.released(taken, { keepMs: LONG_LEASE_MS });
    await notGuarded(s, taken);
  }),

  define('a guard of a grant that was freed by force answers false', NEEDS, async (s) => {
    const taken = await s.take(s.key());
    await s.forceRelease(taken.key);
    await notGuarded(s, taken);
  }),

  define('a guard of a grant that somebody has taken over answers false', NEEDS, async (s) => {
    const key = s.key();
    const taken = await s.take(key, { leaseMs: s.leaseMs });
    await s.outlast(taken);
    const successor = await s.take(key);
    await notGuarded(s, taken);
    await within(s, (tx) => guarded(s, tx, successor));
    await s.released(successor);
  }),

  define(
    'a guard of a grant whose end has come answers false, or keeps a key that nobody took till then',
    BESIDE,
    async (s) => {
      const taken = await s.take(s.key(), { leaseMs: s.leaseMs });
      await s.outlast(taken);
      await within(s, async (tx) => {
        if (await guard(s, tx, taken)) await s.refused(taken.key);
      });
      await s.released(await s.take(taken.key));
    },
  ),

  define(
    'a guard of a grant whose record was deleted answers false',
    [...NEEDS, 'deleteRecord'],
    async (s) => {
      const taken = await s.take(s.key());
      await s.options.deleteRecord?.(taken.key);
      await notGuarded(s, taken);
    },
  ),

  define('a guard of a key that was never taken answers false', NEEDS, async (s) => {
    await within(s, async (tx) => {
      const found = await guard(s, tx, { key: s.key(), owner: s.owner(), token: 1 });
      assert.equal(found, false, 'Expected a guard of a key that nobody has taken to answer false.');
    });
  }),

  define('a guard by another owner answers false, and the grant is as it was', NEEDS, async (s) => {
    const taken = await s.take(s.key());
    await notGuarded(s, { ...taken, owner: s.owner() });
    await s.renewed(taken, LONG_LEASE_MS);
    await s.refused(taken.key);
    await s.released(taken);
  }),

  define('after a false the transaction goes on: another grant is guarded', NEEDS, async (s) => {
    const [gone, live] = [await s.take(s.key('gone')), await s.take(s.key('live'))];
    await s.released(gone);
    await within(s, async (tx) => {
      assert.equal(await guard(s, tx, gone), false, 'Expected a guard of a released grant to answer false.');
      await guarded(s, tx, live);
      await tx.commit();
    });
    await s.released(live);
  }),

  define('several grants are guarded in one transaction, and one of them twice', NEEDS, async (s) => {
    const [one, other] = [await s.take(s.key('one')), await s.take(s.key('other'))];
    await within(s, async (tx) => {
      await guarded(s, tx, one);
      await guarded(s, tx, other);
      await guarded(s, tx, one);
      await tx.commit();
    });
    await s.released(one);
    await s.released(other);
  }),

  ...(['commit', 'rollback'] as const).map((end) =>
    define(
      `a guarded key is not taken over when its lease runs out, and can be after the ${end}`,
      BESIDE,
      async (s) => {
        const taken = await s.take(s.key(), { leaseMs: s.leaseMs });
        await within(s, async (tx) => {
          await guarded(s, tx, taken);
          await s.outlast(taken);
          for (const client of [s.client, await s.open()]) {
            const asked = s.runtime.monotonic();
            await s.refused(taken.key, { client });
            const waited = s.runtime.monotonic() - asked;
            assert.ok(
              waited < AT_ONCE_MS,
              `Expected a refusal within ${AT_ONCE_MS} ms, found it after ${waited} ms.`,
            );
          }
          await tx[end]();
        });
        const successor = await s.take(taken.key);
        await notGuarded(s, taken);
        await s.released(successor);
      },
    ),
  ),

  define('a guarded grant is renewed, and lives on after the transaction', BESIDE, async (s) => {
    const taken = await s.take(s.key(), { leaseMs: s.leaseMs });
    await within(s, async (tx) => {
      await guarded(s, tx, taken);
      const [answer] = await s.answer(
        'renewMany',
        s.client.renewMany([{ ...pick(taken), leaseMs: LONG_LEASE_MS }]),
      );
      if (s.now() >= taken.liveUntil) throw new TooSlowError(`Could not renew ${show(taken.key)} in time.`);
      assert.equal(answer, 'ok', `Expected a guarded grant to be renewed, found '${answer}'.`);
      await s.outlast(taken);
      await guarded(s, tx, { ...taken, liveUntil: Number.POSITIVE_INFINITY });
      await tx.commit();
    });
    taken.liveUntil = Number.POSITIVE_INFINITY;
    await s.refused(taken.key);
    await s.released(taken);
  }),

  define('beside a guarded key others are taken, renewed and given back', BESIDE, async (s) => {
    const taken = await s.take(s.key('guarded'));
    const before = await s.take(s.key('before'));
    await within(s, async (tx) => {
      await guarded(s, tx, taken);
      await s.renewed(before, LONG_LEASE_MS);
      await s.released(before);
      const after = await s.take(s.key('after'));
      await s.renewed(after, LONG_LEASE_MS);
      await s.released(after);
    });
    await s.released(taken);
  }),

  define('what is no transaction is refused with a LockOptionsError', ['guard'], async (s) => {
    const taken = await s.take(s.key());
    for (const wrong of [{}, [], () => {}, s.client]) await blamesTheOptions(s, taken, wrong);
    await s.released(taken);
  }),

  define(
    'a guard where no transaction is open is refused with a LockOptionsError',
    [...NEEDS, 'notBegun'],
    async (s) => {
      const taken = await s.take(s.key());
      const given = await s.options.notBegun?.();
      try {
        await blamesTheOptions(s, taken, given?.transaction ?? {});
      } finally {
        await given?.rollback();
      }
      await s.released(taken);
    },
  ),
];

type Grant = Pick<Taken, 'key' | 'owner' | 'token'>;

/** A transaction that is rolled back unless the play has ended it. */
async function within(s: Scene, play: (tx: ContractTransaction) => Promise<void>): Promise<void> {
  const begun = await s.options.beginTransaction?.();
  if (begun === undefined) return;
  let open = true;
  const ends = (how: 'commit' | 'rollback') => async (): Promise<void> => {
    open = false;
    await s.answer(how, begun[how]());
  };
  const tx = { transaction: begun.transaction, commit: ends('commit'), rollback: ends('rollback') };
  try {
    await play(tx);
  } finally {
    if (open) await tx.rollback();
  }
}

async function guard(s: Scene, { transaction }: ContractTransaction, grant: Grant): Promise<boolean> {
  const { key, owner, token } = grant;
  // A transaction may sit idle as long as this: no case does for longer, whatever the lease.
  const request = { key, owner, token, leftMs: LONG_LEASE_MS };
  const found = await s.answer(`guard of ${show(key)}`, guardOf(s)(request, transaction));
  assert.equal(typeof found, 'boolean', `Expected true or false from guard, found ${show(found)}.`);
  return found;
}

function guardOf({
  client,
}: Scene): (...args: Parameters<Required<Scene['client']>['guard']>) => Promise<boolean> {
  return async (...args) => {
    assert.ok(client.guard, 'Expected a provider that can guard.');
    return client.guard(...args);
  };
}

async function guarded(s: Scene, tx: ContractTransaction, taken: Taken): Promise<void> {
  if (await guard(s, tx, taken)) return;
  if (s.now() >= taken.liveUntil) throw new TooSlowError(`Could not guard ${show(taken.key)} in time.`);
  assert.fail(`Expected a guard of the live grant of ${show(taken.key)} to answer true, found false.`);
}

async function notGuarded(s: Scene, grant: Grant): Promise<void> {
  await within(s, async (tx) => {
    const found = await guard(s, tx, grant);
    assert.equal(
      found,
      false,
      `Expected a guard of ${show(grant.key)}, not held, to answer false, found true.`,
    );
    await tx.rollback();
  });
}

async function blamesTheOptions(s: Scene, { key, owner, token }: Taken, transaction: object): Promise<void> {
  const request = { key, owner, token, leftMs: LONG_LEASE_MS };
  const found = await s.answer(
    `guard of ${show(key)}`,
    guardOf(s)(request, transaction).then(show, (error: unknown) => error),
  );
  assert.ok(
    isLockError(found, 'OPTIONS'),
    `Expected guard to reject with a LockOptionsError, found ${String(found)}.`,
  );
}
