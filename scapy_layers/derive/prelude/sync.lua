-- Where batches begin in a stream that is not seen from its beginning, or of which a part is missing; and which streams
-- on our ports are something else.

local byte = string.byte

local MOST_SOUGHT = 262144 -- bytes of a direction that are looked through; then only segments that are whole batches count
local LEAST_PROOF = 8 -- bytes of whole batches that show where batches begin on a link known to be Zenoh
local STRANGER_PROOF = 20 -- and on one that is not known
local WORK = 8 -- bytes read for each byte that is looked through
local SMALL = 2 -- bytes of KEEP_ALIVE and CLOSE, which prove nothing
local CLOSE = 3
local LONGEST_CLOSE = 6 -- bytes of it and its length, alone in a segment
local FRAME, FRAGMENT = 5, 6
local VERSION = 9
local SHORTEST_INIT = 4 -- header, version, length of the ZenohID and role, one byte of it
local LEAST_BYTES = 4 -- that tell an INIT
local LEAST_BEGUN = 16 -- bytes that tell what goes on in the next segment
local HEAD = 16 -- bytes of a batch that tell its sequence number
local LONGEST_SN = 9 -- bytes
local LINKED = 24 -- bits of sequence numbers that count on, to be believed
local LZ4_LITERALS, LZ4_MORE = 0x40, 0xf0 -- tokens of a block with four literals or more, of one with a length behind it

-- May a batch begin with this byte? Compressed ones begin with 0 or 1.
local possible = { [0] = true, [1] = true }
for header = 0, 255 do
  local id = header % 32
  possible[header] = possible[header] or (id >= 1 and id <= 7) or id >= 0x19
end

-- The extensions that FRAME and FRAGMENT may have.
local of_frames = { [0x31] = true, [0xb1] = true, [0x02] = true, [0x82] = true, [0x03] = true, [0x83] = true }

local budget = 0

-- Does strict decoding take it, and is there a FRAGMENT in it?
local function is_batch(raw)
  budget = budget - #raw
  local strict, fragment = Z.strict(raw, "batch")
  if strict then return true, fragment end
  local inside = byte(raw, 1) <= 1 and Z.links.decompressed(raw)
  if inside then return Z.strict(inside, "batch") end
  return false
end

-- Returns reliability, sequence number, its bytes and the id of the FRAME or FRAGMENT that a batch begins with, compressed
-- or not, and the byte behind; nil if it begins with something else or cannot be read so far.
local function numbered(raw, at)
  local first = byte(raw, at + 1)
  if first == 0 then
    at = at + 1
  elseif first == 1 then
    local token = byte(raw, at + 2)
    if not token or token < LZ4_LITERALS then return nil end
    at = at + 2
    if token >= LZ4_MORE then
      while byte(raw, at + 1) == 255 do at = at + 1 end
      at = at + 1
    end
  end
  local header = byte(raw, at + 1)
  local id = header and header % 32
  if id ~= FRAGMENT and (id ~= FRAME or header % 128 >= 64) then return nil end
  local sn, scale, digits = 0, 1, 0
  repeat
    digits = digits + 1
    local digit = byte(raw, at + 1 + digits)
    if not digit or digits > LONGEST_SN then return nil end
    sn, scale = sn + digit % 128 * scale, scale * 128
  until digit < 128
  local behind = byte(raw, at + 2 + digits)
  if header >= 128 and not of_frames[behind] then return nil end
  return (header - id) % 64, sn, digits, id, header < 128 and behind
end

-- Follows batches from a place on; returns how many bytes of whole ones were read, nil when it cannot be so, and whether
-- nothing is left behind them. Behind the head of a FRAGMENT may be anything, so it proves nothing but by its sequence
-- number: with the next one that counts on. (Behind the last FRAGMENT real nodes leave one out.)
local function follow(raw, at, prefix)
  local size, proven, linked = #raw, 0, 0
  local lane, last
  while at < size do
    if size - at <= prefix then break end
    local first, second, third, fourth = byte(raw, at + 1, at + 4)
    local length = first + second * 256
    if prefix == 4 then length = length + third * 65536 + fourth * 16777216 end
    local start = at + prefix
    if length == 0 or not possible[byte(raw, start + 1)] then return nil end
    local on, sn, digits, id = numbered(raw, start)
    if sn and last and on == lane and (sn == last + 1 or sn == last + 2) then linked = linked + 7 * digits + 4 end
    if sn then lane, last = on, sn end
    if start + length > size then
      if length > 65535 and prefix == 4 then return nil end
      break
    end
    if budget < 0 then return nil end
    if id == FRAGMENT then
      -- Chains of small ones that lie over each other must not cost time.
      budget = budget - HEAD
    else
      local strict, fragment = is_batch(raw:sub(start + 1, start + length))
      if not strict then return nil end
      if length > SMALL and not fragment then proven = proven + length end
    end
    at = start + length
  end
  if linked >= LINKED then proven = proven + STRANGER_PROOF end
  return proven, at >= size
end

local function proves(raw, at, least)
  for prefix = 2, 4, 2 do
    local proven = follow(raw, at, prefix)
    if proven and proven >= least then return true end
  end
  return false
end

-- Is it batches from the first byte to the last? Batches are written one at a time, so most segments of a session are,
-- and what is not Zenoh has no lengths that lead to its end. KEEP_ALIVE will do: who only listens says no more. So does
-- CLOSE on a link that is known; on another it is all that there will be. Returns how many bytes of it prove something, too.
local function is_whole(raw, known)
  if not known and #raw > 2 and #raw <= LONGEST_CLOSE and byte(raw, -2) % 32 == CLOSE then return false end
  budget = WORK * #raw + 4096
  for prefix = 2, 4, 2 do
    local proven, whole = follow(raw, 0, prefix)
    if whole then return true, proven end
  end
  return false
