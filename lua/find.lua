-- find: looks at one message, by its uid or by its producer's id. Changes nothing.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids
-- ARGV  1 uid, or '' to find it by  2 producer's id
-- Returns {state, uid, score, meta or '', due and envelope in one}, or nothing when there is none.
--         state: p parked  l leased  d dead

local uid = ARGV[1]
if uid == '' then uid = redis.call('HGET', KEYS[6], ARGV[2]) end
if not uid then return {} end

local states = { 'p', 'l', 'd' }
for i, state in ipairs(states) do
  local score = redis.call('ZSCORE', KEYS[i], uid)
  if score then
    local meta = redis.call('HGET', KEYS[5], uid) or ''
    return { state, uid, score, meta, redis.call('HGET', KEYS[4], uid) or '' }
  end
end
return {}
