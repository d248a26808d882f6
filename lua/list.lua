-- list: looks at the messages of one state in the order of their places. Changes nothing.
--
-- KEYS  1 due, lease or dead  2 msg  3 meta
-- ARGV  1 most messages  2 most bytes to read  3 bytes of each envelope to return
--       4 score to begin at, or -inf  5 uid to begin after at that score, or ''
-- Returns {whether there may be more, then five for each message: uid, score, meta or '',
--         length of due and envelope, the beginning of it}.
-- Cost: logarithmic in the backlog, linear in what is returned. Redis cannot read a part of a
-- hash's value, so large bodies end a page early.

local list_key, msg_key, meta_key = KEYS[1], KEYS[2], KEYS[3]
local most, most_bytes, head = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local from, after = ARGV[4], ARGV[5]
-- What is read before its size is known.
local STEP = 4

-- Redis orders members by their bytes; Lua's own comparison depends on the locale.
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- The rank of the first member behind `after`, which may be gone by now.
local function rank_behind()
  if from == '-inf' then return 0 end
  local low = redis.call('ZCOUNT', list_key, '-inf', '(' .. from)
  if after == '' then return low end
  local high = low + redis.call('ZCOUNT', list_key, from, from)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = redis.call('ZRANGE', list_key, middle, middle)[1]
    if is_less(after, member) then high = middle else low = middle + 1 end
  end
  return low
end

local first = rank_behind()
local found = redis.call('ZRANGE', list_key, first, first + most - 1, 'WITHSCORES')
local reply, bytes, at = { #found == 2 * most and 1 or 0 }, 0, 1
while at <= #found do
  if bytes > most_bytes then
    reply[1] = 1
    break
  end
  local uids = {}
  for i = at, math.min(at + 2 * STEP - 2, #found), 2 do uids[#uids + 1] = found[i] end
  local values = redis.call('HMGET', msg_key, unpack(uids))
  local metas = redis.call('HMGET', meta_key, unpack(uids))
  for i, uid in ipairs(uids) do
    local value, last = values[i] or '', #reply
    bytes = bytes + #value
    reply[last + 1], reply[last + 2], reply[last + 3] = uid, found[at + 2 * i - 1], metas[i] or ''
    reply[last + 4], reply[last + 5] = #value, string.sub(value, 1, head)
  end
  at = at + 2 * #uids
end
return reply
