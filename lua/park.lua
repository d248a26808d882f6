-- park: new -> parked | dead, parked -> gone. Applies a batch of one bucket's entries in order, and
-- moves the marks of the logs that the batch was read from.
--
-- KEYS  1 due  2 lease  3 dead  4 msg  5 meta  6 ids  7 seq  8 mark  9 gone
-- ARGV  six for each entry: operation, uid, id, time, priority, envelope
--         'in'     park it, due `time` ms from now; with 0 at once
--         'at'     park it, due at `time`
--         'since'  park it; `time` is when it says it was written and, after a blank, how many ms
--                  after that it is due; what was written later than now counts as written now
--         'bury'   keep it as dead; `time` is the reason
--         'cancel' end the message of this id; `time` is the user-id that asks, or ''; the rest is
--                  empty
--         'in!', 'at!' and 'since!' are an operator's: they replace whoever's message it is, and park
--         what is in gone
--         'mark'   before all others: move the mark of the log `uid` to `time`, if it begins with
--                  `id` (life and position, as the reader last saw it); the rest is empty
-- Returns {sequence, now, earliest due parked or -1, a letter for each entry}, or, when a mark is
-- elsewhere, {'moved', then two for each such log: its name, its mark or nothing}: then nothing has
-- changed. Marks have no letter.
--         p parked      r replaced    R replaced one that is leased    k known    b buried
--         c cancelled   C cancelled one that is leased                 u unknown
--         n not theirs: the message of this id carries a user-id, and who asks has another or none.
--           Nothing is replaced or cancelled; what was to replace it is kept as dead, with its due
-- Invariant: a uid is in exactly one of due, lease and dead, and in msg if and only if it is in one
-- of them. A uid that is known already is left as it is, so that a batch may be sent again; one that
-- an operator has ended since, and that is in gone, is known too.
-- In msg, 8 bytes of due, big-endian, stand before each envelope.
-- NOT_YOURS, in front of it: why what was to replace another's message is dead.

local wrong = guard({ 'zset', 'zset', 'zset', 'hash', 'hash', 'hash', 'string', 'hash', 'zset' })
if wrong then return wrong end

local due_key, lease_key, dead_key, msg_key, meta_key, ids_key, seq_key, mark_key, gone_key =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local known_operations = { ['in'] = true, at = true, since = true, bury = true, cancel = true, mark = true }
local of_operator = { ['in!'] = 'in', ['at!'] = 'at', ['since!'] = 'since' }
-- What `unpack` can take, with room to spare.
local CHUNK = 1000

