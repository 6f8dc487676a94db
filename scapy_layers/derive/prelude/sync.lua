-- Where batches begin in a stream that is not seen from its beginning, or of which a part is missing; and which streams
-- on our ports are something else.

local byte, sub = string.byte, string.sub
local seek = Z.seek

local VERSION = 9
local INIT, OPEN = 1, 2
local SHORTEST_INIT = 4 -- header, version, length of the ZenohID and role, one byte of it
local LONGEST_INIT = 4096 -- what says that it is longer may be the frame of a WebSocket
local LONGEST_RECORD = 18432 -- bytes of one of TLS
local HEAD = 32 -- bytes by which a buffer is known again
local REPEATED = -1
local FRAMINGS = { short = { 2 }, long = { 4 }, either = { 2, 4 }, ws = { "ws" }, unknown = { 2, 4, "ws" } }
local FOUND = { [2] = "short", [4] = "long", ws = "ws" }

-- Does a direction begin here? Who is asked to INIT may say something else in a packet, most often CLOSE.
local function begins(way, raw)
  local low, high, id, version = byte(raw, 1, 4)
  local size = high and low + high * 256
  if way.opposite.ws then return false end
  if version == VERSION and id % 32 == INIT and size >= SHORTEST_INIT and (size <= LONGEST_INIT or size + 2 <= #raw) then return true end
  return way.opposite.begun and not way.search and size and size > 0 and size + 2 == #raw and seek.is_batch(sub(raw, 3)) or false
end

-- What may stand on our ports instead: TLS records to the end, WebSocket upgrades and other HTTP.
local function is_other(raw)
  local at, size = 0, #raw
  while at < size do
    local kind, major, minor, high, low = byte(raw, at + 1, at + 5)
    if kind < 20 or kind > 23 or (major or 3) ~= 3 or (minor or 0) > 4 or (high or 0) * 256 + (low or 1) > LONGEST_RECORD then
      return raw:find("^GET /") ~= nil or raw:find("^HTTP/") ~= nil
    end
    at = low and at + 5 + high * 256 + low or size
  end
  return size > 2
end

-- Notes for later passes what belongs to no batch: so many bytes, nil for all of a segment that others may look at.
local function skip(way, key, bytes, read)
  way.skipped = way.skipped or {}
  way.skipped[key] = bytes or false
  if bytes then
    if not read then Z.links.doubt(way, key) end
    way.next = way.next and way.next + bytes
  end
  return bytes
end

-- Returns the searches in a buffer: those that go on, or new ones.
local function searches(way, raw, known)
  local style = Z.links.framing_of(way)
  if way.ws or way.opposite.ws then
    style = "ws"
  elseif style == "either" then
    style = way.style or way.opposite.style or (known and style or "unknown")
  end
  local search = way.search
  -- Other bytes than before: something is missing between them.
  if search and (search.size >= #raw or search.head ~= sub(raw, 1, #search.head)) then search = nil end
  if not search or search.style ~= style or search.known ~= known then
    local proof, ends = known and seek.KNOWN or seek.EXPECTED, search and search.ends or {}
    search = { style = style, known = known, ends = ends, size = search and search.size or 0 }
    for index, framing in ipairs(FRAMINGS[style]) do search[index] = seek.new(framing, proof, ends) end
    way.search = search
  end
  search.old, search.size, search.head = search.size, #raw, sub(raw, 1, HEAD)
  search.ends[#search.ends + 1] = #raw
  return search
end

local function find(way, raw, known)
  local search, best, most, framing = searches(way, raw, known), nil, 0, nil
  if search.at then return search.at end
  for index = 1, #search do
    local at, bits = seek.look(search[index], raw)
    if at and bits > most then best, most, framing = at, bits, search[index].framing end
  end
  search.at, search.found = best, framing
  if best and framing == "ws" then way.ws = true end
  if best and framing ~= "ws" and byte(raw, best + framing + 1) % 32 ~= OPEN then
    way.long = framing == 4 or nil
    if not known then way.style = FOUND[framing] end
  end
  return best
end

-- Of a buffer that is called for in one piece Wireshark asks for all once more when what is not complete in it begins in
-- front of the latest segment. Returns how many bytes are missing then: the batches are shown when those are there.
local function lacking(search, raw, at)
  local place, size = Z.looks.place[search.found], #raw
  while at < size do
    local _, behind = place(raw, at)
    if not behind or behind > size then
      return at <= search.old and (behind and behind - size or DESEGMENT_ONE_MORE_SEGMENT) or nil
    end
    at = behind
  end
end

-- Returns how many bytes in front of the first batch belong to none: all when none is found; nil when it is not known to
-- be Zenoh, so others may look at it; -1 when there are too few bytes to tell, and how many more are needed, 0 where all of
-- them were read before. `key` is a number of its own for each call
-- of the dissector.
function Z.sync(way, raw, key, visited)
  if visited then
    local skipped = way.skipped and way.skipped[key]
    if skipped == REPEATED then return -1, 0 end
    if skipped == false or (way.foreign and key >= way.foreign) then return nil end
    return skipped or 0
  end
  if way.repeated then
    way.repeated, way.skipped = nil, way.skipped or {}
    way.skipped[key] = REPEATED
    return -1, 0
  end
  if way.foreign then return nil end
  if way.passing then
    -- The rest of a batch of which bytes are missing.
    local left = math.min(way.passing - way.next, #raw)
    if left < #raw or way.passing - way.next == left then way.passing, way.due = false, nil end
    return skip(way, key, left)
  end
  if (way.begun or way.ws) and not way.broken then return 0 end
  local known, size = way.begun or way.opposite.begun or false, #raw
  if not way.begun and not way.ws and not way.search then
    local header = Z.websockets.upgrade(raw)
    if header == -1 then return -1, DESEGMENT_ONE_MORE_SEGMENT end
    if header then
      way.ws, way.broken, way.upgrades = true, false, way.upgrades or {}
      way.upgrades[key] = header
      return skip(way, key, header, true)
    end
  end
  if not way.begun and not way.ws and begins(way, raw) then
    way.begun, way.broken, way.search = true, false, nil
    return 0
  end
  local first = not way.search
  local at = find(way, raw, known)
  if not at and first and is_other(raw) and not (known and not way.opposite.ws) then
    way.foreign, way.opposite.foreign, way.search = key, key, nil
    return nil
  end
  if at then
    local more = way.search.old > 0 and lacking(way.search, raw, at)
    if more then return -1, more end
    way.begun, way.broken, way.search = true, false, nil
    return at == 0 and 0 or skip(way, key, at)
  end
  if size <= seek.MOST and #way.search.ends <= seek.MOST_PACKETS then return -1, DESEGMENT_ONE_MORE_SEGMENT end
  way.search = nil
  if known then return skip(way, key, size) end
  way.foreign = key
  return skip(way, key, nil)
end

-- Was there no batch at a place when it was read for the first time?
function Z.was_wrong(way, at, key)
  return way.visited and way.wrong ~= nil and way.wrong[key .. " " .. at] ~= nil
end

-- Goes on behind a place where no batch can begin: returns where the next one does; nil when that is not known yet.
function Z.go_on(way, raw, at, key)
  local name = key .. " " .. at
  way.wrong = way.wrong or {}
  if not way.visited then
    way.broken, way.search, way.in_message = true, nil, false
    local found = find(way, sub(raw, at + 1), true)
    way.wrong[name] = found and at + found or false
    Z.links.doubt(way, key)
    if found then
      way.broken, way.search = false, nil
      way.next = way.next and way.next + found
    end
  end
  return way.wrong[name] or nil
end
