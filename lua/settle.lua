-- settle: leased -> gone. Removes messages whose release the broker confirmed.
--
-- KEYS  1 lease  2 msg  3 meta  4 ids
-- ARGV  three for each message: uid, token, id ('' for none)
-- Returns {for each message 1, or 0 when the token no longer holds it}.
-- Invariant: a token that is not the last one issued for a uid changes nothing.

local wrong = guard({ 'zset', 'hash', 'hash', 'hash' })
if wrong then return wrong end

local lease_key, msg_key, meta_key, ids_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local reply, gone, ids = {}, {}, {}

for i = 1, #ARGV, 3 do
  local uid, token, id = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held = read_meta(redis.call('HGET', meta_key, uid)) == token
  reply[#reply + 1] = held and 1 or 0
  if held then
    gone[#gone + 1] = uid
    if id ~= '' and redis.call('HGET', ids_key, id) == uid then ids[#ids + 1] = id end
  end
end

if #gone > 0 then
  redis.call('ZREM', lease_key, unpack(gone))
  redis.call('HDEL', msg_key, unpack(gone))
  redis.call('HDEL', meta_key, unpack(gone))
end
if #ids > 0 then redis.call('HDEL', ids_key, unpack(ids)) end
return reply