local uids, marks, moved = {}, {}, { 'moved' }
for i = 1, #ARGV, 6 do
  local operation = of_operator[ARGV[i]] or ARGV[i]
  local timed = operation == 'in' or operation == 'at'
  if not known_operations[operation] or not ARGV[i + 5] then
    return redis.error_reply('ERR park: entry ' .. i .. ' has no operation of mine')
  end
  if operation == 'since' and not (string.find(ARGV[i + 3], '^%d+ %d+$') and tonumber(ARGV[i + 4])) then
    return redis.error_reply('ERR park: entry ' .. i .. ' has no two times or no priority')
  end
  if timed and not (tonumber(ARGV[i + 3]) and tonumber(ARGV[i + 4])) then
    return redis.error_reply('ERR park: entry ' .. i .. ' has no time or priority')
  end
  if operation == 'mark' then
    local log, expected = ARGV[i + 1], ARGV[i + 2]
    local stands = redis.call('HGET', mark_key, log) or ''
    if string.sub(stands, 1, #expected) ~= expected then
      moved[#moved + 1], moved[#moved + 2] = log, stands
    end
    marks[#marks + 1], marks[#marks + 2] = log, ARGV[i + 3]
  else
    uids[#uids + 1] = ARGV[i + 1]
  end
end
if #moved > 1 then return moved end

-- Uids whose bodies are here already.
local known = {}
for first = 1, #uids, CHUNK do
  local last = math.min(first + CHUNK - 1, #uids)
  local bodies = redis.call('HMGET', msg_key, unpack(uids, first, last))
  for i = first, last do
    if bodies[i - first + 1] then known[uids[i]] = true end
  end
end

local now = math.ceil(clock())
local sequence = redis.call('INCRBY', seq_key, #uids)
local earliest = -1

-- Uids that an operator has ended lately. As a rule there are none, and nobody looks further.
local gone, ended = {}, {}
if redis.call('EXISTS', gone_key) == 1 then
  redis.call('ZREMRANGEBYSCORE', gone_key, '-inf', now - GONE_MS)
  for first = 1, #uids, CHUNK do
    local last = math.min(first + CHUNK - 1, #uids)
    local times = redis.call('ZMSCORE', gone_key, unpack(uids, first, last))
    for i = first, last do gone[uids[i]] = times[i - first + 1] end
  end
end

-- What is parked but not yet written: all of it in two commands, at the end or when it is needed.
local dues, bodies, unwritten = {}, {}, {}
local function write()
  if #dues == 0 then return end
  redis.call('HSET', msg_key, unpack(bodies))
  redis.call('ZADD', due_key, unpack(dues))
  dues, bodies, unwritten = {}, {}, {}
end

-- The message that has this id, with what is not yet written of it. The id of one that is gone may
-- be left.
local function holder_of(id)
  local uid = redis.call('HGET', ids_key, id)
  if uid and unwritten[uid] then write() end
  return uid
end

-- Whether a message carries a user-id, and not this one.
local function is_anothers(uid, user)
  local owner = user_of(redis.call('HGET', msg_key, uid) or '', 9)
  return owner ~= '' and owner ~= user
end

-- Ends a message, wherever it is. Says 'leased' also of one that was leased before and came back:
-- a holder may have published it and been lost, so it may be delivered.
local function end_message(uid, id, dead_too)
  local was
  if redis.call('ZREM', due_key, uid) == 1 then
    was = 'parked'
  elseif redis.call('ZREM', lease_key, uid) == 1 then
    was = 'leased'
  elseif dead_too and redis.call('ZREM', dead_key, uid) == 1 then
    was = 'parked'
  else
    return nil
  end
  known[uid] = nil
  redis.call('HDEL', msg_key, uid)
  if redis.call('HDEL', meta_key, uid) == 1 then was = 'leased' end
  redis.call('HDEL', ids_key, id)
  return was
end

local function bury(uid, reason, due, envelope)
  if known[uid] then return 'k' end
  known[uid] = true
  redis.call('HSET', msg_key, uid, struct.pack('>I8', due) .. envelope)
  redis.call('ZADD', dead_key, now, uid)
  redis.call('HSET', meta_key, uid, write_meta(0, 0, reason))
  return 'b'
end

local function park(uid, id, due, priority, envelope, by_operator)
  if known[uid] then return 'k' end
  if gone[uid] and not by_operator then
    -- What it had replaced comes again with it, just before.
    local replaced = id ~= '' and holder_of(id)
    if replaced and known[replaced] == 'now' then end_message(replaced, id, false) end
    return 'k'
  end
  local was
  if id ~= '' then
    local holder = holder_of(id)
    -- What is dead is not replaced: its id goes to whoever comes.
    local asks = holder and not by_operator and not redis.call('ZSCORE', dead_key, holder)
    if asks and is_anothers(holder, user_of(envelope, 1)) then
      bury(uid, NOT_YOURS, due, envelope)
      return 'n'
    end
    was = holder and end_message(holder, id, false)
    if was and by_operator then ended[#ended + 1] = holder end
    redis.call('HSET', ids_key, id, uid)
  end
  known[uid] = 'now'
  dues[#dues + 1] = score_of(due, priority)
  dues[#dues + 1] = uid
  bodies[#bodies + 1] = uid
  bodies[#bodies + 1] = struct.pack('>I8', due) .. envelope
  unwritten[uid] = true
  if #dues >= 2 * CHUNK then write() end
  if earliest < 0 or due < earliest then earliest = due end
  if was == 'leased' then return 'R' end
  return was and 'r' or 'p'
end

local function cancel(id, user)
  local holder = holder_of(id)
  if holder and is_anothers(holder, user) then return 'n' end
  local was = holder and end_message(holder, id, true)
  if was == 'leased' then return 'C' end
  return was and 'c' or 'u'
end

local letters = {}
for i = 1 + 3 * #marks, #ARGV, 6 do
  local operation, uid, id, time, priority, envelope =
    ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local by_operator, letter = of_operator[operation] ~= nil, nil
  operation = of_operator[operation] or operation
  if operation == 'in' then
    -- Without a delay it is due now, and not at the end of this millisecond.
    local delay = math.ceil(tonumber(time))
    local due = delay > 0 and now + delay or now - 1
    letter = park(uid, id, due, tonumber(priority), envelope, by_operator)
  elseif operation == 'at' then
    letter = park(uid, id, math.ceil(tonumber(time)), tonumber(priority), envelope, by_operator)
  elseif operation == 'since' then
    local written, delay = string.match(time, '^(%d+) (%d+)$')
    local due = math.min(tonumber(written), now) + tonumber(delay)
    letter = park(uid, id, due, tonumber(priority), envelope, by_operator)
  elseif operation == 'bury' then
    letter = bury(uid, time, now, envelope)
  else
    letter = cancel(id, time)
  end
  letters[#letters + 1] = letter
end
write()
remember_gone(gone_key, now, ended)
if #marks > 0 then redis.call('HSET', mark_key, unpack(marks)) end
return { sequence, now, earliest, table.concat(letters) }
