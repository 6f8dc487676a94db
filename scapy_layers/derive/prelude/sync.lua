-- Where batches begin in a stream that is not seen from its beginning, or of which a part is missing; and which streams
-- on our ports are something else.

local byte = string.byte

local MOST_SOUGHT = 262144 -- bytes of a direction that are looked through before it counts as foreign
local LEAST_PROOF = 8 -- bytes of whole batches that show where batches begin
local WORK = 8 -- bytes read for each byte that is looked through
local CLOSE, KEEP_ALIVE = 3, 4
local VERSION = 9
local SHORTEST_INIT = 4 -- header, version, length of the ZenohID and role, one byte of it
local LEAST_BYTES = 4 -- that tell an INIT

-- May a batch begin with this byte? Compressed ones begin with 0 or 1.
local possible = { [0] = true, [1] = true }
for header = 0, 255 do
  local id = header % 32
  possible[header] = possible[header] or (id >= 1 and id <= 7) or id >= 0x19
end

local budget = 0

local function is_batch(raw)
  budget = budget - #raw
  if Z.strict(raw, "batch") then return true end
  local inside = byte(raw, 1) <= 1 and Z.links.decompressed(raw)
  return inside and Z.strict(inside, "batch")
end

-- Follows batches from a place on; returns how many bytes of whole ones were read, nil when it cannot be so.
local function follow(raw, at, prefix)
  local size, proven = #raw, 0
  while at < size do
    if size - at <= prefix then return proven end
    local first, second, third, fourth = byte(raw, at + 1, at + 4)
    local length = first + second * 256
    if prefix == 4 then length = length + third * 65536 + fourth * 16777216 end
    local start = at + prefix
    if length == 0 or not possible[byte(raw, start + 1)] then return nil end
    if start + length > size then
      if length > 65535 and prefix == 4 then return nil end
      return proven
    end
    if budget < 0 or not is_batch(raw:sub(start + 1, start + length)) then return nil end
    proven = proven + length
    at = start + length
  end
  return proven
end

local function proves(raw, at, least)
  for prefix = 2, 4, 2 do
    local proven = follow(raw, at, prefix)
    if proven and proven >= least then return true end
  end
  return false
end

-- Does a direction begin here?
local function begins(way, raw)
  local first, second, id, version = byte(raw, 1, 4)
  if id % 32 == 1 and version == VERSION and first + second * 256 >= SHORTEST_INIT then return true end
  -- Who is asked to INIT may CLOSE instead; whoever speaks to somebody who speaks Zenoh does so too.
  return way.opposite.begun and possible[id] and proves(raw, 0, id % 32 == CLOSE and 2 or 1)
end

local function seek(raw)
  budget = WORK * #raw + 4096
  local most = math.min(#raw, 65536)
  for at = 0, most - 3 do
    local id = byte(raw, at + 3)
    if possible[id] or possible[byte(raw, at + 5) or -1] then
      if proves(raw, at, LEAST_PROOF) then return at end
      if budget < 0 then return nil end
    end
  end
  return nil
end

-- Returns how many bytes in front of the first batch belong to none: all when none is found; nil when the direction is
-- something else; -1 when there are too few bytes to tell. `key` is a number of its own for each call of the dissector.
function Z.sync(way, raw, key, visited)
  if visited then
    if way.foreign and key >= way.foreign then return nil end
    return way.skipped and way.skipped[key] or 0
  end
  if way.foreign then return nil end
  if way.begun and not way.broken then return 0 end
  local size = #raw
  if not way.begun and size < LEAST_BYTES and not way.opposite.begun then return -1 end
  if not way.begun and begins(way, raw) then
    way.begun, way.broken = true, false
    return 0
  end
  local at
  if way.begun or way.opposite.begun then
    -- After a hole most often a batch begins with the segment.
    budget = WORK * size + 4096
    if proves(raw, 0, 1) then at = 0 end
  end
  at = at or seek(raw)
  if at then
    way.begun, way.broken = true, false
    way.sought = 0
  else
    way.sought = (way.sought or 0) + size
    if not way.begun and not way.opposite.begun and way.sought == size and size > 0 then
      -- The first bytes are no Zenoh: let others look at them.
      way.foreign = key
      return nil
    end
    if way.sought > MOST_SOUGHT then way.foreign = key end
    at = size
  end
  if at > 0 then
    way.skipped = way.skipped or {}
    way.skipped[key] = at
    Z.links.doubt(way, way.place or 0)
  end
  return at
end
