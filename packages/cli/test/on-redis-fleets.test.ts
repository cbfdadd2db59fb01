import { writeFileSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { noRedisNodes, RedisNodes } from '../../joblatch/test/support/redis-nodes.ts';
import { RedisSentinels } from '../../joblatch/test/support/redis-sentinels.ts';
import { describeWithOwnRedis } from '../../joblatch/test/support/redis-servers.ts';
import { sandboxes } from './sandbox.ts';

const RUN = ['run', '-q', '-n', 'job', '--at-most-for', '1m', '--skip-exit-code', '9'];
const ECHO = ['--', 'echo', 'ran'];
/** Tells its token, and ends when a file is there. */
const UNTIL_TOLD = [
  '--',
  'sh',
  '-c',
  'echo $JOBLATCH_FENCING_TOKEN > token; until [ -e end ]; do sleep 0.05; done',
];

describeWithOwnRedis('redis+sentinel://', () => {
  let fleet: RedisSentinels;
  const box = sandboxes(async () => fleet.url);
  beforeAll(async () => {
    fleet = await RedisSentinels.start();
  }, 60_000);

  it('runs and skips, and doctor tells of the primary', async () => {
    expect(await box().run([...RUN, '--once-per', '31d', ...ECHO])).toMatchObject({
      code: 0,
      stdout: 'ran\n',
    });
    expect(await box().run([...RUN, '--once-per', '31d', ...ECHO])).toMatchObject({ code: 9, stdout: '' });
    const { code, stdout } = await box().run(['doctor']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ok +role +primary$/m);
    expect(stdout).toMatch(/^warning +replication +2 replicas, always asynchronous$/m);
  });

  it('a name that the Sentinels do not know is 69 within seconds, and says so', async () => {
    const store = fleet.url.replace(/\/main$/, '/other');
    const { code, stdout, stderr } = await box().run([...RUN, '-s', store, ...ECHO]);
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' });
    expect(stderr).toContain('No such master with that name');
  });

  it('the primary is killed while a command runs: it ends well, nobody else ran, and the next token is greater', async () => {
    const holder = box().start([...RUN, '--keep-alive', ...UNTIL_TOLD]);
    const token = Number(await box().line('token'));
    await fleet.primary.kill();
    await fleet.successor();
    expect(await box().run([...RUN, '--wait', '5s', ...ECHO])).toMatchObject({ code: 9, stdout: '' });
    writeFileSync(box().path('end'), '');
    expect(await holder.done).toMatchObject({ code: 0, stderr: '' });
    const next = await box().run([...RUN, '--', 'sh', '-c', 'echo $JOBLATCH_FENCING_TOKEN']);
    expect(next).toMatchObject({ code: 0, stderr: '' });
    expect(Number(next.stdout)).toBeGreaterThan(token);
  });
});

describeWithOwnRedis(
  'redis+cluster://',
  () => {
    let cluster: RedisNodes;
    const box = sandboxes(async () => {
      const hosts = cluster.nodes.slice(0, 2).map(({ port }) => `127.0.0.1:${port}`);
      return `redis+cluster://${hosts.join(',')}`;
    });
    beforeAll(async () => {
      cluster = await RedisNodes.start();
    });

    it('names on every node: run, skip, list, release and purge', async () => {
      const names = ['a', 'b', 'c', 'd', 'e', '{f}g', '{}'];
      await Promise.all(
        names.map((name) => box().ok([...RUN, '-n', name, '--at-least-for', '1m', '--', 'true'])),
      );
      expect((await box().run([...RUN, '-n', 'a', ...ECHO])).code).toBe(9);
      const listed = await box().ask<{ key: string; state: string }[]>('list');
      expect(listed.map(({ key, state }) => `${key} ${state}`)).toEqual(
        [...names].sort().map((name) => `${name} kept`),
      );
      await Promise.all(names.map((name) => box().ok(['release', name, '--force'])));
      expect(await box().ask('purge', '--older-than', '1ms')).toEqual({ purged: names.length });
    });

    it('doctor tells each thing once, of all three', async () => {
      const { code, stdout } = await box().run(['doctor']);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^ok +role +all 3: primary, in a cluster$/m);
      expect(stdout).toMatch(/^warning +persistence +all 3: nothing is on disk$/m);
      expect(stdout.match(/^(ok|warning) +persistence/gm)).toHaveLength(1);
      expect(stdout.match(/^ok +rights/gm)).toHaveLength(1);
    });

    it('a member that is named as if it were alone is an error of doctor', async () => {
      const { code, stdout } = await box().run(['doctor', '-s', cluster.url]);
      expect(code).toBe(1);
      expect(stdout).toMatch(/^error +role +a member of a cluster$/m);
    });
  },
  noRedisNodes,
);
