-- What is Zenoh on ports that nobody named. Version, ids, lengths and reserved bits have to fit, and all of them have
-- to end exactly where the packet does; only then is a conversation claimed. In a stream the length in front of an INIT
-- is a fact already: there its fields may be wrong, which is what people look for.

local byte, sub, find = string.byte, string.sub, string.find
local VERSION = 9
local INIT, OPEN, FRAME, JOIN = 1, 2, 5, 7
local RESPONSE, REQUEST, PUSH = 0x1b, 0x1c, 0x1d
local SCOUT, HELLO = 1, 2
local LONGEST_LEASE = 86400000 -- ms, one day
local MOST_EXTENSIONS = 16
local LARGEST_JOIN = 1024 -- bytes
local MOST_REMEMBERED = 10000 -- ends that asked by SCOUT, links inside of others
local LARGEST_INIT = 1024 -- bytes, of one that comes in several segments
local MOST_BEGUN = 1000 -- ways on which one has begun

-- Shapes: each takes the place behind the header's byte and returns where the message ends, nil when it is none. ---

local function vle(raw, at, stop)
  local value, scale = 0, 1
  for index = at, at + 8 do
    if index >= stop then
      return nil
    end
    local c = byte(raw, index + 1)
    if c < 128 then
      return value + c * scale, index + 1
    end
    value, scale = value + (c - 128) * scale, scale * 128
  end
  return nil
end

-- Bytes with their count in front.
local function counted(raw, at, stop, least)
  local size, behind = vle(raw, at, stop)
  if not size or size < least or behind + size > stop then
    return nil
  end
  return behind + size, behind
end

-- `known` are header bytes without Z.
local function chain(raw, at, stop, known)
  for _ = 1, MOST_EXTENSIONS do
    local header = at < stop and byte(raw, at + 1)
    if not header or not known[header % 128] then
      return nil
    end
    local enc = (header % 128 - header % 32) / 32
    at = at + 1
    if enc == 1 then
      local value, behind = vle(raw, at, stop)
      at = value and behind
    elseif enc == 2 then
      at = counted(raw, at, stop, 0)
    end
    if not at or header < 128 then
      return at
    end
  end
  return nil
end

local function is_set(header, flag)
  return header % (2 * flag) >= flag
end

local function set_of(...)
  local found = {}
  for _, value in ipairs({ ... }) do
    found[value] = true
  end
  return found
end

local OF_INIT = set_of(0x01, 0x21, 0x42, 0x43, 0x44, 0x05, 0x06, 0x27, 0x48)
local OF_OPEN = set_of(0x01, 0x22, 0x42, 0x43, 0x44, 0x04, 0x05, 0x06, 0x27)
local OF_FRAME = set_of(0x31)
local OF_JOIN = set_of(0x51, 0x52, 0x27)
local NONE = {}

local function extensions(raw, at, stop, header, known)
  return is_set(header, 0x80) and chain(raw, at, stop, known) or (not is_set(header, 0x80) and at or nil)
end

-- Version, role and zid, as INIT, JOIN and HELLO have them.
local function introduction(raw, at, stop)
  local version, packed = byte(raw, at + 1, at + 2)
  if version ~= VERSION or not packed or packed % 16 > 2 then
    return nil -- another version, a reserved bit, or a role that does not exist
  end
  local behind = at + 2 + (packed - packed % 16) / 16 + 1
  -- A zid of zeros is none.
  if behind > stop or not find(sub(raw, at + 3, behind), "[^%z]") then
    return nil
  end
  return behind
end

-- Resolutions and batch size.
local function sizes(raw, at, stop)
  local resolution, low, high = byte(raw, at + 1, at + 3)
  if at + 3 > stop or resolution >= 16 or low + high == 0 then
    return nil
  end
  return at + 3
end

