import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { describe, expect, it, test } from 'vitest';
import { readMysqlUrl } from '../src/stores/mysql-url.ts';
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

describe('mariadb:// and mysql://', () => {
  it('all of it', () => {
    expect(
      readMysqlUrl(
        'MariaDB://al%40x:p%3Aw@[::1]:3307/my%20db?table=T&schema=s&driver=mariadb&sessionTimeZone=+01:00',
        {},
      ),
    ).toEqual({
      server: 'mariadb',
      driver: 'mariadb',
      host: '::1',
      port: 3307,
      socket: undefined,
      user: 'al@x',
      password: 'p:w',
      database: 'my db',
      tls: undefined,
      table: { table: 'T', schema: 's' },
      zone: { sessionTimeZone: '+01:00' },
    });
    expect(readMysqlUrl('mysql:///db?socket=/run/mysqld/mysqld.sock', {})).toMatchObject({
      server: 'mysql',
      socket: '/run/mysqld/mysqld.sock',
      driver: undefined,
    });
    expect(readMysqlUrl('mysql://h?schema=s', {}).database).toBeUndefined();
    expect(readMysqlUrl('mysql://h/d?sessionTimeZone=%2B01:00', {}).zone).toEqual({
      sessionTimeZone: '+01:00',
    });
  });

  it('what is not said comes from the variables of its programs', () => {
    const env = { MYSQL_HOST: 'db', MYSQL_TCP_PORT: '3307', MYSQL_PWD: 'from env' };
    expect(readMysqlUrl('mysql:///d', env)).toMatchObject({ host: 'db', port: 3307, password: 'from env' });
    expect(readMysqlUrl('mysql://u:mine@h:1/d', env)).toMatchObject({ host: 'h', port: 1, password: 'mine' });
    expect(readMysqlUrl('mysql:///d', {})).toMatchObject({
      host: 'localhost',
      port: 3306,
      user: userInfo().username,
      password: undefined,
    });
    expect(() => readMysqlUrl('mysql:///d', { MYSQL_TCP_PORT: 'x' })).toThrow('MYSQL_TCP_PORT is "x"');
  });

  it('certificates are checked unless it is said that they are not', () => {
    const tls = (query: string) => readMysqlUrl(`mysql://h/d?${query}`, {}).tls;
    expect(tls('sslmode=disable')).toBeUndefined();
    expect(tls('sslmode=require')).toEqual({});
    expect(tls('sslmode=verify-ca')).toEqual({ checkServerIdentity: expect.any(Function) });
    expect(tls('sslmode=no-verify')).toEqual({ rejectUnauthorized: false });
  });

  test.each([
    ['mysql://h/d?sslmode=preferred', 'sslmode is "preferred". Accepted: disable, no-verify'],
    ['mysql://h/d?tabel=x', 'has the parameter "tabel". Accepted: table, schema'],
    ['mysql://h/d?driver=mysql', 'driver is "mysql". Accepted: mysql2, mariadb'],
    ["mysql://h/d?sessionTimeZone=here'", 'sessionTimeZone is "here'],
    ['mysql://a,b/d', 'has one host, and 2 were given'],
    ['mysql://h', 'one database after the host, and none was given'],
    ['mysql://h/a/b', 'one database after the host, and 2 were given'],
    ['mariadb:d', 'can not be read. Accepted: mariadb://USER@HOST:PORT/DATABASE'],
  ])('%s is refused', (url, said) => {
    expect(() => readMysqlUrl(url, {})).toThrow(said);
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
