-- reschedule: parked -> parked, with another due. At once is a due of now.
--
-- KEYS  1 due  2 lease  3 dead  4 msg
-- ARGV  1 'in' or 'at'  2 time in ms, then one uid for each message
-- Returns {the new due, a letter for each}: p done   l leased   d dead   u unknown
-- Invariant: what is leased is not touched, its holder is publishing it.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash' })
if wrong then return wrong end

local due = due_of(ARGV[1], ARGV[2])
if not due then return redis.error_reply('ERR reschedule: no time') end

local function reschedule(uid)
  local score = redis.call('ZSCORE', KEYS[1], uid)
  if not score then
    if redis.call('ZSCORE', KEYS[2], uid) then return 'l' end
    return redis.call('ZSCORE', KEYS[3], uid) and 'd' or 'u'
  end
  -- What its priority is worth lies behind the point, and stays.
  local rank = math.ceil(tonumber(score)) - tonumber(score)
  local value = redis.call('HGET', KEYS[4], uid)
  if value then redis.call('HSET', KEYS[4], uid, struct.pack('>I8', due) .. string.sub(value, 9)) end
  redis.call('ZADD', KEYS[1], rank == 0 and string.format('%d', due) or due - rank, uid)
  return 'p'
end

local letters = {}
for i = 3, #ARGV do letters[#letters + 1] = reschedule(ARGV[i]) end
return { due, table.concat(letters) }
