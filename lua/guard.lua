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

-- What `meta` holds of a message that was ever leased: its holder's token ('-' for none), the
-- attempts counted, its due, how often its lease ran out, and, once dead, the reason.
local function read_meta(text)
  local token, attempts, due, expiries = string.match(text or '', '^(%S+) (%d+) (%d+) (%d+)')
  if token then
    return token, tonumber(attempts), tonumber(due), tonumber(expiries)
  end
end

local function write_meta(token, attempts, due, expiries, reason)
  local text = string.format('%s %.0f %.0f %.0f', token, attempts, due, expiries)
  return reason and text .. ' ' .. reason or text
end
