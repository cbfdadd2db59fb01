// A holder in a process of its own, which its parent stops and continues: node guard-worker.js MODULE.

import { guard, hold, outcomeOf } from './guard-round.js';

const database = await (await import(process.argv[2])).open();
const provider = await database.openProvider();
let round;

const commands = {
  /** Takes the key, begins, reads. */
  async begin({ key, isolation }) {
    const holding = await hold(provider, key);
    const tx = await database.begin(isolation);
    round = { holding, tx, read: await tx.read(key) };
    return { read: round.read };
  },
  /** Writes what follows from what it read, and commits if the guard lets it. */
  async end({ mode, first }) {
    const { holding, tx, read } = round;
    const outcome = await outcomeOf(database, tx, async () => {
      const isGuarded = async () => mode === 'unguarded' || (await guard(provider, holding, tx));
      if (first && !(await isGuarded())) return false;
      await tx.write(holding.key, read + 1);
      return first || (await isGuarded());
    });
    await provider.release(holding);
    return { outcome };
  },
};

process.on('disconnect', () => process.exit());
process.on('message', async ({ name, args }) => {
  try {
    process.send({ answer: await commands[name](args) });
  } catch (error) {
    process.send({ error: error.stack });
  }
});
process.send({ answer: 'ready' });
