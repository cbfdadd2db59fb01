import { createHash } from 'node:crypto';
import { SLOT_AHEAD_MS, SLOT_MEMORY_MS } from '../../provider/lock-provider.js';

/**
 * The scripts. Each is one atomic step of the server, gets text and answers one text: what a client does to
 * numbers, lists or maps (RESP 3, type mappings, decoders) can not touch it. They name no key but those that they
 * are given, so a prefix that the client puts in front of these is seen by everybody.
 *
 * The lock is a text at KEYS[1]: the owner, or `~` and the owner of a record that is only kept. Its life is that
 * of the grant, so "live" is what Redis itself says of the key, and ShedLock sees what it expects. The rest is the
 * record, at KEYS[2].
 *
 * Time is the server's: TIME in the script, and its own clock for what expires. Writing after TIME needs Redis 5,
 * which replicates what a script did and not the script; replicas and the append-only file get instants.
 */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

/** How long a record outlives its lock: a clock that is set back by less makes no token smaller. */
const IDLE_MS = 24 * 3_600_000;
/** A slot is remembered a little longer than it could be asked for, as TIME and expiry read the clock one by one. */
const SLOT_KEPT_MS = SLOT_MEMORY_MS + 60_000;

/** Marks what is only kept: no owner id has this character, so it is nobody's any more. */
export const KEPT_MARK = '~';

/**
 * The record: last token, acquisition and end in epoch milliseconds, last slot or `-`, the call that wrote it
 * last, and the owner.
 *
 * Numbers are written by %.0f: Lua would write a token of 16 digits as 1.764e+15, and %d is not wide enough everywhere.
 */
export interface StoredRecord {
  readonly token: number;
  readonly acquiredAt: number;
  readonly endsAt: number;
  readonly slot: number | undefined;
  readonly owner: string;
}

const RECORD = `
local function int(n) return string.format('%.0f', n) end
local function clock()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return us, math.floor(us / 1000)
end
local function read(text)
  if type(text) ~= 'string' then return {} end
  local token, at, till, slot, call, owner = string.match(text, '^(%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  if not token then return {} end
  return {token = tonumber(token), at = tonumber(at), till = tonumber(till), slot = tonumber(slot), call = call, owner = owner}
end
local function write(key, r, now)
  -- A token that was raised ahead of the clock is kept until the clock has passed it.
  local keep = math.max(now, r.till, r.token / 1000) + ${IDLE_MS}
  if r.slot then keep = math.max(keep, r.slot + ${SLOT_KEPT_MS}) end
  local text = string.format('%.0f %.0f %.0f %s %s %s', r.token, r.at, r.till, r.slot and int(r.slot) or '-', r.call, r.owner)
  redis.call('SET', key, text, 'PX', int(keep - now))
end
`;

/** @param first what needs nothing of the above, and may have decided already */
function script(body: string, first = ''): Script {
  return scriptOf(first + RECORD + body);
}

