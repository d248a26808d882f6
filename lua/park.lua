-- park: new -> parked | dead, parked -> gone. Applies a batch of one bucket's entries in order.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids  7 seq
-- ARGV  six for each entry: operation, uid, id, time, priority, envelope
--         'in'     park it, due `time` ms from now
--         'at'     park it, due at `time`
--         'bury'   keep it as dead; `time` is the reason
--         'cancel' end the message of this id; the rest is empty
-- Returns {sequence, now, earliest due parked or -1, then for each entry {outcome, due}}.
--         outcomes: parked, replaced, replaced-leased, known, buried,
--                   cancelled, cancelled-leased, unknown
-- Invariant: a uid is in exactly one of due, lease and dead, and in msg if and only if it is in one
-- of them. A uid that is known already is left as it is, so that a batch may be sent again.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'hash', 'string' })
if wrong then return wrong end

local due_key, lease_key, dead_key, msg_key, meta_key, ids_key, seq_key =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local known_operations = { ['in'] = true, at = true, bury = true, cancel = true }

for i = 1, #ARGV, 6 do
  local timed = ARGV[i] == 'in' or ARGV[i] == 'at'
  if not known_operations[ARGV[i]] or not ARGV[i + 5] then
    return redis.error_reply('ERR park: entry ' .. i .. ' has no operation of mine')
  end
  if timed and not (tonumber(ARGV[i + 3]) and tonumber(ARGV[i + 4])) then
    return redis.error_reply('ERR park: entry ' .. i .. ' has no time or priority')
  end
end

local now = math.ceil(clock())
local sequence = redis.call('INCRBY', seq_key, #ARGV / 6)
local earliest = -1

-- Ends the message that has this id now, wherever it is. Says 'leased' also of one that was leased
-- before and came back: a holder may have published it and been lost, so it may be delivered.
local function end_holder_of(id, dead_too)
  local uid = redis.call('HGET', ids_key, id)
  if not uid then return nil end
  local was
  if redis.call('ZREM', due_key, uid) == 1 then
    was = 'parked'
  elseif redis.call('ZREM', lease_key, uid) == 1 then
    was = 'leased'
  elseif dead_too and redis.call('ZREM', dead_key, uid) == 1 then
    was = 'parked'
  else
    return nil
  end
  redis.call('HDEL', msg_key, uid)
  if redis.call('HDEL', meta_key, uid) == 1 then was = 'leased' end
  redis.call('HDEL', ids_key, id)
  return was
end

local function park(uid, id, due, priority, envelope)
  if redis.call('HEXISTS', msg_key, uid) == 1 then
    return { 'known', due }
  end
  local was = id ~= '' and end_holder_of(id, false)
  redis.call('HSET', msg_key, uid, envelope)
  -- A higher priority comes first among equal dues: up to 255/256 of a millisecond before its
  -- due, which is never enough to be claimed in an earlier millisecond.
  redis.call('ZADD', due_key, due - priority / 256, uid)
  if id ~= '' then redis.call('HSET', ids_key, id, uid) end
  if earliest < 0 or due < earliest then earliest = due end
  if was == 'leased' then return { 'replaced-leased', due } end
  return { was and 'replaced' or 'parked', due }
end

local function bury(uid, reason, envelope)
  if redis.call('HEXISTS', msg_key, uid) == 1 then
    return { 'known', now }
  end
  redis.call('HSET', msg_key, uid, envelope)
  redis.call('ZADD', dead_key, now, uid)
  redis.call('HSET', meta_key, uid, write_meta('-', 0, now, 0, reason))
  return { 'buried', now }
end

local function cancel(id)
  local was = end_holder_of(id, true)
  if was == 'leased' then return { 'cancelled-leased', 0 } end
  return { was and 'cancelled' or 'unknown', 0 }
end

local reply = { sequence, now, -1 }
for i = 1, #ARGV, 6 do
  local operation, uid, id, time, priority, envelope =
    ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  if operation == 'in' then
    reply[#reply + 1] = park(uid, id, now + tonumber(time), tonumber(priority), envelope)
  elseif operation == 'at' then
    reply[#reply + 1] = park(uid, id, tonumber(time), tonumber(priority), envelope)
  elseif operation == 'bury' then
    reply[#reply + 1] = bury(uid, time, envelope)
  else
    reply[#reply + 1] = cancel(id)
  end
end
reply[3] = earliest
return reply
