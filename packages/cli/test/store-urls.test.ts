import { writeFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import { readPostgresUrl } from '../src/stores/postgres-url.ts';
import { readRedisUrl } from '../src/stores/redis-url.ts';
import { sandboxes } from './sandbox.ts';

const box = sandboxes();

describe('postgres://', () => {
  it('what psql knows', () => {
    expect(
      readPostgresUrl('PostgreSQL://al%40x:p%3Aw@[::1]:5433/my%20db?table=T&schema=s&options=-c%20a%3Db'),
    ).toEqual({
      client: {
        host: '::1',
        port: 5433,
        user: 'al@x',
        password: 'p:w',
        database: 'my db',
        options: '-c a=b',
        application_name: 'joblatch',
      },
      table: { table: 'T', schema: 's' },
      encrypted: undefined,
    });
    expect(readPostgresUrl('postgres:///db?host=/run/postgresql').client).toMatchObject({
      host: '/run/postgresql',
    });
    expect(readPostgresUrl('postgres://h').client).not.toHaveProperty('database');
  });

  it('certificates are checked unless it is said that they are not', () => {
    writeFileSync(box().path('ca.pem'), 'the authority');
    const ca = encodeURIComponent(box().path('ca.pem'));
    const ssl = (query: string) => readPostgresUrl(`postgres://h/d?${query}`).client.ssl;
    expect(ssl('sslmode=disable')).toBe(false);
    for (const mode of ['require', 'verify-full']) expect(ssl(`sslmode=${mode}`)).toEqual({});
    expect(ssl(`sslrootcert=${ca}`)).toEqual({ ca: 'the authority' });
    expect(ssl(`sslmode=verify-ca&sslrootcert=${ca}`)).toEqual({
      ca: 'the authority',
      checkServerIdentity: expect.any(Function),
    });
    expect(ssl('sslmode=no-verify')).toEqual({ rejectUnauthorized: false });
  });

  test.each([
    ['postgres://h/d?sslmode=prefer', 'sslmode is "prefer". Accepted: disable, no-verify'],
    [
      'postgres://h/d?sslrootcert=/no/such/file',
      'sslrootcert names "/no/such/file", which can not be read (ENOENT)',
    ],
    ['postgres://h/d?tabel=x', 'has the parameter "tabel". Accepted: table, schema'],
    ['postgres://h/d?table=x&table=y', 'the parameter table twice'],
    ['postgres://h/d?table=', 'the parameter table without a value'],
    ['postgres://a,b/d', 'has one host, and 2 were given'],
    ['postgres://h/a/b', 'one database'],
    ['postgres://h:99999/d', 'a host that can not be read'],
    ['postgres:d', 'can not be read. Accepted: postgres://USER@HOST:PORT/DATABASE'],
  ])('%s is refused', (url, said) => {
    expect(() => readPostgresUrl(url)).toThrow(said);
  });
});

describe('redis://', () => {
  it('one server', () => {
    expect(readRedisUrl('redis://:p%40w@h/3?env=prod&prefix=locks')).toEqual({
      mode: 'single',
      hosts: [{ host: 'h', port: 6379 }],
      user: undefined,
      password: 'p@w',
      db: 3,
      primary: undefined,
      sentinelAuth: false,
      tls: undefined,
      names: { environment: 'prod', keyPrefix: 'locks' },
    });
    expect(readRedisUrl('redis://').hosts).toEqual([{ host: '127.0.0.1', port: 6379 }]);
  });

  it('Sentinel and Cluster', () => {
    expect(readRedisUrl('redis+sentinel://a,b:1/main?db=2&sentinelAuth=same')).toMatchObject({
      mode: 'sentinel',
      hosts: [
        { host: 'a', port: 26379 },
        { host: 'b', port: 1 },
      ],
      primary: 'main',
      db: 2,
      sentinelAuth: true,
    });
    expect(readRedisUrl('rediss+cluster://a,[::2]:7')).toMatchObject({
      mode: 'cluster',
      hosts: [
        { host: 'a', port: 6379 },
        { host: '::2', port: 7 },
      ],
      tls: {},
    });
  });

  it('certificates are checked unless it is said that they are not', () => {
    writeFileSync(box().path('ca.pem'), 'the authority');
    expect(readRedisUrl('rediss://h').tls).toEqual({});
    expect(
      readRedisUrl(`rediss://h?ca=${encodeURIComponent(box().path('ca.pem'))}&servername=s`).tls,
    ).toEqual({
      ca: 'the authority',
      servername: 's',
    });
    expect(readRedisUrl('rediss://h?rejectUnauthorized=false').tls).toEqual({ rejectUnauthorized: false });
  });

  test.each([
    ['rediss://h?rejectUnauthorized=no', 'Accepted: rejectUnauthorized=false, or nothing'],
    ['redis://h?ca=x', 'has the parameter "ca". Accepted: env, prefix.'],
    ['redis://h/zero', 'The database of Redis is "zero"'],
    ['redis://a,b', 'has one host, and 2 were given'],
    ['redis+sentinel://a,b', 'names no primary'],
    ['redis+cluster://a/0', 'nothing after its hosts'],
    ['redis+cluster://', 'has no host'],
    ['redis:h', 'can not be read'],
  ])('%s is refused', (url, said) => {
    expect(() => readRedisUrl(url)).toThrow(said);
  });
});
