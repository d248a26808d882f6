-- postpone: leased -> parked. Gives back messages that could not be released, to be tried later.
--
-- KEYS  1 due  2 lease  3 meta
-- ARGV  five for each message: uid, token, due, wait in ms, attempts to add
-- Returns how many of them their tokens still held.
-- Invariant: a message's own due does not change, it lies with its body; only the score is the
-- next try.

local wrong = guard({ 'zset', 'zset', 'hash' })
if wrong then return wrong end

local due_key, lease_key, meta_key = KEYS[1], KEYS[2], KEYS[3]
local uids, tokens = {}, {}
for i = 1, #ARGV, 5 do
  if not (tonumber(ARGV[i + 2]) and tonumber(ARGV[i + 3]) and tonumber(ARGV[i + 4])) then
    return redis.error_reply('ERR postpone: entry ' .. i .. ' has no due, no wait or no attempts')
  end
  uids[#uids + 1], tokens[#tokens + 1] = ARGV[i], ARGV[i + 1]
end

local now = math.ceil(clock())
local held, count = held_by(lease_key, uids, tokens), 0
for i, uid in ipairs(uids) do
  local due, wait, more = tonumber(ARGV[5 * i - 2]), tonumber(ARGV[5 * i - 1]), tonumber(ARGV[5 * i])
  if held[i] then
    local attempts = read_meta(redis.call('HGET', meta_key, uid))
    redis.call('ZREM', lease_key, uid)
    redis.call('ZADD', due_key, wait > 0 and now + wait or math.min(due, now), uid)
    -- Its holder lives to tell, so the message is not what ended earlier ones: expiries start anew.
    redis.call('HSET', meta_key, uid, write_meta(attempts + more, 0))
    count = count + 1
  end
end
return count
