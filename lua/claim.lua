-- claim: parked -> leased. Takes the messages that are due, for a limited time.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta
-- ARGV  1 most messages  2 most bytes  3 lease in ms  4 token, new for every call
--       5 expired leases after which a message is claimed alone
-- Returns {now, next due or -1, buried, then for each message {uid, due, attempts, envelope}}.
-- Invariant: what is returned is leased under this token; a due that is not reached is not touched.
-- The first write is a removal, which Redis allows when it is out of memory: a full store drains.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash' })
if wrong then return wrong end

local due_key, lease_key, dead_key, msg_key, meta_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local most, most_bytes, lease_ms, token = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local alone_after = tonumber(ARGV[5])

local now = math.floor(clock())
local found = redis.call('ZRANGEBYSCORE', due_key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
local claimed, removed, leases, metas, bodiless = {}, {}, {}, {}, {}
local bytes = 0

for i = 1, #found, 2 do
  local uid, score = found[i], tonumber(found[i + 1])
  local _, attempts, due, expiries = read_meta(redis.call('HGET', meta_key, uid))
  attempts, due, expiries = attempts or 0, due or math.ceil(score), expiries or 0
  local alone = expiries >= alone_after
  if alone and #claimed > 0 then break end

  local envelope = redis.call('HGET', msg_key, uid)
  if envelope then
    bytes = bytes + #envelope
    if bytes > most_bytes and #claimed > 0 then break end
    claimed[#claimed + 1] = { uid, due, attempts, envelope }
    leases[#leases + 1] = now + lease_ms
    leases[#leases + 1] = uid
    metas[#metas + 1] = uid
    metas[#metas + 1] = write_meta(token, attempts, due, expiries)
  else
    bodiless[#bodiless + 1] = { uid, write_meta('-', attempts, due, expiries, 'its body is missing in the store') }
  end
  removed[#removed + 1] = uid
  if alone then break end
end

if #removed > 0 then redis.call('ZREM', due_key, unpack(removed)) end
if #claimed > 0 then
  redis.call('ZADD', lease_key, unpack(leases))
  redis.call('HSET', meta_key, unpack(metas))
end
for _, lost in ipairs(bodiless) do
  redis.call('ZADD', dead_key, now, lost[1])
  redis.call('HSET', meta_key, lost[1], lost[2])
end

local first = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
local next_due = first[2] and math.ceil(tonumber(first[2])) or -1
local reply = { now, next_due, #bodiless }
for i = 1, #claimed do reply[i + 3] = claimed[i] end
return reply
