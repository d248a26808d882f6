-- bury: leased -> dead. Keeps messages that cannot be released, each with a reason.
--
-- KEYS  1 lease  2 dead  3 meta
-- ARGV  three for each message: uid, token, reason
-- Returns how many of them their tokens still held.
-- Invariant: the body stays, so that an operator may look at it and revive it.

local wrong = guard({ 'zset', 'zset', 'hash' })
if wrong then return wrong end

local lease_key, dead_key, meta_key = KEYS[1], KEYS[2], KEYS[3]
local uids, tokens = {}, {}
for i = 1, #ARGV, 3 do
  uids[#uids + 1], tokens[#tokens + 1] = ARGV[i], ARGV[i + 1]
end

local now = math.floor(clock())
local held, count = held_by(lease_key, uids, tokens), 0
for i, uid in ipairs(uids) do
  if held[i] then
    local attempts, expiries = read_meta(redis.call('HGET', meta_key, uid))
    redis.call('ZREM', lease_key, uid)
    redis.call('ZADD', dead_key, now, uid)
    redis.call('HSET', meta_key, uid, write_meta(attempts, expiries, ARGV[3 * i]))
    count = count + 1
  end
end
return count
