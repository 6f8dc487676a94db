-- What a batch looks like by its first bytes, and how batches stand in a stream. The same as `framing.py`, step by step.

local byte = string.byte
local looks = {}
Z.looks = looks

local FRAME, FRAGMENT, KEEP_ALIVE, CLOSE, INIT, OPEN = 5, 6, 4, 3, 1, 2
local LEAST_NETWORK = 0x19
local VERSION = 9
local QOS = 0x31
local LONGEST_VLE = 9 -- bytes
local MOST_SN_BITS = 28
local of_open =
  { [0x01] = true, [0x22] = true, [0x42] = true, [0x43] = true, [0x44] = true, [0x04] = true, [0x05] = true, [0x06] = true, [0x27] = true }

looks.HEAD = 32 -- bytes of a batch that are looked at

-- Places count from 0, `stop` is the one behind the last byte that may be looked at.

local function is_network(header)
  return header % 32 >= LEAST_NETWORK
end

-- Returns the number at a place and where it ends; nil when it does not.
local function vle(raw, at, stop)
  local value, scale = 0, 1
  for index = at, math.min(at + LONGEST_VLE, stop) - 1 do
    local digit = byte(raw, index + 1)
    value, scale = value + digit % 128 * scale, scale * 128
    if digit < 128 then return value, index + 1 end
  end
end

-- The sequence number and extensions of FRAME and FRAGMENT: returns bits of evidence (0: it cannot be one), lane, number, bits
-- that a number tells when it is the one expected, and where they end.
local function numbered(raw, at, stop)
  local header = byte(raw, at + 1)
  local sn, behind = vle(raw, at + 1, stop)
  if not sn then return 0 end
  local sn_bits = math.min(7 * (behind - at - 1), MOST_SN_BITS)
  local bits, lane, more = 5, header % 64, header >= 128
  at = behind
  while more and at + 1 < stop do
    local kind, next_one = byte(raw, at + 1, at + 2)
    more, kind = kind >= 128, kind % 128
    if kind == QOS then
      lane, at = lane % 256 + next_one % 8 * 256, at + 1
    elseif kind ~= 2 and kind ~= 3 then
      return 0
    end
    bits, at = bits + 3, at + 1
  end
  if more then return 0 end
  return bits, lane, sn, sn_bits, at
end

-- A FRAME: behind its own fields the header of a network message.
local function frame(raw, at, stop, size)
  if byte(raw, at + 1) % 128 >= 64 then return 0 end
  local bits, lane, sn, sn_bits, behind = numbered(raw, at, stop)
  if bits == 0 or behind == at + size then return bits, lane, sn, sn_bits end
  if behind >= stop or not is_network(byte(raw, behind + 1)) then return 0 end
  return bits + 3, lane, sn, sn_bits
end

-- Do lease, sequence number and, in OPEN_SYN, the cookie end where the batch does, or extensions begin?
local function is_open(raw, at, stop, size)
  local header, ends = byte(raw, at + 1), at + size
  local behind = at + 1
  for _ = 1, 2 do
    local value
    if behind then value, behind = vle(raw, behind, stop) end
  end
  if behind and header % 64 < 32 then
    local cookie
    cookie, behind = vle(raw, behind, stop)
    behind = behind and cookie <= size and behind + cookie or nil
  end
  if not behind or header < 128 then return behind == ends end
  return behind < ends and (behind >= stop or of_open[byte(raw, behind + 1) % 128] or false)
end

-- Returns bits of evidence, and for FRAME and FRAGMENT lane, number and what that tells; at the end whether it is a FRAGMENT,
-- and whether it is INIT or OPEN.
local function message(raw, at, stop, size)
  if at >= stop or size == 0 then return 0 end
  local header = byte(raw, at + 1)
  local id = header % 32
  if id == FRAME then return frame(raw, at, stop, size) end
  if id == FRAGMENT then
    local bits, lane, sn, sn_bits = numbered(raw, at, stop)
    return bits, lane, sn, sn_bits, true
  end
  if id == KEEP_ALIVE then return size == 1 and header == KEEP_ALIVE and 8 or 0 end
  if id == CLOSE then return size == 2 and header < 64 and 12 or 0 end
  if id == INIT then
    return size >= 4 and at + 1 < stop and byte(raw, at + 2) == VERSION and 12 or 0, nil, nil, nil, nil, true
  end
  if id == OPEN then return is_open(raw, at, stop, size) and 8 or 0, nil, nil, nil, nil, true end
  return is_network(header) and size >= 2 and 3 or 0
end

-- Where the literals of an LZ4 block behind the header byte begin; nil if there are fewer than four.
local function literals(raw, at, stop)
  local token = byte(raw, at + 2)
  if token < 0x40 then return nil end
  at = at + 2
  if token >= 0xf0 then
    while at < stop and byte(raw, at + 1) == 255 do at = at + 1 end
    at = at + 1
  end
  return at