local function init(raw, at, stop)
  local header = byte(raw, at + 1)
  at = introduction(raw, at + 1, stop)
  if at and is_set(header, 0x40) then
    at = sizes(raw, at, stop)
  end
  if at and is_set(header, 0x20) then
    at = counted(raw, at, stop, 1)
  end
  return at and extensions(raw, at, stop, header, OF_INIT)
end

local function lease(raw, at, stop, header, seconds)
  local value, behind = vle(raw, at, stop)
  if not value or value == 0 or value * (is_set(header, seconds) and 1000 or 1) > LONGEST_LEASE then
    return nil
  end
  return behind
end

-- OpenSyn; OpenAck says too little to be told from anything else.
local function open(raw, at, stop)
  local header = byte(raw, at + 1)
  at = lease(raw, at + 1, stop, header, 0x40)
  local sn, behind = nil, nil
  if at then
    sn, behind = vle(raw, at, stop)
  end
  if not sn or sn >= 4294967296 then
    return nil
  end
  at = counted(raw, behind, stop, 8)
  return at and extensions(raw, at, stop, header, OF_OPEN)
end

local function join(raw, at, stop)
  local header = byte(raw, at + 1)
  at = introduction(raw, at + 1, stop)
  if at and is_set(header, 0x40) then
    at = sizes(raw, at, stop)
  end
  at = at and lease(raw, at, stop, header, 0x20)
  for _ = 1, 2 do
    local sn, behind = nil, nil
    if at then
      sn, behind = vle(raw, at, stop)
    end
    at = sn and sn < 4294967296 and behind
  end
  return at and extensions(raw, at, stop, header, OF_JOIN)
end

local function scout(raw, at, stop)
  local header, version, packed = byte(raw, at + 1, at + 3)
  if version ~= VERSION or not packed or header >= 32 or packed % 8 == 0 then
    return nil
  end
  if packed % 16 < 8 then
    return packed < 16 and at + 3 or nil -- without a zid there is nothing to be long
  end
  local behind = at + 3 + (packed - packed % 16) / 16 + 1
  if behind > stop or not find(sub(raw, at + 4, behind), "[^%z]") then
    return nil
  end
  return behind
end

local function hello(raw, at, stop)
  local header = byte(raw, at + 1)
  at = not is_set(header, 0x40) and introduction(raw, at + 1, stop)
  if at and is_set(header, 0x20) then
    local count, behind = vle(raw, at, stop)
    at = count and count > 0 and behind
    for _ = 1, count or 0 do
      local start
      if at then
        at, start = counted(raw, at, stop, 3)
      end
      if not at or not find(sub(raw, start + 1, at), "^%l[%w_%-%+%.]*/[^%c%s]+$") then
        return nil
      end
    end
  end
  return at and extensions(raw, at, stop, header, NONE)
end

-- Packets ------------------------------------------------------------------------------------------

-- Asks the reader itself, last.
local function strict(raw, kind)
  return Z.strict(raw, kind, true)
end

