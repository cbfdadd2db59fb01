import { describe, expect, it } from 'vitest';
import { formatDuration, formatOwner, formatRelative } from '../src/format.ts';
import { printable, printableJson } from '../src/printable.ts';
import { hideSecret, passwordIn, redact } from '../src/redact.ts';
import { storeUrl, withoutPasswords, withPassword } from '../src/store-url.ts';
import { sqlitePath } from '../src/stores/sqlite.ts';
import { compare } from '../src/watch-lines.ts';

describe('redact', () => {
  it.each([
    ['redis://user:secret@host/0', 'redis://***@host/0'],
    ['postgres://u:s3cr@t/x@host/db failed', 'postgres://***@host/db failed'],
    [
      'at postgres://h/d?sslmode=require&password=secret&x=1',
      'at postgres://h/d?sslmode=require&password=***&x=1',
    ],
    ['sqlite:/a/b@c.db', 'sqlite:/a/b@c.db'],
    ['mail me@example.org', 'mail me@example.org'],
  ])('%s', (text, expected) => {
    expect(redact(text)).toBe(expected);
  });

  it('hides what it was told to, plain and escaped', () => {
    hideSecret('pa ss/w%rd');
    hideSecret('enc%40ded');
    expect(redact('pa ss/w%rd pa%20ss%2Fw%25rd enc%40ded enc@ded')).toBe('*** *** *** ***');
  });

  it('finds the password of a URL', () => {
    expect(passwordIn('redis://:p@host')).toBe('p');
    expect(passwordIn('redis://u:p:q@r@host')).toBe('p:q@r');
    expect(passwordIn('redis://u@host')).toBeUndefined();
    expect(passwordIn('sqlite:/a:b@c')).toBeUndefined();
  });
});

describe('the store’s URL', () => {
  it('gets its password from the environment, unless it has one', () => {
    const env = { JOBLATCH_STORE: 'redis://u@host/0', JOBLATCH_STORE_PASSWORD: 'a b@c' };
    expect(storeUrl(undefined, env)).toBe('redis://u:a%20b%40c@host/0');
    expect(storeUrl('redis://u:mine@host', env)).toBe('redis://u:mine@host');
    expect(storeUrl('sqlite:///a/b', env)).toBe('sqlite:///a/b');
    expect(storeUrl('sqlite:a.db', env)).toBe('sqlite:a.db');
    expect(withPassword('postgres://host:5432/db', 'x')).toBe('postgres://:x@host:5432/db');
  });

  it('is taken from --store before the environment; an empty variable is none', () => {
    expect(storeUrl('a.db', { JOBLATCH_STORE: 'b.db' })).toBe('a.db');
    expect(storeUrl(undefined, { JOBLATCH_STORE: '', JOBLATCH_STORE_FILE: '' })).toBeUndefined();
  });

  it('goes to the command without its password', () => {
    const env = { JOBLATCH_STORE: 'redis://u:secret@h', JOBLATCH_STORE_PASSWORD: 'x', PATH: '/bin' };
    expect(withoutPasswords(env)).toEqual({ JOBLATCH_STORE: 'redis://u@h', PATH: '/bin' });
    expect(withoutPasswords({ JOBLATCH_STORE: 'redis://h' })).toEqual({ JOBLATCH_STORE: 'redis://h' });
  });

  it('names a file', () => {
    expect(sqlitePath('sqlite:/a/b')).toBe('/a/b');
    expect(sqlitePath('SQLITE:/a/b%20c?d')).toBe('/a/b%20c?d');
    expect(sqlitePath('sqlite:///a/b%20c')).toBe('/a/b c');
    expect(() => sqlitePath('sqlite:///a?mode=ro')).toThrow('three slashes');
  });
});

describe('printable', () => {
  it('is one-to-one and leaves nothing that a terminal obeys', () => {
    expect(printable('a\nb\\n\u001b[1m\u009b\u202e👨‍👩‍👧é')).toBe('a\\nb\\\\n\\e[1m\\u{9b}\\u{202e}👨‍👩‍👧é');
  });

  it('JSON stays the same value', () => {
    const value = { key: '\u009b\u2028\u202e\n👍' };
    expect(printableJson(value)).toBe('{"key":"\\u009b\\u2028\\u202e\\n👍"}');
    expect(JSON.parse(printableJson(value))).toEqual(value);
  });
});

describe('format', () => {
  it.each([
    [0, '0ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [61_000, '1m 1s'],
    [3_600_000, '1h'],
    [90_061_000, '1d 1h'],
  ])('%i ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it('says when', () => {
    expect([formatRelative(0), formatRelative(5_000), formatRelative(-5_000)]).toEqual([
      'now',
      'in 5s',
      '5s ago',
    ]);
  });

  it('says who: host and process of a joblatch, anyone else as they call themselves', () => {
    expect(formatOwner('web:3:4711:z23jhtt7rhg0g6bm1gl4')).toBe('web:3, process 4711');
    expect(formatOwner('java-host\u001b')).toBe('java-host\\e');
    expect(formatOwner(undefined)).toBeUndefined();
  });
});

describe('what has changed', () => {
  it('is not a renewal, nor the passing of time', () => {
    const held = { key: 'a', state: 'held', owner: 'o', token: 1, leftMs: 500 } as const;
    const last = new Map([['a', held]]);
    expect(compare(last, [{ ...held, leftMs: 30_000, acquiredAgoMs: 9 }])).toEqual([]);
    expect(compare(last, [{ ...held, token: 2 }]).map((change) => change.event)).toEqual(['held']);
    expect(compare(last, []).map((change) => change.event)).toEqual(['gone']);
  });
});
