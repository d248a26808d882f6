-- census: counts a bucket's messages by state and by time to due. Changes nothing.
--
-- KEYS  1 due  2 lease  3 dead  4 paused
-- ARGV  upper bounds of the time to due in ms, ascending
-- Returns {now, parked, leased, dead, overdue, whether it is paused, then parked with at most each
--         bound to go}.
-- Cost: logarithmic in the backlog for each bound, never linear.

local now = math.floor(clock())
local reply = {
  now,
  redis.call('ZCARD', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]),
  redis.call('ZCOUNT', KEYS[1], '-inf', now),
  redis.call('EXISTS', KEYS[4]),
}
for _, bound in ipairs(ARGV) do
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], '-inf', now + tonumber(bound))
end
return reply
