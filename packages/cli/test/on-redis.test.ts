import { expect, it } from 'vitest';
import { sandboxes } from './sandbox.ts';
import { describeOn } from './servers.ts';
import { promisesOn } from './store-suite.ts';

promisesOn('redis');

describeOn('redis', 'its URL', (server) => {
  const box = sandboxes(server.fresh);

  it('a database that is not there is 69, and not database 0', async () => {
    const store = server.url.replace(/\/*$/, '/9999');
    const { code, stderr } = await box().run(['list', '-s', store]);
    expect(code).toBe(69);
    expect(stderr).toContain('DB index is out of range');
  });

  it('there is nothing to migrate', async () => {
    expect(await box().run(['migrate'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('nothing to migrate'),
    });
  });
});