end

-- May a FRAME, a FRAGMENT or, in low latency, a network message begin here that ends in a segment to come? A FRAGMENT is
-- only told from anything else by the number of the next one.
local function is_begun(way, raw)
  local size = #raw
  if size < LEAST_BEGUN then return false end
  local first, second, third, fourth, fifth = byte(raw, 1, 5)
  local length = first + second * 256
  if third == 0 and fourth == 0 then return length > size - 4 and fifth % 32 >= 0x19 end
  local _, sn, _, id, message = numbered(raw, 2)
  if length <= size - 2 - (id == FRAGMENT and HEAD or 0) then return false end
  if not sn and third <= 1 then
    local now = Z.links.latest(way.link)
    return now.compression or now.compressed or false
  end
  if not sn or sn >= 4294967296 then return false end
  return id == FRAGMENT or not message or message % 32 >= 0x19
end

-- Random bytes look like the begin of something large now and then, and nothing is to come of it: then the segments behind
-- are batches from their first byte on. Returns where the latest of them begins if it is so.
local function begins_behind(raw, waited, known)
  local whole, proven = is_whole(raw:sub(waited + 1), known)
  return whole and proven >= LEAST_PROOF and waited or nil
end

-- Does a direction begin here?
local function begins(way, raw)
  local first, second, id, version = byte(raw, 1, 4)
  if id % 32 == 1 and version == VERSION and first + second * 256 >= SHORTEST_INIT then return true end
  -- Who is asked to INIT may CLOSE instead; whoever speaks to somebody who speaks Zenoh does so too.
  if not way.opposite.begun or not possible[id] then return false end
  budget = WORK * #raw + 4096
  local proven, whole = follow(raw, 0, 2)
  return whole or (proven ~= nil and proven >= LEAST_PROOF)
end

-- What may stand on our ports instead: TLS records, WebSocket upgrades and other HTTP.
local function is_other(raw)
  local first, second, third = byte(raw, 1, 3)
  if first == 22 and second == 3 and third <= 4 then return true end
  return raw:find("^GET /") ~= nil or raw:find("^HTTP/") ~= nil
end

local function seek(raw, least)
  budget = WORK * #raw + 4096
  local most = math.min(#raw, 65536)
  for at = 0, most - 3 do
    local id = byte(raw, at + 3)
    if possible[id] or possible[byte(raw, at + 5) or -1] then
      if proves(raw, at, least) then return at end
      if budget < 0 then return nil end
    end
  end
  return nil
end

-- Notes for later passes what belongs to no batch: so many bytes, nil for all of a segment that others may look at.
local function skip(way, key, bytes)
  way.skipped = way.skipped or {}
  way.skipped[key] = bytes or false
  if bytes then
    Z.links.doubt(way, key)
    way.next = way.next and way.next + bytes
  end
  return bytes
end

-- Does a direction begin after all that was given up? A session that is joined in the middle of a transfer ends it once.
local function begins_after_all(way, raw)
  if not way.given_up then return false end
  local known = way.opposite.begun
  local whole, proven = is_whole(raw, known)
  return whole and (known or proven >= LEAST_PROOF)
end

local function was_foreign(way, key)
  for index = 1, #(way.abroad or "") do
    local from, to = way.abroad[index][1], way.abroad[index][2]
    if key >= from and key < to then return true end
  end
  return way.foreign ~= nil and key >= way.foreign
end

-- Returns how many bytes in front of the first batch belong to none: all when none is found; nil when it is not known to
-- be Zenoh, so others may look at it; -1 when there are too few bytes to tell. `key` is a number of its own for each call
-- of the dissector.
function Z.sync(way, raw, key, visited)
  if visited then
    if was_foreign(way, key) then return nil end
    local skipped = way.skipped and way.skipped[key]
    if skipped == false then return nil end
    return skipped or 0
  end
  if way.foreign then
    if not begins_after_all(way, raw) then return nil end
    way.abroad = way.abroad or {}
    way.abroad[#way.abroad + 1] = { way.foreign, key }
    way.foreign, way.given_up, way.begun, way.broken, way.sought = nil, false, true, false, 0
    Z.links.doubt(way, key)
    return 0
  end
  if way.begun and not way.broken then return 0 end
  local size, known = #raw, way.begun or way.opposite.begun
  if not way.begun and size < LEAST_BYTES and not is_whole(raw, known) then return -1 end
  if not way.begun and begins(way, raw) then
    way.begun, way.broken = true, false
    return 0
  end
  if not known and is_other(raw) then
    way.foreign, way.opposite.foreign = key, key
    return nil
  end
  local at = is_whole(raw, known) and 0 or nil
  if known and not at then
    -- After a hole most often a batch begins with the segment.
    budget = WORK * size + 4096
    if proves(raw, 0, 1) then at = 0 end
  end
  local waited = way.waited
  way.waited = nil
  if not at and is_begun(way, raw) then
    at = waited and begins_behind(raw, waited, known)
    if not at then
      way.waited = size
      return -1
    end
  end
  at = at or seek(raw, known and LEAST_PROOF or STRANGER_PROOF)
  local answer = at
  if at then
    way.begun, way.broken, way.sought = true, false, 0
  else
    way.sought = (way.sought or 0) + size
    if way.sought > MOST_SOUGHT then way.foreign, way.given_up = key, true end
    if known then answer = size end
  end
  return answer == 0 and 0 or skip(way, key, answer)
end
