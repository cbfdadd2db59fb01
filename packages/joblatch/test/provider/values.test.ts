import { checkKey, isLockError, LockOptionsError, parseDuration } from 'joblatch';
import { describe, expect, test } from 'vitest';

describe('durations', () => {
  test.each([
    [250, 250],
    [0.2, 1],
    ['250ms', 250],
    ['90s', 90_000],
    ['1h30m', 5_400_000],
    ['1h 30m', 5_400_000],
    [' 2d ', 172_800_000],
    ['1.5s', 1_500],
    ['2w', 1_209_600_000],
    ['PT1H30M', 5_400_000],
    ['PT0.25S', 250],
    ['P1DT2H', 93_600_000],
    ['P1W', 604_800_000],
  ])('%j is %d ms', (value, ms) => {
    expect(parseDuration(value, 'x')).toBe(ms);
  });

  test.each([
    0,
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    10 ** 15,
    '',
    ' ',
    'P',
    'PT',
    'P1Y',
    '10',
    '5 minutes',
    '-5s',
    '1e3s',
    '30m1',
    null,
    undefined,
    {},
    [5],
    5n,
    true,
    Symbol('s'),
  ])('number %# is refused, with what was found and what is accepted', (value) => {
    expect(() => parseDuration(value, 'the lease')).toThrow(LockOptionsError);
    expect(() => parseDuration(value, 'the lease')).toThrow(
      /^the lease is .+\. Accepted: .* from 1ms to ten years\.$/,
    );
  });

  test('0 where it means "none"', () => {
    expect(parseDuration(0, 'x', { min: 0 })).toBe(0);
    expect(parseDuration('0s', 'x', { min: 0 })).toBe(0);
  });
});

describe('keys', () => {
  test.each(['k', ' ', 'K ', 'é', 'e\u0301', '😀', "'; drop table shedlock --", 'a\nb', '{a}:%*?[x]\\'])(
    '%j is kept as it is',
    (key) => {
      expect(checkKey(key)).toBe(key);
    },
  );

  test.each([
    '',
    'a\0',
    '\ud800',
    'x'.repeat(513),
    '😀'.repeat(513),
    'x'.repeat(10_000_000),
    7,
    null,
    undefined,
    {},
    Symbol('s'),
  ])('number %# is refused', (key) => {
    expect(() => checkKey(key)).toThrow(LockOptionsError);
  });
});

test('errors of another copy of the package are recognised', async () => {
  const copy = (await import(`${new URL('../../dist/provider/errors.js', import.meta.url).href}?copy`)) as {
    LockStoreError: new (message: string, options: { operation: 'acquire' }) => Error;
  };
  const error = new copy.LockStoreError('away', { operation: 'acquire' });
  expect(error).not.toBeInstanceOf((await import('joblatch')).LockStoreError);
  expect(isLockError(error)).toBe(true);
  expect(isLockError(error, 'STORE')).toBe(true);
  expect(isLockError(error, 'LOST')).toBe(false);
  expect(isLockError(new Error('no'))).toBe(false);
  expect(isLockError(undefined)).toBe(false);
});
