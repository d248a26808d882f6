-- envelope: reads what a script has to know of a message from its envelope, whose layout is in
-- src/store/envelope.rs. Put in front of every script that asks.
--
-- What is no envelope, is of another version or is not AMQP has none of it. Nothing here fails,
-- whatever the bytes are: a script may have written already.

-- The properties in the order of their flags: bytes each takes, or how it says so itself.
local SHORT, TABLE = 'a byte of length', 'four bytes of length'
local PROPERTIES = { SHORT, SHORT, TABLE, 1, 1, SHORT, SHORT, SHORT, SHORT, 8, SHORT, SHORT }
local PRIORITY, USER_ID = 5, 12

-- The number in so many bytes of `value`, 0 when it is cut short.
local function number_at(value, at, bytes)
  local number = 0
  for i = at, at + bytes - 1 do number = number * 256 + (string.byte(value, i) or 0) end
  return number
end

-- Where a property begins and how long it is, in the envelope that begins at `from` in `value`.
local function property(value, from, wanted)
  if number_at(value, from, 2) ~= 0x0101 then return nil end
  -- Before it: the head, the producer's id, the routing key, the length of all properties.
  local at = from + 14
  at = at + 1 + number_at(value, at, 1)
  at = at + 1 + number_at(value, at, 1) + 4
  local flags = number_at(value, at, 2)
  at = at + 2
  for place = 1, wanted do
    local has = math.floor(flags / 2 ^ (16 - place)) % 2 == 1
    local length = has and PROPERTIES[place] or 0
    if length == SHORT then length = 1 + number_at(value, at, 1) end
    if length == TABLE then length = 4 + number_at(value, at, 4) end
    if place == wanted then return has and at or nil, length end
    at = at + length
  end
end

-- The user-id that the broker validated when the message was published, or ''.
local function user_of(value, from)
  local at, length = property(value, from, USER_ID)
  return at and string.sub(value, at + 1, at + length - 1) or ''
end

-- Its AMQP priority.
local function priority_of(value, from)
  local at = property(value, from, PRIORITY)
  return at and number_at(value, at, 1) or 0
end
