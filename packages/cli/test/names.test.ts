import { describe, expect, it } from 'vitest';
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

describe.each(NAMES.map((name) => [JSON.stringify(name).slice(0, 40), name] as const))(
  'the name %s',
  (_shown, name) => {
    it('is one name, byte for byte, and never reaches a terminal raw', async () => {
      const run = [`--name=${name}`, '--at-most-for', '1m', '--at-least-for', '1m', '--'];
      const command = [process.execPath, '-p', 'JSON.stringify(process.env.JOBLATCH_NAME)'];
      const first = await box().run(['run', ...run, ...command]);
      expect(JSON.parse(first.stdout)).toBe(name);
      const skipped = await box().run(['run', ...run, 'true']);
      expect(skipped.stderr).toContain('skipped');

      const listed = await box().run(['list']);
      const shown = await box().run(['show', '--', name]);
      const json = await box().run(['list', '--json']);
      expect(shown.code).toBe(0);
      for (const { stdout, stderr } of [skipped, listed, shown, json])
        expect(stdout + stderr).not.toMatch(RAW);
      expect(listed.stdout.trimEnd().split('\n')).toHaveLength(2);
      expect((JSON.parse(json.stdout) as { key: string }[]).map((record) => record.key)).toEqual([name]);

      const released = await box().run(['release', '--force', '--', name]);
      expect(released.code).toBe(0);
      expect(released.stdout).not.toMatch(RAW);
    });
  },
);

it('a name that is a part of a message is escaped too', async () => {
  const { code, stderr } = await box().run(['run', '--\u001b[31m', '-n', 'x', '--at-most-for', '1m', 'true']);
  expect(code).toBe(64);
  expect(stderr).toContain('\\e[31m');
  expect(stderr).not.toMatch(RAW);
});