-- A batch in mid session: a FRAME whose first message has a key and a body, all of it strictly read.
local function telling(raw)
  local header = byte(raw, 1)
  local sn, at = vle(raw, 1, #raw)
  if is_set(header, 0x40) or not sn or sn >= 4294967296 then
    return false
  end
  at = extensions(raw, at, #raw, header, OF_FRAME)
  local number = at and at < #raw and byte(raw, at + 1) % 32
  return (number == PUSH or number == REQUEST or number == RESPONSE) and strict(raw, "batch")
end

local function is_open(raw)
  local header = byte(raw, 1)
  return header % 32 == OPEN and not is_set(header, 0x20) and open(raw, 0, #raw) == #raw and strict(raw, "batch")
end

-- Tells whether a message without a length in front of it opens a session.
local function opens(raw)
  return is_open(raw) or (byte(raw, 1) % 32 == INIT and init(raw, 0, #raw) == #raw and strict(raw, "batch"))
end

-- Tells whether a batch is an INIT as far as its zid; whatever follows.
local function introduces(raw)
  local version, packed = byte(raw, 2, 3)
  local behind = packed and 3 + (packed - packed % 16) / 16 + 1
  return version == VERSION and behind ~= nil and behind <= #raw and find(sub(raw, 4, behind), "[^%z]") ~= nil
end

-- Tells whether a piece of a stream is batches behind their lengths, to its end, the first of which opens a session
-- or is unmistakable.
function Z.looks_like_stream(raw)
  local at, size = 0, #raw
  local low, high, header = byte(raw, 1, 3)
  if not header or low + 256 * high + 2 > size then
    return false
  end
  local number = header % 32
  if number ~= INIT and number ~= OPEN and number ~= FRAME then
    return false
  end
  local first = nil
  while at < size do
    low, high = byte(raw, at + 1, at + 2)
    local stop = high and at + 2 + low + 256 * high
    if not stop or stop > size or stop == at + 2 then
      return false
    end
    first = first or sub(raw, at + 3, stop)
    at = stop
  end
  if number == FRAME then
    return telling(first)
  end
  return is_open(first) or (number == INIT and introduces(first))
end

-- Tells what a datagram is: "session", "join", "scout" or "hello", nil for anything else.
--
-- group: whether it goes to a multicast group; asked: whether, for a SCOUT, its sender or its target is known to be part
-- of scouting; for a HELLO, whether its receiver is, or asked for it; joins: whether there was a JOIN in the group before.
function Z.looks_like_datagram(raw, group, asked, joins)
  local header, version = byte(raw, 1, 2)
  if group and header and header <= 1 and version then
    -- With compression each datagram has a byte in front: 0 for stored as it is, 1 for an LZ4 block.
    local inside = header == 0 and sub(raw, 2) or Z.lz4(sub(raw, 2), LARGEST_JOIN)
    if inside and #inside > 0 and byte(inside, 1) % 32 == JOIN and (joins or join(inside, 0, #inside) == #inside) then
      return strict(inside, "batch") and "join" or nil
    end
  end
  if version ~= VERSION then
    return nil
  end
  local number, size = header % 32, #raw
  if number == JOIN and group then
    return (joins or join(raw, 0, size) == size) and strict(raw, "batch") and "join" or nil
  end
  if number == SCOUT and (asked or (group and scout(raw, 0, size) == size)) and strict(raw, "scouting") then
    return "scout"
  end
  if number == INIT and not group and init(raw, 0, size) == size then
    -- Bare of sizes and extensions it is too easily met by chance; real nodes say more.
    return (is_set(header, 0x40) or is_set(header, 0x80)) and strict(raw, "batch") and "session" or nil
  end
  if number == HELLO and not group and (asked or (is_set(header, 0x20) and hello(raw, 0, size) == size)) then
    return strict(raw, "scouting") and "hello" or nil
  end
  return nil
end

-- Registration -------------------------------------------------------------------------------------

-- What was seen first in which packet: ends that sent a SCOUT, links inside of TLS or WebSocket.
local since, remembered = {}, 0

Z.on_init[#Z.on_init + 1] = function()
  since, remembered = {}, 0
end

local function remember(what, number)
  if not since[what] and remembered < MOST_REMEMBERED then
    since[what], remembered = number, remembered + 1
  end
end

local function knows(what, number)
  return since[what] ~= nil and since[what] <= number
end

local function end_of(address, port)
  return tostring(address) .. " " .. port
end

local function way_of(pinfo)
  return end_of(pinfo.src, pinfo.src_port) .. " to " .. end_of(pinfo.dst, pinfo.dst_port)
end

local function is_group(address)
  local text = tostring(address)
  local first = tonumber(string.match(text, "^(%d+)%.%d+%.%d+%.%d+$"))
  return first and first >= 224 and first < 240 or find(text, "^ff%x%x:") ~= nil
end

-- A conversation that is claimed comes to us by itself from now on.
local function claim(pinfo)
  pcall(function() pinfo.conversation = Z.proto end)
end

local function whole(tvb)
  return tvb:len() > 0 and tvb:reported_len() == tvb:len()
end

-- May the packet be one of ours? What an ICMP error quotes was said before.
local function is_told(pinfo)
  return Z.settings.heuristics and not pinfo.in_error_pkt
end

-- An INIT whose bytes come in several segments: for a stream that is nobody's yet TCP puts nothing together. What each way
-- has begun with; the INIT that was made of it, by way and the packet that completed it; false for the other packets.
local begun, ways_begun, made, most_made = {}, 0, {}, MOST_REMEMBERED

Z.on_init[#Z.on_init + 1] = function()
  begun, ways_begun, made, most_made = {}, 0, {}, MOST_REMEMBERED
end

-- Tells whether so many bytes, of which `head` are the first four, are the beginning of an INIT behind its length, not all.
local function begins(head, size)
  local low, high, header, version = byte(head, 1, 4)
  local length = high and low + 256 * high
  return (not length or (length > size - 2 and length >= 4 and length <= LARGEST_INIT))
    and (not header or header % 32 == INIT) and (not version or version == VERSION)
end

local function keep(way, what)
  if ways_begun >= MOST_BEGUN then begun, ways_begun = {}, 0 end
  ways_begun = ways_begun + (what and 1 or 0) - (begun[way] and 1 or 0)
  begun[way] = what
end

-- Takes a segment, which may be one of an INIT; tells whether it completes that.
local function completes(tvb, pinfo, way)
  local raw, before = tvb:raw(), begun[way]
  local packets = before and before.packets or {}
  local all = before and before.raw .. raw or raw
  packets[#packets + 1] = pinfo.number
  if before and Z.looks_like_stream(all) then
    keep(way, nil)
    most_made, made[way] = most_made - 1, made[way] or {}
    for _, packet in ipairs(packets) do made[way][packet] = false end
    made[way][pinfo.number] = all
    return true
  end
  if begins(sub(all, 1, 4), #all) then
    keep(way, { raw = all, packets = packets })
  elseif before then
    keep(way, nil)
    return completes(tvb, pinfo, way) -- it may begin another one
  end
  return false
end

-- Dissects what a packet has of an INIT in several segments; returns nil for any other packet.
function Z.entry.piece(pinfo, tree)
  local of_way = next(made) and made[way_of(pinfo)]
  local whole = of_way and of_way[pinfo.number]
  if not whole then return whole == false and 0 or nil end
  return Z.entry.stream(ByteArray.new(whole, true):tvb("INIT in several segments"), pinfo, tree)
end

local function on_stream(tvb, pinfo, tree)
  if not is_told(pinfo) or not whole(tvb) then
    return false
  end
  -- Most packets end here: no length that fits.
  local size = tvb:len()
  local head = tvb:raw(0, math.min(4, size))
  local low, high = byte(head, 1, 2)
  if size >= 5 and low + 256 * high + 2 <= size and Z.looks_like_stream(tvb:raw()) then
    claim(pinfo)
    return Z.entry.stream(tvb, pinfo, tree) ~= 0
  end
  if pinfo.visited or most_made == 0 or not (ways_begun > 0 or begins(head, size)) then return false end
  local way = way_of(pinfo)
  if not (begun[way] or begins(head, size)) or not completes(tvb, pinfo, way) then return false end
  claim(pinfo)
  return Z.entry.piece(pinfo, tree) ~= 0
end

-- What a SCOUT does, and what it did when it was believed; what a HELLO may answer.
local function asks(pinfo, group)
  return end_of(pinfo.src, pinfo.src_port) .. " asks " .. (group and "all" or tostring(pinfo.dst))
end

local function answers(pinfo)
  local asker = end_of(pinfo.dst, pinfo.dst_port) .. " asks "
  return asker .. tostring(pinfo.src), asker .. "all"
end

local function believed(pair)
  return pair .. ", believed"
end

-- What a group is in which somebody has said JOIN.
local function joined(pinfo)
  return end_of(pinfo.dst, pinfo.dst_port) .. " joined"
end

-- Is there something else that speaks for a SCOUT or HELLO?
local function is_company(pinfo, id, group, number)
  if id == HELLO then
    local one, all = answers(pinfo)
    return knows(end_of(pinfo.dst, pinfo.dst_port), number) or knows(one, number) or knows(all, number)
  end
  if not group then return knows(believed(asks(pinfo)), number) end
  return knows(end_of(pinfo.src, pinfo.src_port), number) or knows(end_of(pinfo.dst, pinfo.dst_port), number)
end

local function on_datagram(tvb, pinfo, tree)
  if not is_told(pinfo) or tvb:len() < 3 or not whole(tvb) then
    return false
  end
  -- Most packets end here: the version is not where it has to be.
  local first, second = byte(tvb:raw(0, 2), 1, 2)
  if second ~= VERSION and first > 1 then
    return false
  end
  local group = is_group(pinfo.dst)
  if second ~= VERSION and not group then
    return false
  end
  local raw, number = tvb:raw(), pinfo.number
  local asked = is_company(pinfo, byte(raw, 1) % 32, group, number)
  local found = Z.looks_like_datagram(raw, group, asked, group and knows(joined(pinfo), number))
  if not found then
    if byte(raw, 1) % 32 == SCOUT and strict(raw, "scouting") then remember(asks(pinfo, group), number) end
    return false
  end
  if found == "session" or found == "join" then
    claim(pinfo)
  end
  return Z.entry.datagram(tvb, pinfo, tree) ~= 0
end

-- What its port alone shows to be one says nothing about others.
Z.listen(function(b)
  if not b.visited and b.link and b.link.multicast and Z.is_whole(b) then remember(joined(b.pinfo), b.number) end
end, function(name) return name == "join" end)

Z.listen(function(b, m)
  if b.visited or not strict(b.raw, "scouting") then return end
  local pinfo, number = b.pinfo, b.number
  if m.name == "hello" then
    remember(end_of(pinfo.dst, pinfo.dst_port), number) -- it has asked, though nobody heard it
    for _, pair in ipairs({ answers(pinfo) }) do
      if knows(pair, number) then remember(believed(pair), number) end
    end
    return
  end
  local group = is_group(pinfo.dst)
  remember(asks(pinfo, group), number)
  remember(believed(asks(pinfo, group)), number)
  remember(end_of(pinfo.src, pinfo.src_port), number)
  if group then remember(end_of(pinfo.dst, pinfo.dst_port), number) end
end, function(name) return name == "scout" or name == "hello" end)

-- Inside TLS and WebSocket a conversation belongs to those; what was found is remembered here.
local function on_inner(entry, looks)
  return function(tvb, pinfo, tree)
    if Z.carrying and entry == "message" then
      -- We found the frames ourselves.
      return Z.entry.message(tvb, pinfo, tree) ~= 0
    end
    if not Z.settings.heuristics or not whole(tvb) then
      return false
    end
    local here, there = end_of(pinfo.src, pinfo.src_port), end_of(pinfo.dst, pinfo.dst_port)
    local link = entry .. " " .. (here < there and here .. there or there .. here)
    if not knows(link, pinfo.number) then
      if not looks(tvb:raw()) then
        return false
      end
      remember(link, pinfo.number)
    end
    return Z.entry[entry](tvb, pinfo, tree) ~= 0
  end
end

local LISTS = {
  { "tcp", on_stream },
  { "udp", on_datagram },
  { "tls", on_inner("tls", Z.looks_like_stream) },
  { "ws", on_inner("message", opens) },
}

-- Called once, when the protocol has its dissector.
function Z.register_heuristics()
  for _, entry in ipairs(LISTS) do
    -- Which lists there are differs between versions.
    pcall(function() Z.proto:register_heuristic(entry[1], entry[2]) end)
  end
end