function scriptOf(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/** Losing is the common case: nothing more is read, and nothing is written. */
const LOSE = `
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] and not ARGV[4] then return 'held ' .. redis.call('PTTL', KEYS[1]) end
`;

/**
 * ARGV: owner, lease, call; and if any of them is there: slot, period, claim, least token (absent numbers are '').
 * Answers `ok <token> <left> <slot>`, `held <left>` or `slot <left>`.
 */
export const ACQUIRE: Script = script(
  `
local owner, lease, call, slot, period, claim, least = unpack(ARGV)
slot, period = tonumber(slot), tonumber(period)
local last = read(redis.call('GET', KEYS[2]))
local us, now = clock()

-- A client that lost the connection before the answer sends the same call again: it is granted already. (The same
-- owner in another call is refused like everybody.)
local again = held == owner and last.owner == owner and last.call == call
if period then
  local from = again and last.at or now
  slot = from - from % period
end
if again then return 'ok ' .. int(last.token) .. ' ' .. int(redis.call('PTTL', KEYS[1])) .. ' ' .. (slot and int(slot) or '-') end

if slot and (slot <= now - ${SLOT_MEMORY_MS} or slot > now + ${SLOT_AHEAD_MS} or last.slot and slot <= last.slot) then
  return 'slot ' .. (held and int(redis.call('PTTL', KEYS[1])) or '-')
end
if held then return 'held ' .. int(redis.call('PTTL', KEYS[1])) end

local token = math.max((last.token or 0) + 1, us, tonumber(least) or 0)
redis.call('SET', KEYS[1], owner, 'PX', lease)
write(KEYS[2], {token = token, at = now, till = now + lease, slot = claim ~= 'release' and slot or last.slot, call = call, owner = owner}, now)
return 'ok ' .. int(token) .. ' ' .. lease .. ' ' .. (slot and int(slot) or '-')
`,
  LOSE,
);

/**
 * KEYS: lock and record of each grant. ARGV: owner, lease, at-least and token of each.
 * Answers a letter for each: `k` renewed, `l` lost. What one key holds spoils no other.
 */
export const RENEW: Script = script(`
local us, now = clock()
local answers = {}
for i = 1, #KEYS / 2 do
  local lock, record = KEYS[i * 2 - 1], KEYS[i * 2]
  local owner, lease, atLeast, token = ARGV[i * 4 - 3], tonumber(ARGV[i * 4 - 2]), tonumber(ARGV[i * 4 - 1]), tonumber(ARGV[i * 4])
  answers[i] = 'l'
  if redis.pcall('GET', lock) == owner then
    answers[i] = 'k'
    local stored = redis.pcall('GET', record)
    local last = read(stored)
    -- Without a record (deleted, evicted) the acquisition is unknown: then from now, rather too long than too short.
    local at = last.owner == owner and last.at or now
    local left = redis.call('PTTL', lock)
    local wanted = math.max(lease, at + atLeast - now)
    -- Never back: a renewal that is applied late shortens nothing. (-1: somebody made it last for ever.)
    if left >= 0 and (wanted > left or not last.token) then
      local longer = math.max(wanted, left)
      redis.call('PEXPIRE', lock, int(longer))
      if not stored or last.token then
        write(record, {token = last.token or token, at = at, till = now + longer, slot = last.slot, call = last.call or '-', owner = owner}, now)
      end
    end
  end
end
return table.concat(answers)
`);

/** ARGV: owner, call, keep; and the slot, if it is done. Answers `yes` if it was live and ours. */
export const RELEASE: Script = script(`
local owner, call, keep, slot = unpack(ARGV)
slot = tonumber(slot)
local held = redis.call('GET', KEYS[1])
local last = read(redis.call('GET', KEYS[2]))
if held ~= owner then
  -- The same call, sent again by a client that lost the connection before the answer.
  return last.owner == owner and last.call == call and 'yes' or 'no'
end
local us, now = clock()
local at = last.owner == owner and last.at or now
local till = math.max(now, at + tonumber(keep))
if till > now then redis.call('SET', KEYS[1], '${KEPT_MARK}' .. owner, 'PX', int(till - now)) else redis.call('DEL', KEYS[1]) end
if last.slot and (not slot or last.slot > slot) then slot = last.slot end
write(KEYS[2], {token = last.token or us, at = at, till = till, slot = slot, call = call, owner = owner}, now)
return 'yes'
`);

/** Answers `yes` if there was something to free. The token moves, the slot stays. */
export const FORCE: Script = script(`
if not redis.call('GET', KEYS[1]) then return 'no' end
local last = read(redis.call('GET', KEYS[2]))
local us, now = clock()
redis.call('DEL', KEYS[1])
write(KEYS[2], {token = math.max((last.token or 0) + 1, us), at = last.at or now, till = now, slot = last.slot, call = '-', owner = last.owner or ''}, now)
return 'yes'
`);

/**
 * KEYS: lock and record of each name. Answers JSON: the server's time in ms, then for each name the value of the
 * lock, its PTTL (-2: there is none) and the text of the record. Writes nothing.
 */
export const INSPECT: Script = script(`
local us, now = clock()
local found = {int(now)}
for i = 1, #KEYS, 2 do
  local held, record = redis.pcall('GET', KEYS[i]), redis.pcall('GET', KEYS[i + 1])
  found[#found + 1] = type(held) == 'string' and held or ''
  found[#found + 1] = int(redis.call('PTTL', KEYS[i]))
  found[#found + 1] = type(record) == 'string' and record or ''
end
return cjson.encode(found)
`);

/** KEYS as above; ARGV: idle. Deletes what may be forgotten, and answers the number of them. */
export const PURGE: Script = script(`
local us, now = clock()
local gone = 0
for i = 1, #KEYS, 2 do
  local last = read(redis.pcall('GET', KEYS[i + 1]))
  if last.token and redis.call('EXISTS', KEYS[i]) == 0 and last.till < now - tonumber(ARGV[1])
    and last.token <= us and not (last.slot and last.slot > now - ${SLOT_MEMORY_MS}) then
    gone = gone + redis.call('DEL', KEYS[i + 1])
  end
end
return int(gone)
`);

/** One step through the keys of a server. ARGV: cursor, pattern, count. Answers the next cursor and keys, each after a NUL, which no name holds. */
export const SCAN: Script = script(String.raw`
local step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
table.insert(step[2], 1, step[1])
return table.concat(step[2], '\0')
`);

/** What kind of thing each key is; for messages. */
export const TYPES: Script = script(`
local types = {}
for i, key in ipairs(KEYS) do types[i] = redis.call('TYPE', key).ok end
return table.concat(types, ' ')
`);

/** The key as the server sees it: what the client puts in front of it, it shows itself. */
export const ECHO: Script = script('return KEYS[1]');

/**
 * KEYS: what is written, and what remembers the greatest token that did. ARGV: token, life of the latter in ms,
 * value; and the life of the value, if it has one. Answers `written`, `newer`, or `odd` if there is no token where one should be.
 *
 * Tokens have 16 digits, which the numbers of Lua hold exactly; they are compared as numbers, and stored as the text
 * that came. The token goes first: if there is no memory for both, nothing stays that it does not cover.
 */
export const FENCED_SET: Script = scriptOf(`
local token, keep, value, life = unpack(ARGV)
local last = redis.pcall('GET', KEYS[2])
if last then
  if type(last) ~= 'string' or not string.match(last, '^%d+$') then return 'odd' end
  if tonumber(token) < tonumber(last) then return 'newer' end
end
redis.call('SET', KEYS[2], token, 'PX', keep)
if life then redis.call('SET', KEYS[1], value, 'PX', life) else redis.call('SET', KEYS[1], value) end
return 'written'
`);

export function parseRecord(text: string): StoredRecord | undefined {
  const [, token, acquiredAt, endsAt, slot, owner = ''] =
    /^(\d+) (\d+) (\d+) (\S+) \S+ (.*)$/s.exec(text) ?? [];
  if (token === undefined) return undefined;
  return {
    token: Number(token),
    acquiredAt: Number(acquiredAt),
    endsAt: Number(endsAt),
    slot: slot === '-' ? undefined : Number(slot),
    owner,
  };
}
