import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { JOBLATCH, sandboxes } from './sandbox.ts';

const box = sandboxes();
const page = readFileSync(new URL('../../../docs/cli.md', import.meta.url), 'utf8');

describe('docs/cli.md', () => {
  const snippets = [...page.matchAll(/```sh\n(.*?)```\n\n```text\n(.*?)```/gs)].map(
    ([, code, output]) => [code, output] as [string, string],
  );

  it('has snippets, each with what it prints', () => {
    expect(snippets.length).toBeGreaterThan(0);
    expect(page.match(/^```sh$/gm)).toHaveLength(snippets.length);
  });

  it.each(snippets)('%s', async (code, output) => {
    mkdirSync(box().path('bin'));
    symlinkSync(JOBLATCH, box().path('bin/joblatch'));
    const { stdout } = await promisify(execFile)('sh', ['-c', code], {
      cwd: box().folder,
      env: {
        JOBLATCH_STORE: box().store,
        // The Node of this test, whatever else the machine has.
        PATH: `${box().path('bin')}:${dirname(process.execPath)}:/usr/bin:/bin`,
      },
    });
    expect(stdout).toBe(output);
  });

  it('names every option and every command that the help names', async () => {
    const help = await box().run(['--help']);
    const section = /^Commands:\n(.*?)\n\n/ms.exec(help.stdout)?.[1] ?? '';
    const commands = [...section.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name as string);
    expect(commands).toEqual(['run', 'list', 'show', 'watch', 'release', 'purge', 'migrate', 'doctor']);
    for (const command of commands) {
      const { stdout } = await box().run([command, '--help']);
      const options = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag as string);
      expect(options).toContain('--store');
      for (const flag of options.filter((name) => name !== '--help')) expect(page, command).toContain(flag);
    }
  });
});
