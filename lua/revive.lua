-- revive: dead -> parked, with all its attempts before it.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids
-- ARGV  1 'in' or 'at', or 'own' to keep its due  2 time in ms
--       then two for each message: uid, producer's id ('' for none)
-- Returns a letter for each: r done   i another message has its id   p parked already
--         l leased   u unknown
-- Invariant: an id names one message. Its past stays in meta: it may have been delivered once.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'hash' })
if wrong then return wrong end

local given = ARGV[1] ~= 'own' and due_of(ARGV[1], ARGV[2])
if ARGV[1] ~= 'own' and not given then return redis.error_reply('ERR revive: no time') end

local function revive(uid, id)
  local value = redis.call('HGET', KEYS[4], uid)
  if not redis.call('ZSCORE', KEYS[3], uid) or not value or #value < 8 then
    if redis.call('ZSCORE', KEYS[2], uid) then return 'l' end
    return redis.call('ZSCORE', KEYS[1], uid) and 'p' or 'u'
  end
  local holder = id ~= '' and redis.call('HGET', KEYS[6], id)
  if holder and holder ~= uid and redis.call('HEXISTS', KEYS[4], holder) == 1 then return 'i' end
  local due = given or struct.unpack('>I8', value)
  redis.call('ZREM', KEYS[3], uid)
  if given then redis.call('HSET', KEYS[4], uid, struct.pack('>I8', due) .. string.sub(value, 9)) end
  redis.call('HSET', KEYS[5], uid, write_meta(0, 0))
  if id ~= '' then redis.call('HSET', KEYS[6], id, uid) end
  redis.call('ZADD', KEYS[1], score_of(due, priority_of(value, 9)), uid)
  return 'r'
end

local letters = {}
for i = 3, #ARGV, 2 do letters[#letters + 1] = revive(ARGV[i], ARGV[i + 1]) end
return table.concat(letters)
