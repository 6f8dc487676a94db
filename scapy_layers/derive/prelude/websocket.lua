-- WebSocket on our ports: the HTTP upgrade, and frames behind it, wherever the capture begins and whatever is missing.
-- Spec: RFC 6455. Wireshark's own dissector shows each frame, and finds no begin but that of the connection.

local byte, char, sub, find = string.byte, string.char, string.sub, string.find
local floor, concat = math.floor, table.concat
local websocket = {}
Z.websockets = websocket

local MAX_HEADER = 16384 -- bytes of the HTTP header that are waited for
local FIN, BINARY, CLOSE = 128, 2, 8
local opcodes = { [0] = true, [1] = true, [2] = true, [8] = true, [9] = true, [10] = true }
local MOST_SHOWN = 64 -- frames of a packet that go to Wireshark's own dissector: it gives a packet up that went through 500
local MOST_UNMASKED = 262144 -- bytes of a message that it unmasks, and hands on
local SLICE = 4096 -- bytes that are made a string at a time

-- Masks --------------------------------------------------------------------------------------------

-- Exclusive or of two halves of bytes: Lua 5.1 has none.
local halves = {}
for one = 0, 15 do
  halves[one] = {}
  for other = 0, 15 do
    local value, scale, a, b = 0, 1, one, other
    for _ = 1, 4 do
      if a % 2 ~= b % 2 then value = value + scale end
      a, b, scale = floor(a / 2), floor(b / 2), scale * 2
    end
    halves[one][other] = value
  end
end

local function table_of(key)
  local low, high, made = halves[key % 16], halves[floor(key / 16)], {}
  for value = 0, 255 do made[value] = char(high[floor(value / 16)] * 16 + low[value % 16]) end
  return made
end

