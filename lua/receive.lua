-- receive: parked | dead of another bucket -> the same here. Takes messages over as they are, when a
-- destination is spread over another number of buckets.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids
-- ARGV  six for each message: 'due' or 'dead', uid, its score there, what msg has, what meta has
--       ('' for nothing), the producer's id that stands for it ('' for none)
-- Returns how many were not here yet.
-- Invariant: as for park: a uid is in exactly one of due, lease and dead, and one that is known
-- already is left as it is, so that a batch may be sent again.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'hash' })
if wrong then return wrong end

local index_of = { due = KEYS[1], dead = KEYS[3] }
for i = 1, #ARGV, 6 do
  if not index_of[ARGV[i]] or not ARGV[i + 5] or not tonumber(ARGV[i + 2]) then
    return redis.error_reply('ERR receive: message ' .. i .. ' has no place or no score')
  end
end

local new = 0
for i = 1, #ARGV, 6 do
  local uid, meta, id = ARGV[i + 1], ARGV[i + 4], ARGV[i + 5]
  if redis.call('HSETNX', KEYS[4], uid, ARGV[i + 3]) == 1 then
    redis.call('ZADD', index_of[ARGV[i]], ARGV[i + 2], uid)
    if meta ~= '' then redis.call('HSET', KEYS[5], uid, meta) end
    if id ~= '' then redis.call('HSET', KEYS[6], id, uid) end
    new = new + 1
  end
end
return new
