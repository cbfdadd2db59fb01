import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { JOBLATCH, sandboxes } from './sandbox.ts';

const box = sandboxes();
const RUN = ['run', '-n', 'job', '--at-most-for', '1m'];

describe('stdin and stdout belong to the command', () => {
  it('bytes go through as they are', async () => {
    const input = randomBytes(1 << 20);
    const { code, bytes, stderr } = await box().run([...RUN, '--', 'cat'], { input });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(sha(bytes)).toBe(sha(input));
  });

  it('a closed stdout ends the command as it would without joblatch', async () => {
    const line = `"${process.execPath}" "${JOBLATCH}" ${RUN.join(' ')} -- yes | head -1; echo done`;
    const child = spawn('sh', ['-c', line], { env: { ...process.env, JOBLATCH_STORE: box().store } });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    await new Promise((resolve) => child.on('close', resolve));
    expect(Buffer.concat(chunks).toString()).toBe('y\ndone\n');
  });

  it.runIf(process.platform === 'linux')('a pipe is not made non-blocking under the command', async () => {
    const read = 'grep flags /proc/self/fdinfo/1';
    const line = `"${process.execPath}" "${JOBLATCH}" ${RUN.join(' ')} --report fd:2 -- ${read} 2>&1 | cat`;
    const child = spawn('sh', ['-c', line], { env: { ...process.env, JOBLATCH_STORE: box().store } });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    await new Promise((resolve) => child.on('close', resolve));
    const flags = /^flags:\s+(\d+)$/m.exec(Buffer.concat(chunks).toString())?.[1];
    expect(Number.parseInt(flags ?? '', 8) & 0o4000).toBe(0);
  });

  it('notices go to stderr, and --quiet leaves them out', async () => {
    await box().run([...RUN, '--at-least-for', '1m', '--', 'true']);
    const loud = await box().run([...RUN, '--', 'true']);
    const quiet = await box().run([...RUN, '--quiet', '--', 'true']);
    expect(loud).toMatchObject({ stdout: '', stderr: expect.stringMatching(/^joblatch: skipped.*\n$/) });
    expect(quiet).toMatchObject({ stdout: '', stderr: '' });
  });

  it('an empty environment is enough', async () => {
    const child = spawn(process.execPath, [JOBLATCH, ...RUN, '-s', box().store, '--', 'pwd'], {
      env: {},
      cwd: '/',
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    await new Promise((resolve) => child.on('close', resolve));
    expect(Buffer.concat(chunks).toString()).toBe('/\n');
  });
});

function sha(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}
