-- claim: parked -> leased. Takes the messages that are due, for a limited time.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 claims  7 paused
-- ARGV  1 most messages  2 most bytes  3 lease in ms
--       4 expired leases after which a message is claimed alone  5 whether such a one may be taken
-- Returns {now, next due or -1, buried, whether it was taken alone, token, then three for each
--          message: uid, attempts, and due and envelope in one}; {now} alone while it is paused.
-- Invariant: what is returned is leased under this token; a due that is not reached is not touched.
-- The first write is a removal, which Redis allows when it is out of memory: a full store drains.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'string' })
if wrong then return wrong end

local due_key, lease_key, dead_key, msg_key, meta_key, claims_key =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local most, most_bytes, lease_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local alone_after, may_take_alone = tonumber(ARGV[4]), ARGV[5] == '1'
if not (most and most_bytes and lease_ms and alone_after and tonumber(redis.call('GET', claims_key) or 0)) then
  return redis.error_reply('ERR claim: a limit is missing, or ' .. claims_key .. ' holds no number')
end

local now = math.floor(clock())
if redis.call('EXISTS', KEYS[7]) == 1 then return { now } end
local found = redis.call('ZRANGEBYSCORE', due_key, '-inf', now, 'LIMIT', 0, most)
local failed = #found > 0 and redis.call('HLEN', meta_key) > 0
local metas = failed and redis.call('HMGET', meta_key, unpack(found)) or {}
local reply, claimed, removed, bodiless, bytes = {}, {}, {}, {}, 0
local is_alone = 0

-- True when this one ends the claim.
local function take(uid, meta, body)
  local attempts, expiries = read_meta(meta)
  local alone = expiries >= alone_after
  if #claimed > 0 and (alone or bytes + #(body or '') > most_bytes) then return true end
  if alone and not may_take_alone then return true end
  removed[#removed + 1] = uid
  if body then
    bytes = bytes + #body
    claimed[#claimed + 1] = uid
    local last = #reply
    reply[last + 1], reply[last + 2], reply[last + 3] = uid, attempts, body
  else
    bodiless[#bodiless + 1] = { uid, write_meta(attempts, expiries, 'its body is missing in the store') }
  end
  if alone and body then is_alone = 1 end
  return alone
end

-- Bodies are read a few at a time: a claim may find far more than the bytes it may take.
local first, step, full = 1, 4, false
while first <= #found and not full do
  local last = math.min(first + step - 1, #found)
  local bodies = redis.call('HMGET', msg_key, unpack(found, first, last))
  for i = first, last do
    full = take(found[i], metas[i], bodies[i - first + 1])
    if full then break end
  end
  first = last + 1
  if bytes * 8 < most_bytes then step = 16 end
end

local token = ''
if #removed > 0 then redis.call('ZREM', due_key, unpack(removed)) end
if #claimed > 0 then
  local count = redis.call('INCR', claims_key) % TOKENS_PER_MS
  token = string.format('%d', (now + lease_ms) * TOKENS_PER_MS + count)
  local leases = {}
  for i, uid in ipairs(claimed) do
    leases[2 * i - 1], leases[2 * i] = token, uid
  end
  redis.call('ZADD', lease_key, unpack(leases))
end
for _, lost in ipairs(bodiless) do
  redis.call('ZADD', dead_key, now, lost[1])
  redis.call('HSET', meta_key, lost[1], lost[2])
end

local next_one = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
local next_due = next_one[2] and math.ceil(tonumber(next_one[2])) or -1
return { now, next_due, #bodiless, is_alone, token, unpack(reply) }
