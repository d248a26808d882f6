-- leave: parked | dead -> the same in another bucket, which has it already. Lets messages go that
-- `receive` took over there.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids
-- ARGV  two for each message: uid, the producer's id that stood for it ('' for none)
-- Returns how many were still here.
-- Invariant: what is leased stays, for whoever holds it will say how it ended.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'hash' })
if wrong then return wrong end

local left = 0
for i = 1, #ARGV, 2 do
  local uid, id = ARGV[i], ARGV[i + 1]
  if redis.call('ZREM', KEYS[1], uid) == 1 or redis.call('ZREM', KEYS[3], uid) == 1 then
    redis.call('HDEL', KEYS[4], uid)
    redis.call('HDEL', KEYS[5], uid)
    if id ~= '' and redis.call('HGET', KEYS[6], id) == uid then redis.call('HDEL', KEYS[6], id) end
    left = left + 1
  end
end
return left