-- Returns a function that takes the mask of four bytes away.
local function unmasking(mask)
  return function(raw)
    local keys = { table_of(byte(mask, 1)), table_of(byte(mask, 2)), table_of(byte(mask, 3)), table_of(byte(mask, 4)) }
    local slices = {}
    for from = 1, #raw, SLICE do
      local out = {}
      for index = from, math.min(from + SLICE - 1, #raw) do
        out[index - from + 1] = keys[(index - 1) % 4 + 1][byte(raw, index)]
      end
      slices[#slices + 1] = concat(out)
    end
    return concat(slices)
  end
end

-- Frames -------------------------------------------------------------------------------------------

-- Reads the header of a frame: its first byte, where its payload begins and ends, and the mask; nil when it is not complete,
-- false when no frame looks like that.
local function frame(raw, at)
  local first, size = byte(raw, at + 1, at + 2)
  if not size then return nil end
  local opcode, masked = first % 16, size >= 128
  size = size % 128
  if first % 128 >= 16 or not opcodes[opcode] then return false end
  if opcode >= CLOSE and (size > 125 or first < FIN) then return false end
  at = at + 2
  if size >= 126 then
    local wide = size == 126 and 2 or 8
    if at + wide > #raw then return nil end
    size = 0
    for index = 1, wide do size = size * 256 + byte(raw, at + index) end
    -- Eight bytes may be more than an integer of Lua holds: larger than any message they are in any case.
    if wide == 8 and find(sub(raw, at + 1, at + 3), "[^%z]") then size = 1099511627776 end
    at = at + wide
  end
  if not masked then return first, at, at + size end
  if at + 4 > #raw then return nil end
  return first, at + 4, at + 4 + size, sub(raw, at + 1, at + 4)
end
websocket.frame = frame

-- As `looks.place` has it: the message whose only frame stands at a place.
Z.looks.place.ws = function(raw, at)
  local first, start, behind, mask = frame(raw, at)
  if not first then return first end
  if first ~= FIN + BINARY then return false end
  return start, behind, mask and unmasking(mask)
end

-- The upgrade --------------------------------------------------------------------------------------

local function has_field(header, name, pattern)
  for line in header:gmatch("[^\r\n]+") do
    local field, value = line:match("^([%w%-]+):(.*)$")
    if field and field:lower() == name and find(" " .. value:lower() .. " ", pattern) then return true end
  end
  return false
end

-- Does a text begin with another one, as far as it goes?
local function starts(raw, text)
  return sub(raw, 1, #text) == sub(text, 1, #raw)
end

-- Tells how many bytes of HTTP begin a direction that is upgraded to WebSocket: nil when it is something else, -1 when the
-- header is not complete. A response that agrees to extensions is something else: its frames cannot be read. Any request is
-- one: what it asks for may be written in another way, and its answer tells.
function websocket.upgrade(raw)
  local asks, agrees = starts(raw, "GET "), starts((sub(raw, 1, 12):gsub("^(HTTP/1%.).", "%11")), "HTTP/1.1 101")
  if not asks and not agrees then return nil end
  local _, stop = find(raw, "\r\n\r\n", 1, true)
  if not stop or stop > MAX_HEADER then return #raw < MAX_HEADER and -1 or nil end
  if asks then return stop end
  local header = sub(raw, 1, stop)
  if not has_field(header, "upgrade", "[^%w_]websocket[^%w_]") then return nil end
  if has_field(header, "sec-websocket-extensions", "%S") then return nil end
  return stop
end

-- Whom Wireshark asks ------------------------------------------------------------------------------

local function dissector(name)
  local found, made = pcall(Dissector.get, name)
  return found and made or nil
end

-- Shows bytes by another dissector; it may not ask for more. Tells whether it handed something on to us.
function websocket.show(name, tvb, pinfo, tree)
  local made = dissector(name)
  if not made then return false end
  local offset, len = pinfo.desegment_offset, pinfo.desegment_len
  Z.carrying, Z.carried = true, false
  pcall(function() made:call(tvb, pinfo, tree) end)
  Z.carrying = false
  pinfo.desegment_offset, pinfo.desegment_len = offset, len
  return Z.carried
end

-- May a message be the first one? To what an upgrade to WebSocket was, is not told before.
local function is_first(raw, start, behind, mask)
  local head = sub(raw, start + 1, math.min(behind, start + 4))
  if mask then head = unmasking(mask)(head) end
  local id, version, packed = byte(head, 1, 3)
  return version == 9 and id % 32 == 1 and behind - start >= 4 + floor(packed / 16)
end

-- Is a frame out of place: a message inside of another, or the rest of none? Takes note of those that are not.
local function is_astray(way, first)
  local opcode = first % 16
  if opcode >= CLOSE then return false end
  if (way.in_message or false) ~= (opcode == 0) then return true end
  way.in_message = first < FIN
  return false
end

-- Reads frames from a place on; returns as `Z.entry.stream` does.
function websocket.frames(tvb, pinfo, tree, way, raw, at, key)
  local size, shown = #raw, 0
  while at < size do
    local first, start, behind, mask = frame(raw, at)
    if first == nil then
      pinfo.desegment_offset, pinfo.desegment_len = at, DESEGMENT_ONE_MORE_SEGMENT
      return size
    end
    if first and behind > size and behind - start <= websocket.LONGEST then
      if first == FIN + BINARY then Z.links.begun(way, behind - at) end
      pinfo.desegment_offset, pinfo.desegment_len = at, behind - size
      return size
    end
    if first == false or behind - start > websocket.LONGEST or (not way.visited and is_astray(way, first)) or Z.was_wrong(way, at, key) then
      local from = at
      at = Z.go_on(way, raw, from, key)
      if not at then
        pinfo.desegment_offset, pinfo.desegment_len = from, DESEGMENT_ONE_MORE_SEGMENT
        return size
      end
    else
      if first == FIN + BINARY and not way.begun then
        if not way.opposite.begun and not is_first(raw, start, behind, mask) then
          way.foreign, way.opposite.foreign = key, key
          return size
        end
        way.begun = true
      end
      local begin = way.next
      shown = shown + 1
      local cut = mask and behind - start > MOST_UNMASKED
      local handed = false
      if shown <= MOST_SHOWN and not cut or first ~= FIN + BINARY then
        handed = websocket.show("websocket", tvb(at, behind - at):tvb(), pinfo, tree)
      end
      -- Of a packet that the capture has cut off Wireshark may hand on nothing, not even frames that are whole.
      if first == FIN + BINARY and behind > start and not handed then
        local inside = tvb(start, behind - start):tvb()
        if mask then inside = ByteArray.new(unmasking(mask)(sub(raw, start + 1, behind)), true):tvb("Unmasked data") end
        Z.entry.message(inside, pinfo, tree)
      end
      way.next = begin and begin + behind - at
      at = behind
    end
  end
  return size
end
websocket.LONGEST = 16777216 -- bytes of a message
