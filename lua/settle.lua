-- settle: leased -> gone. Removes messages whose release the broker confirmed.
--
-- KEYS  1 lease  2 msg  3 meta  4 ids
-- ARGV  three for each message: uid, token, id ('' for none)
-- Returns how many of them their tokens still held.
-- Invariant: a token that is not the last one issued for a uid changes nothing.

local wrong = guard({ 'zset', 'hash', 'hash', 'hash' })
if wrong then return wrong end

local lease_key, msg_key, meta_key, ids_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local uids, tokens, gone, ids = {}, {}, {}, {}
for i = 1, #ARGV, 3 do
  uids[#uids + 1], tokens[#tokens + 1] = ARGV[i], ARGV[i + 1]
end
local held = held_by(lease_key, uids, tokens)
for i, uid in ipairs(uids) do
  local id = ARGV[3 * i]
  if held[i] then
    gone[#gone + 1] = uid
    if id ~= '' and redis.call('HGET', ids_key, id) == uid then ids[#ids + 1] = id end
  end
end

if #gone > 0 then
  redis.call('ZREM', lease_key, unpack(gone))
  redis.call('HDEL', msg_key, unpack(gone))
  if redis.call('HLEN', meta_key) > 0 then redis.call('HDEL', meta_key, unpack(gone)) end
end
if #ids > 0 then redis.call('HDEL', ids_key, unpack(ids)) end
return #gone
