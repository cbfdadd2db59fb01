import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'the job', '--at-most-for', '1m'];
const PRINT = ['--', process.execPath, '-p', 'JSON.stringify(process.env)'];

async function childEnvironment(
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Record<string, string>> {
  const { stdout } = await box().run([...RUN, ...args, ...PRINT], { env });
  return JSON.parse(stdout) as Record<string, string>;
}

describe('the command finds in its environment', () => {
  it('its name and its fencing token, which grows from run to run', async () => {
    const first = await childEnvironment();
    const second = await childEnvironment();
    expect(first.JOBLATCH_NAME).toBe('the job');
    expect(first).not.toHaveProperty('JOBLATCH_SLOT');
    expect(Number(second.JOBLATCH_FENCING_TOKEN)).toBeGreaterThan(Number(first.JOBLATCH_FENCING_TOKEN));
  });

  it('its slot, in epoch milliseconds', async () => {
    const { JOBLATCH_SLOT } = await childEnvironment(['--once-per', '1h']);
    expect(Number(JOBLATCH_SLOT) % 3_600_000).toBe(0);
    expect(Math.abs(Date.now() - Number(JOBLATCH_SLOT))).toBeLessThan(2 * 3_600_000);
  });

  it('no slot of a joblatch around it', async () => {
    expect(await childEnvironment([], { JOBLATCH_SLOT: '5' })).not.toHaveProperty('JOBLATCH_SLOT');
  });

  it('all that joblatch found, names that no shell allows included', async () => {
    const env = await childEnvironment([], { 'spring.datasource.url': 'x', 'A-B': 'two\nlines' });
    expect(env).toMatchObject({ 'spring.datasource.url': 'x', 'A-B': 'two\nlines' });
  });

  it('where the store is, but not its password', async () => {
    const env = await childEnvironment([], { JOBLATCH_STORE_PASSWORD: 'hunter2' });
    expect(env.JOBLATCH_STORE).toBe(box().store);
    expect(JSON.stringify(env)).not.toContain('hunter2');
  });

  it('the place of a password file, for a joblatch inside', async () => {
    writeFileSync(box().path('password'), 'hunter2\n');
    const env = await childEnvironment([], { JOBLATCH_STORE_PASSWORD_FILE: box().path('password') });
    expect(env.JOBLATCH_STORE_PASSWORD_FILE).toBe(box().path('password'));
    expect(JSON.stringify(env)).not.toContain('hunter2');
  });
});
