import { expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();

const NAMES = [
  'with spaces, "quotes" and \'quotes\'',
  '🔒 night 👨‍👩‍👧',
  'two\nlines',
  '\u001b[31mred\u001b[0m\u0007',
  '\u009b31m and \u202e reversed',
  '-n',
  '--force',
  "'; drop table shedlock; --",
  'a\\nb',
  '%s %x $HOME $(id)',
  'x'.repeat(512),
];

/** What a terminal could obey. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const RAW = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

const run = (name: string, ...command: string[]): string[] => [
  ...['run', `--name=${name}`, '--at-most-for', '1m', '--at-least-for', '1m', '--'],
  ...command,
];

it('every name is one name, byte for byte, and never reaches a terminal raw', async () => {
  const command = [process.execPath, '-p', 'JSON.stringify(process.env.JOBLATCH_NAME)'];
  const firsts = await Promise.all(NAMES.map((name) => box().run(run(name, ...command))));
  expect(firsts.map(({ stdout }) => JSON.parse(stdout))).toEqual(NAMES);

  const listed = await box().run(['list']);
  const json = await box().run(['list', '--json']);
  for (const { stdout, stderr } of [listed, json]) expect(stdout + stderr).not.toMatch(RAW);
  expect(listed.stdout.trimEnd().split('\n')).toHaveLength(1 + NAMES.length);
  const keys = (JSON.parse(json.stdout) as { key: string }[]).map((record) => record.key);
  expect(keys.sort()).toEqual([...NAMES].sort());
});

it.each(['two\nlines', '\u001b[31mred\u001b[0m\u0007', '-n'])(
  'the name %j in every command',
  async (name) => {
    await box().ok(run(name, 'true'));
    const skipped = await box().run(run(name, 'true'));
    expect(skipped.stderr).toContain('skipped');
    const shown = await box().run(['show', '--', name]);
    const released = await box().run(['release', '--force', '--', name]);
    expect([shown.code, released.code]).toEqual([0, 0]);
    for (const { stdout, stderr } of [skipped, shown, released]) expect(stdout + stderr).not.toMatch(RAW);
  },
);

it('a name that is a part of a message is escaped too', async () => {
  const { code, stderr } = await box().run(['run', '--\u001b[31m', '-n', 'x', '--at-most-for', '1m', 'true']);
  expect(code).toBe(64);
  expect(stderr).toContain('\\e[31m');
  expect(stderr).not.toMatch(RAW);
});
