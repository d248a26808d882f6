-- cancel: parked | leased | dead -> gone. Ends messages because an operator says so.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids  7 gone
-- ARGV  two for each message: uid, producer's id ('' for none)
-- Returns a letter for each: c cancelled   C cancelled, but it is or was leased   u unknown
-- Invariant: what is answered with a plain c was never handed to a replica. What was ended is in gone,
-- so that a park which is sent again does not bring it back.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'hash', 'zset' })
if wrong then return wrong end

local gone = {}
local function cancel(uid, id)
  local was
  if redis.call('ZREM', KEYS[1], uid) == 1 or redis.call('ZREM', KEYS[3], uid) == 1 then
    was = 'c'
  elseif redis.call('ZREM', KEYS[2], uid) == 1 then
    was = 'C'
  else
    return 'u'
  end
  gone[#gone + 1] = uid
  redis.call('HDEL', KEYS[4], uid)
  if redis.call('HDEL', KEYS[5], uid) == 1 then was = 'C' end
  if id ~= '' and redis.call('HGET', KEYS[6], id) == uid then redis.call('HDEL', KEYS[6], id) end
  return was
end

local letters = {}
for i = 1, #ARGV, 2 do letters[#letters + 1] = cancel(ARGV[i], ARGV[i + 1]) end
remember_gone(KEYS[7], math.floor(clock()), gone)
return table.concat(letters)
