import { parseArgs } from 'node:util';

export const GROUPS = ['ioredis', 'node-redis', 'pg', 'sqlite'];
export const ROWS = ['take', 'lose'];

/** The options of `npm run bench`. */
export function readOptions(args) {
  const { values } = parseArgs({
    args,
    allowNegative: true,
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      build: { type: 'boolean', default: true },
      only: { type: 'string', default: GROUPS.join() },
      row: { type: 'string', default: ROWS.join() },
      slice: { type: 'string' },
      rounds: { type: 'string' },
      profile: { type: 'string' },
    },
  });
  const { quick } = values;
  return {
    ...values,
    only: someOf('only', values.only, GROUPS),
    row: someOf('row', values.row, ROWS),
    sliceMs: Number(values.slice ?? (quick ? 10 : 100)),
    rounds: Number(values.rounds ?? (quick ? 3 : 21)),
    warmUpRounds: quick ? 0 : 1,
    warmUp: quick ? { operations: 200, atMostMs: 200 } : { operations: 10_000, atMostMs: 4_000 },
    /** Operations by which bytes and commands are counted. */
    counted: quick ? { take: 100, lose: 500 } : { take: 2_000, lose: 10_000 },
  };
}

function someOf(option, value, known) {
  const names = value.split(',');
  for (const name of names)
    if (!known.includes(name)) throw new Error(`--${option} ${name}: known are ${known.join(', ')}`);
  return names;
}
