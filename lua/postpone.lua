-- postpone: leased -> parked. Gives back messages that could not be released, to be tried later.
--
-- KEYS  1 due  2 lease  3 meta
-- ARGV  four for each message: uid, token, wait in ms, attempts to add
-- Returns {for each message 1, or 0 when the token no longer holds it}.
-- Invariant: a message's own due does not change; `meta` keeps it while the score is the next try.

local wrong = guard({ 'zset', 'zset', 'hash' })
if wrong then return wrong end

local due_key, lease_key, meta_key = KEYS[1], KEYS[2], KEYS[3]
for i = 1, #ARGV, 4 do
  if not (tonumber(ARGV[i + 2]) and tonumber(ARGV[i + 3])) then
    return redis.error_reply('ERR postpone: entry ' .. i .. ' has no wait or no attempts')
  end
end

local now = math.ceil(clock())
local reply = {}
for i = 1, #ARGV, 4 do
  local uid, wait, more = ARGV[i], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local token, attempts, due = read_meta(redis.call('HGET', meta_key, uid))
  local held = token == ARGV[i + 1]
  if held then
    redis.call('ZREM', lease_key, uid)
    redis.call('ZADD', due_key, wait > 0 and now + wait or math.min(due, now), uid)
    -- Its holder lives to tell, so the message is not what ended earlier ones: expiries start anew.
    redis.call('HSET', meta_key, uid, write_meta('-', attempts + more, due, 0))
  end
  reply[#reply + 1] = held and 1 or 0
end
return reply
