-- withdraw: parked -> dead, because an operator says so. `bury` is the same from a lease.
--
-- KEYS  1 due  2 lease  3 dead  4 meta
-- ARGV  1 reason, then one uid for each message
-- Returns a letter for each: b done   l leased   d dead already   u unknown

local wrong = guard({ 'zset', 'zset', 'zset', 'hash' })
if wrong then return wrong end

local now = math.floor(clock())
local function withdraw(uid)
  if redis.call('ZREM', KEYS[1], uid) == 0 then
    if redis.call('ZSCORE', KEYS[2], uid) then return 'l' end
    return redis.call('ZSCORE', KEYS[3], uid) and 'd' or 'u'
  end
  local attempts, expiries = read_meta(redis.call('HGET', KEYS[4], uid))
  redis.call('ZADD', KEYS[3], now, uid)
  redis.call('HSET', KEYS[4], uid, write_meta(attempts, expiries, ARGV[1]))
  return 'b'
end

local letters = {}
for i = 2, #ARGV do letters[#letters + 1] = withdraw(ARGV[i]) end
return table.concat(letters)
