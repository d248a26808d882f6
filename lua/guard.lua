-- guard: refuses to run on keys of the wrong type. Put in front of every script that writes.
--
-- A script is isolated but not rolled back: an error after its first write would leave a message
-- in two places or in none. So everything that can fail is looked at before anything is written.
local function guard(kinds)
  for i, kind in ipairs(kinds) do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= kind then
      return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' holds a ' .. found .. ', not a ' .. kind)
    end
  end
end

-- The store's clock in milliseconds, as a float: floor it to ask what is due, ceil it to set a due.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
end

-- The due that an operator or a producer asks for; nothing when it is no time. Without a delay that
-- is now, and not the end of this millisecond.
local function due_of(how, time)
  local ms = math.ceil(tonumber(time) or -1)
  if ms < 0 or (how ~= 'in' and how ~= 'at') then return nil end
  if how == 'at' then return ms end
  local now = math.ceil(clock())
  return ms > 0 and now + ms or now - 1
end

-- Where a parked message stands in `due`. A higher priority comes first among equal dues: up to
-- 255/256 of a millisecond before its due, which is never enough to be claimed in an earlier
-- millisecond.
local function score_of(due, priority)
  return priority == 0 and string.format('%d', due) or due - priority / 256
end

-- `gone` remembers the uids that an operator ended, by when: their parks may still be on the way,
-- since one whose answer was lost is sent again. For so many ms, and the newest so many alone: an
-- intake tries again within seconds, with no more in hand than its prefetch.
local GONE_MS, GONE_MAX = 600000, 10000

local function remember_gone(gone_key, now, uids)
  if #uids == 0 then return end
  local scored = {}
  for _, uid in ipairs(uids) do
    scored[#scored + 1] = now
    scored[#scored + 1] = uid
  end
  redis.call('ZADD', gone_key, unpack(scored))
  redis.call('ZREMRANGEBYSCORE', gone_key, '-inf', now - GONE_MS)
  redis.call('ZREMRANGEBYRANK', gone_key, 0, -GONE_MAX - 1)
end

-- What `meta` holds of a message that did not go out at its first try: the attempts counted, how
-- often its lease ran out, and, once dead, the reason.
local function read_meta(text)
  if not text then return 0, 0 end
  local attempts, expiries = string.match(text, '^(%d+) (%d+)')
  return tonumber(attempts or 0), tonumber(expiries or 0)
end

local function write_meta(attempts, expiries, reason)
  local text = string.format('%d %d', attempts, expiries)
  return reason and text .. ' ' .. reason or text
end

-- A token is a score in `lease`: the end of the lease in ms times this, and a count, so that no two
-- leases of a message share one. Whole numbers, since Redis reads and writes those fastest; exact
-- until the year 2248.
local TOKENS_PER_MS = 1024

-- Which of these messages are still held by these tokens, in turn. One message may stand here twice:
-- a replica whose lease ran out may have been given it again.
local function held_by(lease_key, uids, tokens)
  local holders, asked = {}, {}
  for _, token in ipairs(tokens) do
    if not asked[token] and tonumber(token) then
      asked[token] = true
      for _, uid in ipairs(redis.call('ZRANGEBYSCORE', lease_key, token, token)) do
        holders[uid] = token
      end
    end
  end
  local held = {}
  for i, uid in ipairs(uids) do held[i] = holders[uid] ~= nil and holders[uid] == tokens[i] end
  return held
end
