-- bury: leased -> dead. Keeps messages that cannot be released, each with a reason.
--
-- KEYS  1 lease  2 dead  3 meta
-- ARGV  three for each message: uid, token, reason
-- Returns {for each message 1, or 0 when the token no longer holds it}.
-- Invariant: the body stays, so that an operator may look at it and revive it.

local wrong = guard({ 'zset', 'zset', 'hash' })
if wrong then return wrong end

local lease_key, dead_key, meta_key = KEYS[1], KEYS[2], KEYS[3]
local now = math.floor(clock())
local reply = {}
for i = 1, #ARGV, 3 do
  local uid, reason = ARGV[i], ARGV[i + 2]
  local token, attempts, due, expiries = read_meta(redis.call('HGET', meta_key, uid))
  local held = token == ARGV[i + 1]
  if held then
    redis.call('ZREM', lease_key, uid)
    redis.call('ZADD', dead_key, now, uid)
    redis.call('HSET', meta_key, uid, write_meta('-', attempts, due, expiries, reason))
  end
  reply[#reply + 1] = held and 1 or 0
end
return reply
