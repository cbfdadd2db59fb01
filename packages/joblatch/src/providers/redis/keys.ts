import { checkKey } from '../../provider/values.js';

/** The two keys of one lock, as they are handed to the client (which may put a prefix of its own in front). */
export interface LockKeys {
  /** The lock itself, where ShedLock has it: there is a value as long as it can not be taken. */
  readonly lock: string;
  /** What is remembered of it: last token, acquisition, slot. In the same hash slot of a cluster. */
  readonly record: string;
  /** That hash slot. */
  readonly hashSlot: number;
}

/** What stands in front of the name of a lock. */
export interface KeyNames {
  readonly keyPrefix: string;
  readonly environment: string;
}

/** Stands before what makes the hash slot right; no name is cut by it, since the length after it is fixed. */
const FIX_MARK = '~';
const FIX_LENGTH = 3;
const FIX_DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_';

const HASH_SLOTS = 16_384;

/** CRC-16/XMODEM, as Redis Cluster has it. */
const CRC_TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

function crc16(bytes: Uint8Array, start = 0): number {
  let crc = start;
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ (CRC_TABLE[(crc >> 8) ^ byte] as number);
  return crc;
}

const OPEN = 0x7b;
const CLOSE = 0x7d;

/** What of a key is hashed: between the first `{` and the first `}` after it, if there is anything; else all. */
function hashed(key: Buffer): Buffer {
  const open = key.indexOf(OPEN);
  const close = open < 0 ? -1 : key.indexOf(CLOSE, open + 1);
  return close > open + 1 ? key.subarray(open + 1, close) : key;
}

/** As `CLUSTER KEYSLOT` answers it. */
export function hashSlotOf(key: string): number {
  return crc16(hashed(Buffer.from(key))) % HASH_SLOTS;
}

/**
 * Three characters for each hash slot, by which a key moves there.
 *
 * A CRC is linear: what three more bytes do to it does not depend on what stands before them. So one table, of
 * what each three characters do to nothing, serves every key.
 */
let fixes: string[] | undefined;

function fixFor(difference: number): string {
  if (fixes === undefined) {
    fixes = new Array<string>(HASH_SLOTS);
    for (const a of FIX_DIGITS)
      for (const b of FIX_DIGITS)
        for (const c of FIX_DIGITS) fixes[crc16(Buffer.from(a + b + c)) % HASH_SLOTS] ??= a + b + c;
  }
  return fixes[difference] as string;
}

/**
 * A key that is in the hash slot of another one, whatever braces that has and whatever the client puts in front of
 * both: the companion itself, or with an end that leads there.
 *
 * @param companion differs from the key only in what stands in front of its hash tag or after it, and not in braces
 */
export function besideKey(
  clientPrefix: string,
  key: string,
  companion: string,
): { readonly companion: string; readonly hashSlot: number } {
  const full = Buffer.from(clientPrefix + key);
  const subject = hashed(full);
  const hashSlot = crc16(subject) % HASH_SLOTS;
  // Both have the same tag.
  if (subject !== full) return { companion, hashSlot };
  const unfixed = crc16(Buffer.from(clientPrefix + companion + FIX_MARK));
  const moved = crc16(new Uint8Array(FIX_LENGTH), unfixed) % HASH_SLOTS;
  return { companion: companion + FIX_MARK + fixFor(hashSlot ^ moved), hashSlot };
}

/** Names whose keys are remembered: to take a lock asks for them, and to renew and to give it back. */
const KNOWN_MAX = 10_000;

/**
 * Where the locks of one provider live: `<prefix>:<environment>:<name>`, ShedLock's layout, and the record of
 * each at `<prefix>-record:<environment>:<name>`.
 *
 * In a cluster a script may only touch keys of one hash slot. The rule that keeps the two together, whatever
 * braces the name contains:
 *
 * - *The key of the lock has a hash tag.* Then the record's key has the same one, since the two differ only
 *   in front of the braces.
 * - *It has none* (no braces, `{` that is never closed, `{}` first): then the whole of it is hashed, and so is
 *   the whole of the record's key, which ends with `~` and three characters that lead to the slot of the lock.
 *
 * Names stay apart: a key without a tag and one with a tag do not become the same, and the end has one length.
 *
 * (One record for all names of a hash slot was considered, found by a table of 16,384 tags, so that nothing is
 * left behind however many names there are. But a token that a quorum raised for one name would raise
 * those of thousands of others, a deleted lock would leave its traces, and every lock of a slot would write the
 * same key. Records that expire after an idle day leave nothing behind either. What a counter that is never
 * lost would do, the clock does: a token is at least the server's time in microseconds, so tokens also
 * grow after FLUSHALL, and after a restart without data.)
 */
export class KeySpace {
  /** What the client puts in front of our keys by itself. */
  readonly clientPrefix: string;
  readonly #names: KeyNames;
  readonly #locks: string;
  readonly #records: string;
  readonly #known = new Map<string, LockKeys>();

  constructor(clientPrefix: string, names: KeyNames) {
    const { keyPrefix, environment } = names;
    this.clientPrefix = clientPrefix;
    this.#names = names;
    this.#locks = `${keyPrefix}:${environment}:`;
    this.#records = `${keyPrefix}-record:${environment}:`;
  }

  keysOf(name: string): LockKeys {
    let keys = this.#known.get(name);
    if (keys === undefined) {
      keys = this.#find(name);
      // Rather all than the oldest: what is still in use is soon here again.
      if (this.#known.size === KNOWN_MAX) this.#known.clear();
      this.#known.set(name, keys);
    }
    return keys;
  }

  #find(name: string): LockKeys {
    const lock = this.#locks + name;
    const { companion, hashSlot } = besideKey(this.clientPrefix, lock, this.#records + name);
    return { lock, record: companion, hashSlot };
  }

  /** The pattern for SCAN, which no client prefixes, that finds all locks and records (and perhaps others). */
  pattern(): string {
    const { keyPrefix, environment } = this.#names;
    return `${escapeGlob(this.clientPrefix + keyPrefix)}*${escapeGlob(`:${environment}:`)}*`;
  }

  /** The name of the lock whose lock or record a key of the server is; undefined if it is neither. */
  nameOf(serverKey: string): string | undefined {
    if (!serverKey.startsWith(this.clientPrefix)) return undefined;
    const key = serverKey.slice(this.clientPrefix.length);
    const head = [this.#locks, this.#records].find((start) => key.startsWith(start));
    if (head === undefined) return undefined;
    const rest = key.slice(head.length);
    const candidates = head === this.#locks ? [rest] : [rest, rest.slice(0, -1 - FIX_LENGTH)];
    // Whose keys are just so: nobody else's key under our prefix is taken for one of ours.
    return candidates.find((name) => {
      if (!isName(name)) return false;
      const { lock, record } = this.#find(name);
      return key === lock || key === record;
    });
  }
}

function isName(name: string): boolean {
  try {
    checkKey(name);
    return true;
  } catch {
    return false;
  }
}

function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&');
}
