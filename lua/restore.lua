-- restore: gives messages back the attempts that were counted in another store. It changes no place:
-- what is parked stays parked, and what is dead stays dead with its reason.
--
-- KEYS  1 due  2 dead  3 meta
-- ARGV  two for each message: uid, attempts
-- Returns a letter for each: a done   u neither parked nor dead
-- Invariant: attempts never become fewer.

local wrong = guard({ 'zset', 'zset', 'hash' })
if wrong then return wrong end

for i = 1, #ARGV, 2 do
  if not tonumber(ARGV[i + 1]) then
    return redis.error_reply('ERR restore: entry ' .. i .. ' has no attempts')
  end
end

local letters = {}
for i = 1, #ARGV, 2 do
  local uid, attempts = ARGV[i], tonumber(ARGV[i + 1])
  local dead = redis.call('ZSCORE', KEYS[2], uid)
  if dead or redis.call('ZSCORE', KEYS[1], uid) then
    local meta = redis.call('HGET', KEYS[3], uid)
    local counted, expiries = read_meta(meta)
    local reason = dead and meta and string.match(meta, '^%d+ %d+ (.*)$') or nil
    if attempts > counted then
      redis.call('HSET', KEYS[3], uid, write_meta(attempts, expiries, reason))
    end
    letters[#letters + 1] = 'a'
  else
    letters[#letters + 1] = 'u'
  end
end
return table.concat(letters)
