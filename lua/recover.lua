-- recover: leased -> parked | dead. Gives back the messages of holders that are gone.
--
-- KEYS  1 due  2 lease  3 dead  4 meta
-- ARGV  1 most messages  2 expired leases after which a message is claimed alone
-- Returns {recovered, buried}.
-- Invariant: only a lease whose end has passed by the store's clock is touched. A message whose
-- lease ran out even when it was claimed alone is what ends its holders: it is buried.
-- What is recovered is overdue; it waits its turn from where its lease ended.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash' })
if wrong then return wrong end

local due_key, lease_key, dead_key, meta_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local most, alone_after = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = math.floor(clock())
local until_token = string.format('(%d', (now + 1) * TOKENS_PER_MS)
local expired = redis.call('ZRANGEBYSCORE', lease_key, '-inf', until_token, 'WITHSCORES', 'LIMIT', 0, most)
local recovered, buried = 0, 0
for i = 1, #expired, 2 do
  local uid, ended = expired[i], math.floor(tonumber(expired[i + 1]) / TOKENS_PER_MS)
  local attempts, expiries = read_meta(redis.call('HGET', meta_key, uid))
  expiries = expiries + 1
  redis.call('ZREM', lease_key, uid)
  if expiries > alone_after then
    local reason = string.format('its holder was lost %d times, the last time with this message alone', expiries)
    redis.call('ZADD', dead_key, now, uid)
    redis.call('HSET', meta_key, uid, write_meta(attempts, expiries, reason))
    buried = buried + 1
  else
    redis.call('ZADD', due_key, ended, uid)
    redis.call('HSET', meta_key, uid, write_meta(attempts, expiries))
    recovered = recovered + 1
  end
end
return { recovered, buried }