end

-- Judges a batch of a size by its first bytes, compressed or not; answers as `message` does.
function looks.at(raw, at, stop, size)
  if at >= stop then return 0 end
  local first, second = byte(raw, at + 1, at + 2)
  if first > 1 or stop - at < 2 then return message(raw, at, stop, size) end
  local bits, lane, sn, sn_bits, fragment, opens = message(raw, at, stop, size)
  if bits == 0 then
    if first == 0 then return message(raw, at + 1, stop, size - 1) end
    local inside = second and literals(raw, at, stop)
    if inside then return message(raw, inside, stop, size) end
  end
  return bits, lane, sn, sn_bits, fragment, opens
end

-- Where batches may stand --------------------------------------------------------------------------

local place = {}
looks.place = place

-- Each returns where the batch begins and ends whose length stands at a place, and its mask; nil when the length is not complete,
-- false when no batch can stand there.
place[2] = function(raw, at)
  local low, high = byte(raw, at + 1, at + 2)
  if high then return at + 2, at + 2 + low + high * 256 end
end

place[4] = function(raw, at)
  local first, second, third, fourth = byte(raw, at + 1, at + 4)
  if fourth then return at + 4, at + 4 + first + second * 256 + third * 65536 + fourth * 16777216 end
end

-- Places worth a look ------------------------------------------------------------------------------

-- What a byte of a head may be: 1 FRAME, 2 FRAME with extensions, 3 FRAGMENT, 4 that with extensions, 5 INIT.
local kinds = {}
for header = 0, 255 do
  local id = header % 32
  if header == 0x05 or header == 0x25 then kinds[header] = 1 end
  if header == 0x85 or header == 0xa5 then kinds[header] = 2 end
  if id == FRAGMENT then kinds[header] = header < 128 and 3 or 4 end
  if id == INIT then kinds[header] = 5 end
end
local of_fragments = { [0x02] = true, [0x03] = true, [0x31] = true, [0x82] = true, [0x83] = true, [0xb1] = true }

local function is_message(raw, at, size)
  local kind = kinds[byte(raw, at + 1) or 0]
  if not kind then return false end
  if kind == 5 then return byte(raw, at + 2) == VERSION end
  local _, behind = vle(raw, at + 1, size)
  if not behind then return false end
  if kind == 3 then return true end
  local next_one = byte(raw, behind + 1)
  if not next_one then return false end
  if kind == 1 then return is_network(next_one) end
  if kind == 2 then return next_one == QOS or next_one == QOS + 128 end
  return of_fragments[next_one] or false
end

local function behind_token(raw, at)
  local token = byte(raw, at + 1) or 0
  if token < 0x40 then return nil end
  at = at + 1
  if token < 0xf0 then return at end
  for _ = 1, 3 do
    if byte(raw, at + 1) ~= 255 then break end
    at = at + 1
  end
  local last = byte(raw, at + 1)
  return last and last < 255 and at + 1 or nil
end

local closes = { [0x03] = true, [0x23] = true }

local function is_short(raw, at, size, first, second, third, fourth)
  if first + second > 0 then
    if kinds[third] and is_message(raw, at + 2, size) then return true end
    if third == 0 and kinds[fourth] and is_message(raw, at + 3, size) then return true end
    if third == 1 then
      local inside = behind_token(raw, at + 3)
      if inside and is_message(raw, inside, size) then return true end
    end
  end
  if second ~= 0 then return false end
  if third % 32 == OPEN then return true end
  if first == 1 then return third == KEEP_ALIVE end
  if first == 2 then return closes[third] or (third == 0 and fourth == KEEP_ALIVE) or false end
  return first == 3 and third == 0 and closes[fourth] or false
end

local function is_long(raw, at, first, second, third, fourth)
  local fifth = byte(raw, at + 5)
  if not fifth or fourth ~= 0 then return false end
  if first > 0 or second > 0 then
    if is_network(fifth) then return true end
  end
  if second > 0 or third > 0 then return false end
  return (first == 1 and fifth == KEEP_ALIVE) or (first == 2 and closes[fifth]) or false
end

-- Calls `take` with each place from `from` on where a batch of a framing may begin.
function looks.candidates(raw, prefix, from, take)
  local size = #raw
  local first, second, third, fourth = byte(raw, from + 1, from + 4)
  local at = from
  while third do
    if prefix == "ws" then
      if first == 0x82 and second > 0 then take(at) end
    elseif prefix == 2 then
      if (kinds[third] or third < 2 or second == 0) and is_short(raw, at, size, first, second, third, fourth) then take(at) end
    elseif fourth == 0 and is_long(raw, at, first, second, third, fourth) then
      take(at)
    end
    at = at + 1
    first, second, third, fourth = second, third, fourth, byte(raw, at + 4)
  end
end
