-- census: counts a bucket's messages by state and by time to due. Changes nothing.
--
-- KEYS  1 due  2 lease  3 dead  4 paused
-- ARGV  upper bounds of the time to due in ms, ascending
-- Returns {now, parked, leased, dead, overdue, whether it is paused, when the first parked one may
--         be tried or -1, then parked with at most each bound to go}.
-- Cost: logarithmic in the backlog for each bound, never linear.

local now = math.floor(clock())
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local reply = {
  now,
  redis.call('ZCARD', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]),
  redis.call('ZCOUNT', KEYS[1], '-inf', now),
  redis.call('EXISTS', KEYS[4]),
  first and math.ceil(tonumber(first)) or -1,
}
for _, bound in ipairs(ARGV) do
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], '-inf', now + tonumber(bound))
end
return reply
