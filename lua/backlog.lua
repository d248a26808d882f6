-- backlog: counts a bucket's parked messages by when they may be tried. Changes nothing.
--
-- KEYS  1 due
-- ARGV  instants in ms
-- Returns how many are parked until each of them.
-- Cost: logarithmic in the backlog for each instant.

local counts = {}
for i, instant in ipairs(ARGV) do
  counts[i] = redis.call('ZCOUNT', KEYS[1], '-inf', instant)
end
return counts
