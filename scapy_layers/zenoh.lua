-- Zenoh 1.x dissector for Wireshark 3.x and 4.x (Lua 5.1 to 5.4), of the Zenoh harness.
-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- Written by `python -m scapy_layers.derive.lua` from the description of the wire in scapy_layers and the parts in
-- scapy_layers/derive/prelude: change those, not this file.
--
-- Use: zenoh-dissect wireshark install, or tshark -X lua_script:zenoh.lua -r CAPTURE

local Z = { prefix = "zenoh", title = "Zenoh Protocol" }

if not Proto or not ProtoField then
  error("zenoh.lua runs inside Wireshark or tshark: tshark -X lua_script:zenoh.lua -r CAPTURE", 0)
end

if zenoh_harness then
  -- Loaded from a plugin folder and by -X lua_script, or from two folders.
  print("zenoh.lua: loaded twice; the first one stays (" .. tostring(zenoh_harness) .. "), this one does nothing.")
  return
end

do
  local here = debug and debug.getinfo and debug.getinfo(1, "S")
  zenoh_harness = here and here.source:gsub("^@", "") or "zenoh.lua"

  local free, proto = pcall(Proto, Z.prefix, Z.title)
  if not free then
    -- Protocols of the same name cannot be: the other one came first, and keeps its names.
    Z.prefix, Z.title = "zenoh_lua", "Zenoh (zenoh.lua)"
    print("zenoh.lua: another Zenoh dissector is loaded; this one is called " .. Z.prefix ..
      ", its fields " .. Z.prefix .. ".*. Remove the other one to have both names right.")
    free, proto = pcall(Proto, Z.prefix, Z.title)
  end
  if not free then
    print("zenoh.lua: two other Zenoh dissectors are loaded; this one does nothing: " .. tostring(proto))
    return
  end
  Z.proto = proto
end

-- core ------------------------------------------------------------------------------------------------

do
-- Numbers and bytes, layers inside layers, what is refused, batches in segments and datagrams.

local byte, sub, find, floor, format = string.byte, string.sub, string.find, math.floor, string.format
local HIGH = 4294967296

Z.fields = {}
Z.listeners = {}
Z.on_init = {}
Z.messages = { scouting = {}, transport = {}, network = {}, declaration = {}, data = {} }

local F, registered, experts, by_id = Z.fields, {}, {}, {}
Z.registered, Z.experts = registered, experts

-- Makes a field of the description, known as Z.fields[key].
function Z.syntax(name, key, kind, ...)
  local made = ProtoField[kind](Z.prefix .. "." .. name, ...)
  F[key] = made
  registered[#registered + 1] = made
  return made
end

-- Makes a field that is found out; known as Z.fields[name] as well.
function Z.field(name, kind, ...)
  return Z.syntax(name, name, kind, ...)
end

local groups = { PROTOCOL = "PROTOCOL", SEQUENCE = "SEQUENCE", MALFORMED = "MALFORMED", RESPONSE_CODE = "RESPONSE_CODE" }
local severities = { CHAT = "CHAT", NOTE = "NOTE", WARN = "WARN", ERROR = "ERROR" }

-- Makes an expert info.
function Z.expert(id, label, group, severity)
  local made = ProtoExpert.new(Z.prefix .. ".expert." .. id, label,
    expert.group[groups[group]], expert.severity[severities[severity]])
  experts[#experts + 1] = made
  by_id[id] = made
  return made
end

-- Adds an expert info to a tree item; without one nothing can be said.
function Z.note(item, id, text)
  if item then item:add_proto_expert_info(by_id[id], text) end
end

local BATCH = Z.field("batch", "none", "Batch")
local LENGTH = Z.field("batch.length", "uint32", "length", base.DEC)
local HEADER = Z.field("extension.header", "uint8", "header", base.HEX)
local UNREAD = Z.field("unread", "bytes", "not looked into")
local UNDECODED = Z.field("undecoded", "bytes", "undecoded")
local ERROR = Z.field("error", "string", "refused")
local ERROR_KIND = Z.field("error.kind", "string", "kind")
local ERROR_FIELD = Z.field("error.field", "string", "field")
local ERROR_OFFSET = Z.field("error.offset", "uint32", "offset", base.DEC)
local CONTINUED = Z.field("continuation", "bytes", "in mid batch")

local EXPERTS = {
  Truncated = "truncated", Overlong = "overlong", BadValue = "bad_value", UnknownMessage = "unknown_message",
  UnknownMandatoryExtension = "unknown_mandatory_extension",
}
Z.expert("truncated", "The bytes end inside a field", "MALFORMED", "ERROR")
Z.expert("overlong", "A number or count larger than its field permits", "MALFORMED", "ERROR")
Z.expert("bad_value", "A value without meaning, or bytes where none may stand", "PROTOCOL", "ERROR")
Z.expert("unknown_message", "An id that no message of this layer has", "PROTOCOL", "ERROR")
Z.expert("unknown_mandatory_extension", "A mandatory extension that is not known here", "PROTOCOL", "ERROR")

-- Numbers: two halves of 32 bits where 64 are possible, for Lua numbers may be doubles.

-- Reads a VLE integer: low half, high half, place behind it; nil when the bytes end. The ninth byte has eight bits.
local function vle(raw, at, stop)
  if at >= stop then return nil end
  local c = byte(raw, at + 1)
  if c < 128 then return c, 0, at + 1 end
  local lo, hi, scale, index = c - 128, 0, 128, 1
  while true do
    local place = at + index
    if place >= stop then return nil end
    c = byte(raw, place + 1)
    if index == 8 then return lo, hi + c * 16777216, place + 1 end
    local seven = c % 128
    if index < 4 then
      lo = lo + seven * scale
    elseif index == 4 then
      lo, hi, scale = lo + seven % 16 * 268435456, floor(seven / 16), 1 / 16
    else
      hi = hi + seven * scale
    end
    if c < 128 then return lo, hi, place + 1 end
    scale = scale * 128
    index = index + 1
  end
end

-- Returns a Lua number, or a UInt64 where that would not be exact.
local function number(lo, hi)
  if hi < 2097152 then return lo + hi * HIGH end
  return UInt64.new(lo, hi)
end

-- Returns a UInt64 of what `number` made.
function Z.wide(value)
  if type(value) ~= "number" then return value end
  return UInt64.new(value % HIGH, floor(value / HIGH))
end

-- Returns some bits of a VLE integer.
function Z.bits_of(lo, hi, shift, size)
  local scale = 2 ^ shift
  lo, hi = floor(lo / scale) + hi % scale * (HIGH / scale), floor(hi / scale)
  if size <= 32 then return floor(lo % 2 ^ size) end
  return number(floor(lo), floor(hi % 2 ^ (size - 32)))
end

-- Adds a VLE integer to the tree.
function Z.add_vle(item, field, range, at, stop, lo, hi)
  if stop - at == 1 then
    item:add(field, range(at, 1))
  else
    item:add(field, range(at, stop - at), UInt64.new(lo, hi))
  end
end

-- Reads an integer of fixed size, low byte first.
function Z.le(raw, at, size, signed)
  local lo, hi = 0, 0
  for index = size, 1, -1 do
    local c = byte(raw, at + index)
    if index > 4 then hi = hi * 256 + c else lo = lo * 256 + c end
  end
  local top = byte(raw, at + size)
  if signed and top >= 128 then return lo + hi * HIGH - 256 ^ size end
  return number(lo, hi)
end

local zids, zids_held = {}, 0

-- Returns the text form of a ZenohID: the number in hexadecimal, without leading zeros.
function Z.zid(raw, start, stop)
  local wire = sub(raw, start + 1, stop)
  local text = zids[wire]
  if text then return text end
  text = wire:reverse():gsub(".", function(c) return format("%02x", byte(c)) end):gsub("^0+", "")
  if text == "" then text = "0" end
  if zids_held > 65536 then zids, zids_held = {}, 0 end
  zids[wire], zids_held = text, zids_held + 1
  return text
end

-- Tells whether bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
local function is_utf8(text)
  local at = find(text, "[\128-\255]")
  while at do
    local c, more, second = byte(text, at), 0, byte(text, at + 1) or 0
    if c >= 194 and c <= 223 then
      more = 1
    elseif c >= 224 and c <= 239 then
      more = 2
      if (c == 224 and second < 160) or (c == 237 and second > 159) then return false end
    elseif c >= 240 and c <= 244 then
      more = 3
      if (c == 240 and second < 144) or (c == 244 and second > 143) then return false end
    else
      return false
    end
    for index = 1, more do
      local next_byte = byte(text, at + index)
      if not next_byte or next_byte < 128 or next_byte > 191 then return false end
    end
    at = find(text, "[\128-\255]", at + more + 1)
  end
  return true
end

-- Returns text as Wireshark can show it: its strings end at NUL.
function Z.shown(text)
  if find(text, "%z") then return (text:gsub("%z", "\226\144\128")) end
  return text
end

Z.vle, Z.number, Z.is_utf8 = vle, number, is_utf8

-- What is refused.

local function path(m)
  if not m.parent then return m.label end
  return path(m.parent) .. "." .. m.slot .. (m.index and "[" .. m.index .. "]" or "") ..
    (m.named and "." .. m.label or "")
end

local MOST = 100 -- expert infos of one batch

-- Notes what strict decoding refuses; what follows may still be readable.
local function refuse(b, m, kind, field, at, found)
  b.total = b.total + 1
  if b.mute then return end
  local refused = { kind = kind, field = m and path(m) .. "." .. field or field, offset = at, found = found }
  b.error = b.error or refused
  if b.total <= MOST then
    local item = b.item
    if m then item = m.item end
    Z.note(item, EXPERTS[kind], kind .. " at byte " .. at .. ": " .. refused.field .. ": " .. found)
  end
  while m do
    m.refused = m.refused or refused
    if m.whole then return end
    m = m.parent
  end
end

-- The same, and nothing can follow.
local function fail(b, m, kind, field, at, found)
  refuse(b, m, kind, field, at, found)
  b.at = at
  return nil
end

local function cut(b, m, field, at)
  return fail(b, m, "Truncated", field, at, "the bytes end here")
end

Z.refuse, Z.fail, Z.cut = refuse, fail, cut

local function undecoded(b, item, at, stop)
  if item and stop > at then item:add(UNDECODED, b.range(at, stop - at)) end
end

-- Layers inside layers.

local function heard(b, m)
  m.heard = true
  if b.dry then return end
  local listeners = Z.listeners
  for index = 1, #listeners do listeners[index](b, m) end
end

-- Reads a body behind a length that was read; what is wrong in it does not harm what is behind it.
local function counted(b, e, read, at, stop)
  b.at = at
  local done = read(b, e, at, stop)
  if done and done < stop then
    refuse(b, e, "BadValue", "length", done, stop - done .. " bytes behind the last field of the body")
    b.at = done
  end
  if b.at > stop then b.at = stop end
  if not done or done < stop then undecoded(b, e.item, b.at, stop) end
  return stop
end

-- Reads a length; returns place of the body and the one behind it.
local function length_of(b, e, at, stop)
  local lo, hi, n = vle(b.raw, at, stop)
  if not lo then return cut(b, e, "length", at) end
  if hi > 0 then return fail(b, e, "Overlong", "length", at, "a length of " .. lo + hi * HIGH) end
  if n + lo > stop then return cut(b, e, "length", at) end
  return n, n + lo
end

-- Tells whether the body of an extension fits its fields, without a trace.
local function fits(b, e, read, at, stop)
  local total, mute = b.total, b.mute
  b.mute = true
  local probe = { name = e.name, label = e.label, parent = e.parent, slot = e.slot }
  local done = read(b, probe, at, stop)
  local good = done == stop and b.total == total
  b.total, b.mute = total, mute
  return good
end

local unknown = { name = "unknown_extension", label = "unknown extension" }
local Z64 = 1
local ZBUF = 2

function unknown.read(b, e, at, stop)
  if e.enc == Z64 then
    local lo, hi, n = vle(b.raw, at, stop)
    if not lo then return cut(b, e, "z64", at) end
    e.z64 = number(lo, hi)
    if e.item then Z.add_vle(e.item, F.unknown_extension_z64, b.range, at, n, lo, hi) end
    return n
  end
  e.data = sub(b.raw, at + 1, stop)
  if e.item then e.item:add(F.unknown_extension_data, b.range(at, stop - at)) end
  return stop
end

local function extension(b, e, desc, at, stop)
  at = at + 1
  if e.enc == ZBUF and not desc.unbounded then
    local start, behind = length_of(b, e, at, stop)
    if not start then return nil end
    if desc.lenient and not fits(b, e, desc.read, start, behind) then
      e.unread = sub(b.raw, start + 1, behind)
      if e.item then e.item:add(UNREAD, b.range(start, behind - start)) end
      return behind
    end
    return counted(b, e, desc.read, start, behind)
  end
  if e.enc == ZBUF then
    -- The length is what the sender reckoned: the body ends where its fields do.
    local lo, hi, n = vle(b.raw, at, stop)
    if not lo then return cut(b, e, "length", at) end
    if hi > 0 then refuse(b, e, "Overlong", "length", at, "more than 32 bits") end
    at = n
  end
  if e.enc == 0 then return at end
  return desc.read(b, e, at, stop)
end

-- Reads an extension chain.
function Z.chain(b, m, field, known, at, stop)
  local raw, item, ext, list, seen, index = b.raw, m.item, {}, {}, {}, 0
  m.ext, m.extensions, m.seen = ext, list, seen
  while true do
    local head = at < stop and byte(raw, at + 1)
    if not head then return cut(b, m, field, at) end
    local enc, low = floor(head / 32) % 4, head % 128
    if enc == 3 then
      return fail(b, m, "BadValue", field .. "[" .. index .. "]", at, "an extension with the reserved encoding 3")
    end
    local desc, candidates = unknown, known[low]
    if candidates then
      for position = 1, #candidates do
        local candidate = candidates[position]
        if not candidate.fits or candidate.fits(m, seen) then
          desc = candidate
          break
        end
      end
    end
    seen[low] = true
    local e = { name = desc.name, label = desc.label, parent = m, slot = field, index = index, named = true,
      header = head, enc = enc, at = at }
    if item then
      local here = b.range(at, 1)
      e.item = item:add(desc.field or F.unknown_extension, here)
      e.item:add(HEADER, here)
    end
    index = index + 1
    list[index] = e
    ext[e.name] = ext[e.name] or e
    local behind = extension(b, e, desc, at, stop)
    if e.item then e.item:set_len((behind or b.at) - at) end
    if not behind then return nil end
    if desc == unknown and low % 32 >= 16 and not known.skips_mandatory then
      refuse(b, m, "UnknownMandatoryExtension", field .. "[" .. index - 1 .. "]", at,
        format("extension 0x%x is not known here and is mandatory", low % 16))
    end
    at = behind
    if head < 128 then return at end
  end
end

-- Reads a region: a length and the fields within.
function Z.region(b, m, values, name, slot, desc, item, at, stop)
  local e = { name = desc.name, label = desc.label, parent = m, slot = slot, at = at }
  values[name] = e
  e.item = item and item:add(desc.field, b.range(at, 0))
  local start, behind = length_of(b, e, at, stop)
  if not start then return nil end
  behind = counted(b, e, desc.read, start, behind)
  if e.item then e.item:set_len(behind - at) end
  return behind
end

-- Reads exactly one message of another kind.
function Z.body(b, m, field, messages, ids, at, stop)
  local head = at < stop and byte(b.raw, at + 1)
  if not head then return cut(b, m, field, at) end
  local id = head % 32
  if not ids[id] then
    return fail(b, m, "UnknownMessage", field, at, format("id 0x%02x may not stand here", id))
  end
  local desc = messages[id]
  local inner = { name = desc.name, label = desc.label, kind = desc.kind, parent = m, slot = field, named = true, at = at }
  m.body = inner
  inner.item = m.item and m.item:add(desc.field, b.range(at, 1))
  local behind = desc.read(b, inner, at, stop)
  inner.stop = behind or b.at
  if inner.item then inner.item:set_len(inner.stop - at) end
  return behind
end

-- Reads a message of a link; it is heard as soon as all but the messages inside is read.
local function one(b, parent, desc, at, stop)
  local m = { name = desc.name, label = desc.label, kind = desc.kind, at = at, whole = true, within = b.within }
  if parent then m.parent, m.slot, m.named, m.within = parent, "messages", true, parent end
  b.index = b.index + 1
  m.place = b.base + b.index
  b.place = m.place
  local item = b.item
  if parent then item = parent.item end
  m.item = item and item:add(desc.field, b.range(at, 1))
  local behind = desc.read(b, m, at, stop)
  m.stop = behind or b.at
  if m.item then m.item:set_len(m.stop - at) end
  if not m.heard then heard(b, m) end
  return behind
end

-- Reads the messages of a FRAME: up to an id of another kind, or the end.
function Z.messages_of(b, m, messages, at, stop)
  heard(b, m)
  local raw = b.raw
  while at < stop do
    local desc = messages[byte(raw, at + 1) % 32]
    if not desc then break end
    at = one(b, m, desc, at, stop)
    if not at then return nil end
  end
  return at
end

-- Batches.

local transport, network, scouting = Z.messages.transport, Z.messages.network, Z.messages.scouting

local function messages_in(b, stop)
  local at = 0
  while at < stop do
    local id = byte(b.raw, at + 1) % 32
    local desc = transport[id] or network[id]
    if not desc then
      refuse(b, nil, "UnknownMessage", "header", at, format("id 0x%02x is no message of a link", id))
      undecoded(b, b.item, at, stop)
      return
    end
    local behind = one(b, nil, desc, at, stop)
    if not behind then
      undecoded(b, b.item, b.at, stop)
      return
    end
    at = behind
  end
end

-- One message; what is behind it counts for nothing.
local function one_of(b, messages, stop)
  local id = stop > 0 and byte(b.raw, 1) % 32
  local desc = id and messages[id]
  if not desc then
    if id then
      refuse(b, nil, "UnknownMessage", "header", 0, format("id 0x%02x is no such message", id))
    else
      refuse(b, nil, "Truncated", "header", 0, "no byte at all")
    end
    undecoded(b, b.item, 0, stop)
    return 0
  end
  local behind = one(b, nil, desc, 0, stop)
  if not behind or behind < stop then undecoded(b, b.item, behind or b.at, stop) end
  return behind
end

local readers = {
  batch = function(b) messages_in(b, #b.raw) return #b.raw end,
  scouting = function(b) return one_of(b, scouting, #b.raw) end,
  network = function(b) return one_of(b, network, #b.raw) end,
}

-- Tells whether strict decoding takes bytes: kind "batch", "scouting" or "network"; `exact`: to the last one.
function Z.strict(raw, kind, exact)
  local b = { raw = raw, dry = true, mute = true, total = 0, at = 0, index = 0, base = 0 }
  local behind = readers[kind](b)
  return #raw > 0 and b.total == 0 and (not exact or behind == #raw)
end

-- Tells what is wrong with a batch, if anything.
local function conclude(b)
  local wrong = b.error
  if not wrong or not b.item then return end
  local item = b.item:add(ERROR, b.range(wrong.offset, 0),
    wrong.field .. " at byte " .. wrong.offset .. ": " .. wrong.found)
  item:set_generated()
  item:add(ERROR_KIND, wrong.kind):set_generated()
  item:add(ERROR_FIELD, wrong.field):set_generated()
  item:add(ERROR_OFFSET, wrong.offset):set_generated()
end

-- The places of messages in a packet. A dissector may be called several times for one packet: for a batch that a
-- segment completes and for the rest of the segment; the next pass counts on in the same way.

local PLACES = 1048576 -- messages of one packet
local calls, current = {}, { number = -1, call = 0, index = 0 }

local function begin_packet(pinfo)
  local known = calls[pinfo.number]
  if current.number ~= pinfo.number or (pinfo.visited and current.call >= (known or 1)) then
    current.number, current.call, current.index = pinfo.number, 0, 0
  end
  current.call = current.call + 1
  if not pinfo.visited and current.call > 1 then calls[pinfo.number] = current.call end
end

Z.on_init[#Z.on_init + 1] = function()
  calls, current = {}, { number = -1, call = 0, index = 0 }
  zids, zids_held = {}, 0
end

local function new_batch(pinfo, root, way, raw, range)
  return {
    raw = raw, range = range, tvb = range, pinfo = pinfo, root = root, way = way, link = way and way.link,
    number = pinfo.number, time = pinfo.rel_ts, visited = pinfo.visited, total = 0, at = 0,
    base = pinfo.number * PLACES, index = current.index, place = pinfo.number * PLACES + current.index,
  }
end

-- Dissects one batch or datagram: `range` gives the bytes of what was captured.
local function dissect_batch(pinfo, root, way, range, size, kind, prefix)
  local item = root:add(BATCH, prefix and prefix.range or range(0, size))
  if prefix then item:add_le(LENGTH, prefix.length) end
  local raw = size > 0 and range(0, size):raw() or ""
  local b = new_batch(pinfo, root, way, raw, range)
  b.item = item
  if kind == "batch" and Z.links then
    local unpacked, why = Z.links.unpack(way, b.place, raw)
    if not unpacked then
      refuse(b, nil, "BadValue", "batch", 0, why or "no LZ4 block")
      undecoded(b, item, 0, size)
      conclude(b)
      return
    end
    if unpacked ~= raw then
      b.raw = unpacked
      if #unpacked == size - 1 then
        range = range(1, size - 1)
      else
        range = ByteArray.new(unpacked, true):tvb("Decompressed batch"):range()
      end
      b.range, b.tvb = range, range
    end
  end
  readers[kind](b)
  conclude(b)
  current.index = b.index
end

-- Fragments put together: a message in a tab of its own.
function Z.put_together(b, m, bytes, numbers)
  local range = ByteArray.new(bytes, true):tvb("Reassembled message"):range()
  local inner = new_batch(b.pinfo, b.root, b.way, bytes, range)
  inner.index, inner.place, inner.within = b.index, b.place, m
  inner.item = m.item and m.item:add(BATCH, range)
  if inner.item then
    inner.item:set_text("Reassembled from " .. #numbers .. " fragments, " .. #bytes .. " bytes")
  end
  one_of(inner, network, #bytes)
  conclude(inner)
  b.index, b.place = inner.index, inner.place
end

local function show_protocol(pinfo)
  pinfo.cols.protocol:set("Zenoh")
  if current.call == 1 then pinfo.cols.info:clear() end
end

local function link_of(pinfo, tvb)
  return Z.links and Z.links.of(pinfo, tvb)
end

Z.entry = {}

-- Batches behind their lengths, in order: TCP, TLS.
function Z.entry.stream(tvb, pinfo, tree)
  begin_packet(pinfo)
  show_protocol(pinfo)
  local size = tvb:len()
  local root = tree:add(Z.proto, tvb(0, size))
  local way = link_of(pinfo, tvb)
  local at = 0
  while at < size do
    local prefix = way and Z.links.prefix(way, pinfo.number * PLACES + current.index, tvb, at) or 2
    if prefix < 0 then
      -- It is not known where a batch begins before -prefix bytes.
      root:add(CONTINUED, tvb(at, -prefix))
      at = at - prefix
    else
      if size - at < prefix then
        pinfo.desegment_offset, pinfo.desegment_len = at, DESEGMENT_ONE_MORE_SEGMENT
        return size
      end
      local length = prefix == 2 and tvb(at, 2):le_uint() or tvb(at, 4):le_uint()
      local behind = at + prefix + length
      if behind > size then
        pinfo.desegment_offset, pinfo.desegment_len = at, behind - size
        return size
      end
      local range = length > 0 and tvb(at + prefix, length) or tvb(at + prefix - 1, 1)
      dissect_batch(pinfo, root, way, range, length, "batch", { range = tvb(at, prefix + length), length = tvb(at, prefix) })
      at = behind
    end
  end
  return size
end

-- One batch without a length.
function Z.entry.message(tvb, pinfo, tree)
  begin_packet(pinfo)
  show_protocol(pinfo)
  local size = tvb:len()
  local root = tree:add(Z.proto, tvb(0, size))
  if size > 0 then dissect_batch(pinfo, root, link_of(pinfo, tvb), tvb(0, size), size, "batch") end
  return size
end

-- A datagram: of scouting, or of a session.
function Z.entry.datagram(tvb, pinfo, tree)
  begin_packet(pinfo)
  show_protocol(pinfo)
  local size = tvb:len()
  local root = tree:add(Z.proto, tvb(0, size))
  if size == 0 then return 0 end
  local kind = Z.is_scouting(tvb:raw(0, size), pinfo) and "scouting" or "batch"
  dissect_batch(pinfo, root, link_of(pinfo, tvb), tvb(0, size), size, kind)
  return size
end

-- INIT and OPEN have the ids of SCOUT and HELLO: only what is scouting to the last byte is, or what went to its port.
function Z.is_scouting(raw, pinfo)
  if Z.strict(raw, "scouting", true) then return true end
  local ports = Z.scouting_ports or { [7446] = true }
  return (ports[pinfo.dst_port] or ports[pinfo.src_port]) and not Z.strict(raw, "batch", true) or false
end
end

-- generated -------------------------------------------------------------------------------------------

do
Z.enums = {
  WhatAmI = { [0] = "router", [1] = "peer", [2] = "client" },
  What = { [1] = "router", [2] = "peer", [4] = "client" },
  Resolution = { [0] = "bits_8", [1] = "bits_16", [2] = "bits_32", [3] = "bits_64" },
  CloseReason = { [0] = "generic", [1] = "unsupported", [2] = "invalid", [3] = "max_sessions", [4] = "max_links", [5] = "expired", [6] = "unresponsive", [7] = "connection_to_self" },
  Priority = { [0] = "control", [1] = "real_time", [2] = "interactive_high", [3] = "interactive_low", [4] = "data_high", [5] = "data", [6] = "data_low", [7] = "background" },
  InterestMode = { [0] = "final", [1] = "current", [2] = "future", [3] = "current_future" },
  QueryTarget = { [0] = "best_matching", [1] = "all", [2] = "all_complete" },
  Consolidation = { [0] = "auto", [1] = "none", [2] = "monotonic", [3] = "latest" },
  Bound = { [0] = "north", [1] = "south" },
  Encoding = { [0] = "zenoh_bytes", [1] = "zenoh_string", [2] = "zenoh_serialized", [3] = "application_octet_stream", [4] = "text_plain", [5] = "application_json", [6] = "text_json", [7] = "application_cdr", [8] = "application_cbor", [9] = "application_yaml", [10] = "text_yaml", [11] = "text_json5", [12] = "application_python_serialized_object", [13] = "application_protobuf", [14] = "application_java_serialized_object", [15] = "application_openmetrics_text", [16] = "image_png", [17] = "image_jpeg", [18] = "image_gif", [19] = "image_bmp", [20] = "image_webp", [21] = "application_xml", [22] = "application_x_www_form_urlencoded", [23] = "text_html", [24] = "text_xml", [25] = "text_css", [26] = "text_javascript", [27] = "text_markdown", [28] = "text_csv", [29] = "application_sql", [30] = "application_coap_payload", [31] = "application_json_patch_json", [32] = "application_json_seq", [33] = "application_jsonpath", [34] = "application_jwt", [35] = "application_mp4", [36] = "application_soap_xml", [37] = "application_yang", [38] = "audio_aac", [39] = "audio_flac", [40] = "audio_mp4", [41] = "audio_ogg", [42] = "audio_vorbis", [43] = "video_h261", [44] = "video_h263", [45] = "video_h264", [46] = "video_h265", [47] = "video_h266", [48] = "video_mp4", [49] = "video_ogg", [50] = "video_raw", [51] = "video_vp8", [52] = "video_vp9", [65535] = "custom" },
  OamId = { [1] = "linkstate" },
}
Z.syntax("scout.Z", "scout_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("scout.reserved_6", "scout_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("scout.reserved_5", "scout_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("scout.version", "scout_version", "uint8", "version", base.DEC)
Z.syntax("scout.zid_len", "scout_zid_len", "uint8", "zid_len", base.DEC, nil, 0xf0)
Z.syntax("scout.I", "scout_I", "uint8", "I", base.DEC, nil, 0x08)
Z.syntax("scout.what", "scout_what", "uint8", "what", base.DEC, Z.enums.What, 0x07)
Z.syntax("scout.zid", "scout_zid", "string", "zid")
Z.syntax("hello.Z", "hello_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("hello.reserved_6", "hello_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("hello.L", "hello_L", "uint8", "L", base.DEC, nil, 0x20)
Z.syntax("hello.version", "hello_version", "uint8", "version", base.DEC)
Z.syntax("hello.zid_len", "hello_zid_len", "uint8", "zid_len", base.DEC, nil, 0xf0)
Z.syntax("hello.reserved2", "hello_reserved2", "uint8", "reserved2", base.DEC, nil, 0x0c)
Z.syntax("hello.whatami", "hello_whatami", "uint8", "whatami", base.DEC, Z.enums.WhatAmI, 0x03)
Z.syntax("hello.zid", "hello_zid", "string", "zid")
Z.syntax("hello.locator", "hello_locator", "string", "locator")
Z.syntax("transport_oam.Z", "transport_oam_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("transport_oam.oam_id", "transport_oam_oam_id", "uint64", "oam_id", base.DEC)
Z.syntax("transport_oam.z64", "transport_oam_z64", "uint64", "z64", base.DEC)
Z.syntax("transport_oam.data", "transport_oam_data", "bytes", "data")
Z.syntax("qos.reserved3", "qos_reserved3", "uint64", "reserved3", base.DEC)
Z.syntax("qos.priority", "qos_priority", "uint32", "priority", base.DEC, Z.enums.Priority)
Z.syntax("init.Z", "init_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("init.S", "init_S", "uint8", "S", base.DEC, nil, 0x40)
Z.syntax("init.A", "init_A", "uint8", "A", base.DEC, nil, 0x20)
Z.syntax("init.version", "init_version", "uint8", "version", base.DEC)
Z.syntax("init.zid_len", "init_zid_len", "uint8", "zid_len", base.DEC, nil, 0xf0)
Z.syntax("init.reserved2", "init_reserved2", "uint8", "reserved2", base.DEC, nil, 0x0c)
Z.syntax("init.whatami", "init_whatami", "uint8", "whatami", base.DEC, Z.enums.WhatAmI, 0x03)
Z.syntax("init.zid", "init_zid", "string", "zid")
Z.syntax("init.reserved4", "init_reserved4", "uint8", "reserved4", base.DEC, nil, 0xf0)
Z.syntax("init.rid", "init_rid", "uint8", "rid", base.DEC, Z.enums.Resolution, 0x0c)
Z.syntax("init.fsn", "init_fsn", "uint8", "fsn", base.DEC, Z.enums.Resolution, 0x03)
Z.syntax("init.batch_size", "init_batch_size", "uint16", "batch_size", base.DEC)
Z.syntax("init.cookie", "init_cookie", "bytes", "cookie")
Z.syntax("qoslink.reserved20", "qoslink_reserved20", "uint64", "reserved20", base.DEC)
Z.syntax("qoslink.reliability", "qoslink_reliability", "uint32", "reliability", base.DEC)
Z.syntax("qoslink.last_priority", "qoslink_last_priority", "uint32", "last_priority", base.DEC)
Z.syntax("qoslink.first_priority", "qoslink_first_priority", "uint32", "first_priority", base.DEC)
Z.syntax("qoslink.has_reliability", "qoslink_has_reliability", "uint32", "has_reliability", base.DEC)
Z.syntax("qoslink.has_priorities", "qoslink_has_priorities", "uint32", "has_priorities", base.DEC)
Z.syntax("qoslink.qos", "qoslink_qos", "uint32", "qos", base.DEC)
Z.syntax("shm.segment_id", "shm_segment_id", "uint64", "segment_id", base.DEC)
Z.syntax("shm.challenge", "shm_challenge", "uint64", "challenge", base.DEC)
Z.syntax("pub_key.n", "pub_key_n", "bytes", "n")
Z.syntax("pub_key.e", "pub_key_e", "bytes", "e")
Z.syntax("usr_pwd.nonce", "usr_pwd_nonce", "uint64", "nonce", base.DEC)
Z.syntax("pub_key.nonce", "pub_key_nonce", "bytes", "nonce")
Z.syntax("multi_link.n", "multi_link_n", "bytes", "n")
Z.syntax("multi_link.e", "multi_link_e", "bytes", "e")
Z.syntax("multi_link.nonce", "multi_link_nonce", "bytes", "nonce")
Z.syntax("patch.patch", "patch_patch", "uint64", "patch", base.DEC)
Z.syntax("region_name.region", "region_name_region", "string", "region")
Z.syntax("open.Z", "open_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("open.T", "open_T", "uint8", "T", base.DEC, nil, 0x40)
Z.syntax("open.A", "open_A", "uint8", "A", base.DEC, nil, 0x20)
Z.syntax("open.lease", "open_lease", "uint64", "lease", base.DEC)
Z.syntax("open.initial_sn", "open_initial_sn", "uint64", "initial_sn", base.DEC)
Z.syntax("open.cookie", "open_cookie", "bytes", "cookie")
Z.syntax("shm.has_counters", "shm_has_counters", "uint8", "has_counters", base.DEC)
Z.syntax("shm.counter", "shm_counter", "uint64", "counter", base.DEC)
Z.syntax("usr_pwd.user", "usr_pwd_user", "bytes", "user")
Z.syntax("usr_pwd.hmac", "usr_pwd_hmac", "bytes", "hmac")
Z.syntax("remote_bound.bound", "remote_bound_bound", "uint64", "bound", base.DEC, Z.enums.Bound)
Z.syntax("close.Z", "close_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("close.reserved_6", "close_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("close.S", "close_S", "uint8", "S", base.DEC, nil, 0x20)
Z.syntax("close.reason", "close_reason", "uint8", "reason", base.DEC, Z.enums.CloseReason)
Z.syntax("keep_alive.Z", "keep_alive_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("keep_alive.reserved_6", "keep_alive_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("keep_alive.reserved_5", "keep_alive_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("frame.Z", "frame_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("frame.reserved_6", "frame_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("frame.R", "frame_R", "uint8", "R", base.DEC, nil, 0x20)
Z.syntax("frame.sn", "frame_sn", "uint64", "sn", base.DEC)
Z.syntax("fragment.Z", "fragment_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("fragment.M", "fragment_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("fragment.R", "fragment_R", "uint8", "R", base.DEC, nil, 0x20)
Z.syntax("fragment.sn", "fragment_sn", "uint64", "sn", base.DEC)
Z.syntax("fragment.data", "fragment_data", "bytes", "data")
Z.syntax("join.Z", "join_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("join.S", "join_S", "uint8", "S", base.DEC, nil, 0x40)
Z.syntax("join.T", "join_T", "uint8", "T", base.DEC, nil, 0x20)
Z.syntax("join.version", "join_version", "uint8", "version", base.DEC)
Z.syntax("join.zid_len", "join_zid_len", "uint8", "zid_len", base.DEC, nil, 0xf0)
Z.syntax("join.reserved2", "join_reserved2", "uint8", "reserved2", base.DEC, nil, 0x0c)
Z.syntax("join.whatami", "join_whatami", "uint8", "whatami", base.DEC, Z.enums.WhatAmI, 0x03)
Z.syntax("join.zid", "join_zid", "string", "zid")
Z.syntax("join.reserved4", "join_reserved4", "uint8", "reserved4", base.DEC, nil, 0xf0)
Z.syntax("join.rid", "join_rid", "uint8", "rid", base.DEC, Z.enums.Resolution, 0x0c)
Z.syntax("join.fsn", "join_fsn", "uint8", "fsn", base.DEC, Z.enums.Resolution, 0x03)
Z.syntax("join.batch_size", "join_batch_size", "uint16", "batch_size", base.DEC)
Z.syntax("join.lease", "join_lease", "uint64", "lease", base.DEC)
Z.syntax("join.next_sn_re", "join_next_sn_re", "uint64", "next_sn_re", base.DEC)
Z.syntax("join.next_sn_be", "join_next_sn_be", "uint64", "next_sn_be", base.DEC)
Z.syntax("qos.next_sn_re", "qos_next_sn_re", "uint64", "next_sn_re", base.DEC)
Z.syntax("qos.next_sn_be", "qos_next_sn_be", "uint64", "next_sn_be", base.DEC)
Z.syntax("shm.data", "shm_data", "bytes", "data")
Z.syntax("interest.Z", "interest_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("interest.mode", "interest_mode", "uint8", "mode", base.DEC, Z.enums.InterestMode, 0x60)
Z.syntax("interest.interest_id", "interest_interest_id", "uint64", "interest_id", base.DEC)
Z.syntax("interest.aggregate", "interest_aggregate", "uint8", "aggregate", base.DEC, nil, 0x80)
Z.syntax("interest.M", "interest_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("interest.N", "interest_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("interest.restricted", "interest_restricted", "uint8", "restricted", base.DEC, nil, 0x10)
Z.syntax("interest.tokens", "interest_tokens", "uint8", "tokens", base.DEC, nil, 0x08)
Z.syntax("interest.queryables", "interest_queryables", "uint8", "queryables", base.DEC, nil, 0x04)
Z.syntax("interest.subscribers", "interest_subscribers", "uint8", "subscribers", base.DEC, nil, 0x02)
Z.syntax("interest.keyexprs", "interest_keyexprs", "uint8", "keyexprs", base.DEC, nil, 0x01)
Z.syntax("interest.key_scope", "interest_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("interest.key_suffix", "interest_key_suffix", "string", "key_suffix")
Z.syntax("qos.reserved6", "qos_reserved6", "uint64", "reserved6", base.DEC)
Z.syntax("qos.F", "qos_F", "uint32", "F", base.DEC)
Z.syntax("qos.E", "qos_E", "uint32", "E", base.DEC)
Z.syntax("qos.D", "qos_D", "uint32", "D", base.DEC)
Z.syntax("timestamp.timestamp", "timestamp_timestamp", "uint64", "timestamp", base.DEC)
Z.syntax("timestamp.timestamp_id", "timestamp_timestamp_id", "string", "timestamp_id")
Z.syntax("node_id.node_id", "node_id_node_id", "uint64", "node_id", base.DEC)
Z.syntax("response_final.Z", "response_final_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("response_final.reserved_6", "response_final_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("response_final.reserved_5", "response_final_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("response_final.request_id", "response_final_request_id", "uint64", "request_id", base.DEC)
Z.syntax("response.Z", "response_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("response.M", "response_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("response.N", "response_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("response.request_id", "response_request_id", "uint64", "request_id", base.DEC)
Z.syntax("response.key_scope", "response_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("response.key_suffix", "response_key_suffix", "string", "key_suffix")
Z.syntax("responder_id.zid_len", "responder_id_zid_len", "uint8", "zid_len", base.DEC, nil, 0xf0)
Z.syntax("responder_id.reserved0", "responder_id_reserved0", "uint8", "reserved0", base.DEC, nil, 0x0f)
Z.syntax("responder_id.zid", "responder_id_zid", "string", "zid")
Z.syntax("responder_id.eid", "responder_id_eid", "uint64", "eid", base.DEC)
Z.syntax("timestamp_stack.conf_flags", "timestamp_stack_conf_flags", "uint8", "conf_flags", base.DEC)
Z.syntax("timestamp_stack.custom", "timestamp_stack_custom", "uint8", "custom", base.DEC, nil, 0x80)
Z.syntax("timestamp_stack.reserved3", "timestamp_stack_reserved3", "uint8", "reserved3", base.DEC, nil, 0x78)
Z.syntax("timestamp_stack.point", "timestamp_stack_point", "uint8", "point", base.DEC, nil, 0x07)
Z.syntax("timestamp_stack.record", "timestamp_stack_record", "bytes", "record")
Z.syntax("stamp.timestamp", "stamp_timestamp", "uint64", "timestamp", base.DEC)
Z.syntax("stamp.timestamp_id", "stamp_timestamp_id", "string", "timestamp_id")
Z.syntax("request.Z", "request_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("request.M", "request_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("request.N", "request_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("request.request_id", "request_request_id", "uint64", "request_id", base.DEC)
Z.syntax("request.key_scope", "request_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("request.key_suffix", "request_key_suffix", "string", "key_suffix")
Z.syntax("query_target.target", "query_target_target", "uint64", "target", base.DEC, Z.enums.QueryTarget)
Z.syntax("budget.budget", "budget_budget", "uint64", "budget", base.DEC)
Z.syntax("timeout.timeout", "timeout_timeout", "uint64", "timeout", base.DEC)
Z.syntax("push.Z", "push_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("push.M", "push_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("push.N", "push_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("push.key_scope", "push_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("push.key_suffix", "push_key_suffix", "string", "key_suffix")
Z.syntax("declare.Z", "declare_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("declare.reserved_6", "declare_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("declare.I", "declare_I", "uint8", "I", base.DEC, nil, 0x20)
Z.syntax("declare.interest_id", "declare_interest_id", "uint64", "interest_id", base.DEC)
Z.syntax("network_oam.Z", "network_oam_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("network_oam.oam_id", "network_oam_oam_id", "uint64", "oam_id", base.DEC, Z.enums.OamId)
Z.syntax("network_oam.z64", "network_oam_z64", "uint64", "z64", base.DEC)
Z.syntax("network_oam.data", "network_oam_data", "bytes", "data")
Z.syntax("linkstate.reserved5", "linkstate_reserved5", "uint64", "reserved5", base.DEC)
Z.syntax("linkstate.gateway", "linkstate_gateway", "uint32", "gateway", base.DEC)
Z.syntax("linkstate.has_weights", "linkstate_has_weights", "uint32", "has_weights", base.DEC)
Z.syntax("linkstate.has_locators", "linkstate_has_locators", "uint32", "has_locators", base.DEC)
Z.syntax("linkstate.has_whatami", "linkstate_has_whatami", "uint32", "has_whatami", base.DEC)
Z.syntax("linkstate.has_zid", "linkstate_has_zid", "uint32", "has_zid", base.DEC)
Z.syntax("linkstate.psid", "linkstate_psid", "uint64", "psid", base.DEC)
Z.syntax("linkstate.state_sn", "linkstate_state_sn", "uint64", "state_sn", base.DEC)
Z.syntax("linkstate.zid", "linkstate_zid", "string", "zid")
Z.syntax("linkstate.whatami", "linkstate_whatami", "uint8", "whatami", base.DEC, Z.enums.What)
Z.syntax("linkstate.locator", "linkstate_locator", "string", "locator")
Z.syntax("linkstate.link", "linkstate_link", "uint64", "link", base.DEC)
Z.syntax("linkstate.weight", "linkstate_weight", "uint64", "weight", base.DEC)
Z.syntax("d_keyexpr.Z", "d_keyexpr_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("d_keyexpr.reserved_6", "d_keyexpr_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("d_keyexpr.N", "d_keyexpr_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("d_keyexpr.key_id", "d_keyexpr_key_id", "uint64", "key_id", base.DEC)
Z.syntax("d_keyexpr.key_scope", "d_keyexpr_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("d_keyexpr.key_suffix", "d_keyexpr_key_suffix", "string", "key_suffix")
Z.syntax("u_keyexpr.Z", "u_keyexpr_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("u_keyexpr.reserved_6", "u_keyexpr_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("u_keyexpr.reserved_5", "u_keyexpr_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("u_keyexpr.key_id", "u_keyexpr_key_id", "uint64", "key_id", base.DEC)
Z.syntax("d_subscriber.Z", "d_subscriber_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("d_subscriber.M", "d_subscriber_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("d_subscriber.N", "d_subscriber_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("d_subscriber.entity_id", "d_subscriber_entity_id", "uint64", "entity_id", base.DEC)
Z.syntax("d_subscriber.key_scope", "d_subscriber_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("d_subscriber.key_suffix", "d_subscriber_key_suffix", "string", "key_suffix")
Z.syntax("u_subscriber.Z", "u_subscriber_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("u_subscriber.reserved_6", "u_subscriber_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("u_subscriber.reserved_5", "u_subscriber_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("u_subscriber.entity_id", "u_subscriber_entity_id", "uint64", "entity_id", base.DEC)
Z.syntax("wire_expr.reserved2", "wire_expr_reserved2", "uint8", "reserved2", base.DEC, nil, 0xfc)
Z.syntax("wire_expr.mapping", "wire_expr_mapping", "uint8", "mapping", base.DEC, nil, 0x02)
Z.syntax("wire_expr.N", "wire_expr_N", "uint8", "N", base.DEC, nil, 0x01)
Z.syntax("wire_expr.key_scope", "wire_expr_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("wire_expr.key_suffix", "wire_expr_key_suffix", "string", "key_suffix")
Z.syntax("d_queryable.Z", "d_queryable_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("d_queryable.M", "d_queryable_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("d_queryable.N", "d_queryable_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("d_queryable.entity_id", "d_queryable_entity_id", "uint64", "entity_id", base.DEC)
Z.syntax("d_queryable.key_scope", "d_queryable_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("d_queryable.key_suffix", "d_queryable_key_suffix", "string", "key_suffix")
Z.syntax("queryable_info.reserved24", "queryable_info_reserved24", "uint64", "reserved24", base.DEC)
Z.syntax("queryable_info.distance", "queryable_info_distance", "uint32", "distance", base.DEC)
Z.syntax("queryable_info.reserved1", "queryable_info_reserved1", "uint32", "reserved1", base.DEC)
Z.syntax("queryable_info.complete", "queryable_info_complete", "uint32", "complete", base.DEC)
Z.syntax("u_queryable.Z", "u_queryable_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("u_queryable.reserved_6", "u_queryable_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("u_queryable.reserved_5", "u_queryable_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("u_queryable.entity_id", "u_queryable_entity_id", "uint64", "entity_id", base.DEC)
Z.syntax("d_token.Z", "d_token_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("d_token.M", "d_token_M", "uint8", "M", base.DEC, nil, 0x40)
Z.syntax("d_token.N", "d_token_N", "uint8", "N", base.DEC, nil, 0x20)
Z.syntax("d_token.entity_id", "d_token_entity_id", "uint64", "entity_id", base.DEC)
Z.syntax("d_token.key_scope", "d_token_key_scope", "uint64", "key_scope", base.DEC)
Z.syntax("d_token.key_suffix", "d_token_key_suffix", "string", "key_suffix")
Z.syntax("u_token.Z", "u_token_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("u_token.reserved_6", "u_token_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("u_token.reserved_5", "u_token_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("u_token.entity_id", "u_token_entity_id", "uint64", "entity_id", base.DEC)
Z.syntax("d_final.Z", "d_final_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("d_final.reserved_6", "d_final_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("d_final.reserved_5", "d_final_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("put.Z", "put_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("put.E", "put_E", "uint8", "E", base.DEC, nil, 0x40)
Z.syntax("put.T", "put_T", "uint8", "T", base.DEC, nil, 0x20)
Z.syntax("put.timestamp", "put_timestamp", "uint64", "timestamp", base.DEC)
Z.syntax("put.timestamp_id", "put_timestamp_id", "string", "timestamp_id")
Z.syntax("put.reserved32", "put_reserved32", "uint32", "reserved32", base.DEC)
Z.syntax("put.encoding", "put_encoding", "uint32", "encoding", base.DEC, Z.enums.Encoding)
Z.syntax("put.S", "put_S", "uint32", "S", base.DEC)
Z.syntax("put.schema", "put_schema", "bytes", "schema")
Z.syntax("put.data", "put_data", "bytes", "data")
Z.syntax("put.kind", "put_kind", "uint8", "kind", base.DEC)
Z.syntax("put.slice", "put_slice", "bytes", "slice")
Z.syntax("source_info.zid_len", "source_info_zid_len", "uint8", "zid_len", base.DEC, nil, 0xf0)
Z.syntax("source_info.reserved0", "source_info_reserved0", "uint8", "reserved0", base.DEC, nil, 0x0f)
Z.syntax("source_info.zid", "source_info_zid", "string", "zid")
Z.syntax("source_info.eid", "source_info_eid", "uint64", "eid", base.DEC)
Z.syntax("source_info.source_sn", "source_info_source_sn", "uint64", "source_sn", base.DEC)
Z.syntax("attachment.attachment", "attachment_attachment", "bytes", "attachment")
Z.syntax("reference.size", "reference_size", "uint64", "size", base.DEC)
Z.syntax("reference.segment_id", "reference_segment_id", "uint64", "segment_id", base.DEC)
Z.syntax("reference.index", "reference_index", "uint64", "index", base.DEC)
Z.syntax("reference.generation", "reference_generation", "uint64", "generation", base.DEC)
Z.syntax("del.Z", "del_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("del.reserved_6", "del_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("del.T", "del_T", "uint8", "T", base.DEC, nil, 0x20)
Z.syntax("del.timestamp", "del_timestamp", "uint64", "timestamp", base.DEC)
Z.syntax("del.timestamp_id", "del_timestamp_id", "string", "timestamp_id")
Z.syntax("query.Z", "query_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("query.P", "query_P", "uint8", "P", base.DEC, nil, 0x40)
Z.syntax("query.C", "query_C", "uint8", "C", base.DEC, nil, 0x20)
Z.syntax("query.consolidation", "query_consolidation", "uint64", "consolidation", base.DEC, Z.enums.Consolidation)
Z.syntax("query.parameters", "query_parameters", "string", "parameters")
Z.syntax("query_body.reserved32", "query_body_reserved32", "uint32", "reserved32", base.DEC)
Z.syntax("query_body.encoding", "query_body_encoding", "uint32", "encoding", base.DEC, Z.enums.Encoding)
Z.syntax("query_body.S", "query_body_S", "uint32", "S", base.DEC)
Z.syntax("query_body.schema", "query_body_schema", "bytes", "schema")
Z.syntax("query_body.data", "query_body_data", "bytes", "data")
Z.syntax("query_body.kind", "query_body_kind", "uint8", "kind", base.DEC)
Z.syntax("query_body.slice", "query_body_slice", "bytes", "slice")
Z.syntax("reply.Z", "reply_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("reply.reserved_6", "reply_reserved_6", "uint8", "reserved_6", base.DEC, nil, 0x40)
Z.syntax("reply.C", "reply_C", "uint8", "C", base.DEC, nil, 0x20)
Z.syntax("reply.consolidation", "reply_consolidation", "uint64", "consolidation", base.DEC, Z.enums.Consolidation)
Z.syntax("err.Z", "err_Z", "uint8", "Z", base.DEC, nil, 0x80)
Z.syntax("err.E", "err_E", "uint8", "E", base.DEC, nil, 0x40)
Z.syntax("err.reserved_5", "err_reserved_5", "uint8", "reserved_5", base.DEC, nil, 0x20)
Z.syntax("err.reserved32", "err_reserved32", "uint32", "reserved32", base.DEC)
Z.syntax("err.encoding", "err_encoding", "uint32", "encoding", base.DEC, Z.enums.Encoding)
Z.syntax("err.S", "err_S", "uint32", "S", base.DEC)
Z.syntax("err.schema", "err_schema", "bytes", "schema")
Z.syntax("err.data", "err_data", "bytes", "data")
Z.syntax("unknown_extension.z64", "unknown_extension_z64", "uint64", "z64", base.DEC)
Z.syntax("unknown_extension.data", "unknown_extension_data", "bytes", "data")
Z.syntax("unknown_extension", "unknown_extension", "none", "unknown extension")
Z.syntax("scout", "scout", "none", "SCOUT")
Z.syntax("hello", "hello", "none", "HELLO")
Z.syntax("transport_oam", "transport_oam", "none", "OAM")
Z.syntax("init", "init", "none", "INIT")
Z.syntax("open", "open", "none", "OPEN")
Z.syntax("close", "close", "none", "CLOSE")
Z.syntax("keep_alive", "keep_alive", "none", "KEEP_ALIVE")
Z.syntax("frame", "frame", "none", "FRAME")
Z.syntax("fragment", "fragment", "none", "FRAGMENT")
Z.syntax("join", "join", "none", "JOIN")
Z.syntax("interest", "interest", "none", "INTEREST")
Z.syntax("response_final", "response_final", "none", "RESPONSE_FINAL")
Z.syntax("response", "response", "none", "RESPONSE")
Z.syntax("request", "request", "none", "REQUEST")
Z.syntax("push", "push", "none", "PUSH")
Z.syntax("declare", "declare", "none", "DECLARE")
Z.syntax("network_oam", "network_oam", "none", "OAM")
Z.syntax("d_keyexpr", "d_keyexpr", "none", "D_KEYEXPR")
Z.syntax("u_keyexpr", "u_keyexpr", "none", "U_KEYEXPR")
Z.syntax("d_subscriber", "d_subscriber", "none", "D_SUBSCRIBER")
Z.syntax("u_subscriber", "u_subscriber", "none", "U_SUBSCRIBER")
Z.syntax("d_queryable", "d_queryable", "none", "D_QUERYABLE")
Z.syntax("u_queryable", "u_queryable", "none", "U_QUERYABLE")
Z.syntax("d_token", "d_token", "none", "D_TOKEN")
Z.syntax("u_token", "u_token", "none", "U_TOKEN")
Z.syntax("d_final", "d_final", "none", "D_FINAL")
Z.syntax("put", "put", "none", "PUT")
Z.syntax("del", "del", "none", "DEL")
Z.syntax("query", "query", "none", "QUERY")
Z.syntax("reply", "reply", "none", "REPLY")
Z.syntax("err", "err", "none", "ERR")
Z.syntax("qos", "qos", "none", "QoS")
Z.syntax("qoslink", "qoslink", "none", "QoSLink")
Z.syntax("shm", "shm", "none", "Shm")
Z.syntax("auth", "auth", "none", "Auth")
Z.syntax("usr_pwd", "usr_pwd", "none", "UsrPwd")
Z.syntax("pub_key", "pub_key", "none", "PubKey")
Z.syntax("multi_link", "multi_link", "none", "MultiLink")
Z.syntax("low_latency", "low_latency", "none", "LowLatency")
Z.syntax("compression", "compression", "none", "Compression")
Z.syntax("patch", "patch", "none", "Patch")
Z.syntax("region_name", "region_name", "none", "RegionName")
Z.syntax("multi_link_ack", "multi_link_ack", "none", "MultiLinkAck")
Z.syntax("remote_bound", "remote_bound", "none", "RemoteBound")
Z.syntax("first", "first", "none", "First")
Z.syntax("drop", "drop", "none", "Drop")
Z.syntax("timestamp", "timestamp", "none", "Timestamp")
Z.syntax("node_id", "node_id", "none", "NodeId")
Z.syntax("responder_id", "responder_id", "none", "ResponderId")
Z.syntax("timestamp_stack", "timestamp_stack", "none", "TimestampStack")
Z.syntax("stamp", "stamp", "none", "stamp")
Z.syntax("query_target", "query_target", "none", "QueryTarget")
Z.syntax("budget", "budget", "none", "Budget")
Z.syntax("timeout", "timeout", "none", "Timeout")
Z.syntax("linkstate", "linkstate", "none", "linkstate")
Z.syntax("wire_expr", "wire_expr", "none", "WireExpr")
Z.syntax("queryable_info", "queryable_info", "none", "QueryableInfo")
Z.syntax("source_info", "source_info", "none", "SourceInfo")
Z.syntax("attachment", "attachment", "none", "Attachment")
Z.syntax("reference", "reference", "none", "reference")
Z.syntax("query_body_shm", "query_body_shm", "none", "QueryBodyShm")
Z.syntax("query_body", "query_body", "none", "QueryBody")

local byte, sub, find, floor = string.byte, string.sub, string.find, math.floor
local F, messages, none = Z.fields, Z.messages, {}
local vle, number, wide, bits_of, add_vle, le, zid = Z.vle, Z.number, Z.wide, Z.bits_of, Z.add_vle, Z.le, Z.zid
local shown, is_utf8, note, fail, cut = Z.shown, Z.is_utf8, Z.refuse, Z.fail, Z.cut
local chain, region, body, messages_of = Z.chain, Z.region, Z.body, Z.messages_of
local R, I, C, S = {}, {}, {}, {}
I.qos_0 = { name = "qos", label = "QoS", field = F.qos, enc = 1 }
I.qos_1 = { name = "qos", label = "QoS", field = F.qos, enc = 0 }
I.qoslink_2 = { name = "qoslink", label = "QoSLink", field = F.qoslink, enc = 1 }
I.shm_3 = { name = "shm", label = "Shm", field = F.shm, enc = 2, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.shm_4 = { name = "shm", label = "Shm", field = F.shm, enc = 2, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.auth_5 = { name = "auth", label = "Auth", field = F.auth, enc = 2, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.usr_pwd_6 = { name = "usr_pwd", label = "UsrPwd", field = F.usr_pwd, enc = 0 }
I.pub_key_7 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 2 }
I.auth_8 = { name = "auth", label = "Auth", field = F.auth, enc = 2, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.usr_pwd_9 = { name = "usr_pwd", label = "UsrPwd", field = F.usr_pwd, enc = 1 }
I.pub_key_10 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 2 }
I.multi_link_11 = { name = "multi_link", label = "MultiLink", field = F.multi_link, enc = 2, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.multi_link_12 = { name = "multi_link", label = "MultiLink", field = F.multi_link, enc = 2, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.low_latency_13 = { name = "low_latency", label = "LowLatency", field = F.low_latency, enc = 0 }
I.compression_14 = { name = "compression", label = "Compression", field = F.compression, enc = 0 }
I.patch_15 = { name = "patch", label = "Patch", field = F.patch, enc = 1 }
I.region_name_16 = { name = "region_name", label = "RegionName", field = F.region_name, enc = 2 }
I.shm_17 = { name = "shm", label = "Shm", field = F.shm, enc = 1 }
I.shm_18 = { name = "shm", label = "Shm", field = F.shm, enc = 2, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.shm_19 = { name = "shm", label = "Shm", field = F.shm, enc = 2, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.auth_20 = { name = "auth", label = "Auth", field = F.auth, enc = 2, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.usr_pwd_21 = { name = "usr_pwd", label = "UsrPwd", field = F.usr_pwd, enc = 2 }
I.pub_key_22 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 2 }
I.auth_23 = { name = "auth", label = "Auth", field = F.auth, enc = 2, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.pub_key_24 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 0 }
I.multi_link_25 = { name = "multi_link", label = "MultiLink", field = F.multi_link, enc = 2, lenient = true }
I.multi_link_ack_26 = { name = "multi_link_ack", label = "MultiLinkAck", field = F.multi_link_ack, enc = 0 }
I.remote_bound_27 = { name = "remote_bound", label = "RemoteBound", field = F.remote_bound, enc = 1 }
I.first_28 = { name = "first", label = "First", field = F.first, enc = 0 }
I.drop_29 = { name = "drop", label = "Drop", field = F.drop, enc = 0 }
I.qos_30 = { name = "qos", label = "QoS", field = F.qos, enc = 2 }
I.shm_31 = { name = "shm", label = "Shm", field = F.shm, enc = 2 }
I.qos_32 = { name = "qos", label = "QoS", field = F.qos, enc = 1 }
I.timestamp_33 = { name = "timestamp", label = "Timestamp", field = F.timestamp, enc = 2 }
I.node_id_34 = { name = "node_id", label = "NodeId", field = F.node_id, enc = 1 }
I.responder_id_35 = { name = "responder_id", label = "ResponderId", field = F.responder_id, enc = 2 }
I.timestamp_stack_36 = { name = "timestamp_stack", label = "TimestampStack", field = F.timestamp_stack, enc = 2 }
I.stamp_37 = { name = "stamp", label = "stamp", field = F.stamp }
I.query_target_38 = { name = "query_target", label = "QueryTarget", field = F.query_target, enc = 1 }
I.budget_39 = { name = "budget", label = "Budget", field = F.budget, enc = 1 }
I.timeout_40 = { name = "timeout", label = "Timeout", field = F.timeout, enc = 1 }
I.linkstate_41 = { name = "linkstate", label = "linkstate", field = F.linkstate }
I.wire_expr_42 = { name = "wire_expr", label = "WireExpr", field = F.wire_expr, enc = 2 }
I.queryable_info_43 = { name = "queryable_info", label = "QueryableInfo", field = F.queryable_info, enc = 1 }
I.source_info_44 = { name = "source_info", label = "SourceInfo", field = F.source_info, enc = 2 }
I.shm_45 = { name = "shm", label = "Shm", field = F.shm, enc = 0 }
I.attachment_46 = { name = "attachment", label = "Attachment", field = F.attachment, enc = 2 }
I.reference_47 = { name = "reference", label = "reference", field = F.reference }
I.attachment_48 = { name = "attachment", label = "Attachment", field = F.attachment, enc = 2 }
I.query_body_shm_49 = { name = "query_body_shm", label = "QueryBodyShm", field = F.query_body_shm, enc = 0 }
I.query_body_50 = { name = "query_body", label = "QueryBody", field = F.query_body, enc = 2, fits = function(m, seen) return not ((seen or none)[0x04]) end }
I.query_body_51 = { name = "query_body", label = "QueryBody", field = F.query_body, enc = 2, unbounded = true, fits = function(m, seen) return (seen or none)[0x04] end }
I.attachment_52 = { name = "attachment", label = "Attachment", field = F.attachment, enc = 2 }
C[1] = { skips_mandatory = true }
C[2] = { [0x31] = { I.qos_0 } }
C[3] = { [0x01] = { I.qos_1 }, [0x21] = { I.qoslink_2 }, [0x42] = { I.shm_3, I.shm_4 }, [0x43] = { I.auth_5, I.auth_8 }, [0x44] = { I.multi_link_11, I.multi_link_12 }, [0x05] = { I.low_latency_13 }, [0x06] = { I.compression_14 }, [0x27] = { I.patch_15 }, [0x48] = { I.region_name_16 } }
C[4] = { [0x01] = { I.qos_1 }, [0x22] = { I.shm_17 }, [0x42] = { I.shm_18, I.shm_19 }, [0x43] = { I.auth_20, I.auth_23 }, [0x44] = { I.multi_link_25 }, [0x04] = { I.multi_link_ack_26 }, [0x05] = { I.low_latency_13 }, [0x06] = { I.compression_14 }, [0x27] = { I.remote_bound_27 } }
C[5] = {  }
C[6] = { [0x31] = { I.qos_0 }, [0x02] = { I.first_28 }, [0x03] = { I.drop_29 } }
C[7] = { [0x51] = { I.qos_30 }, [0x52] = { I.shm_31 }, [0x27] = { I.patch_15 } }
C[8] = { [0x21] = { I.qos_32 }, [0x42] = { I.timestamp_33 }, [0x33] = { I.node_id_34 } }
C[9] = { [0x21] = { I.qos_32 }, [0x42] = { I.timestamp_33 } }
C[10] = { [0x21] = { I.qos_32 }, [0x42] = { I.timestamp_33 }, [0x43] = { I.responder_id_35 }, [0x47] = { I.timestamp_stack_36 } }
C[11] = { [0x21] = { I.qos_32 }, [0x42] = { I.timestamp_33 }, [0x33] = { I.node_id_34 }, [0x34] = { I.query_target_38 }, [0x25] = { I.budget_39 }, [0x26] = { I.timeout_40 }, [0x47] = { I.timestamp_stack_36 } }
C[12] = { [0x21] = { I.qos_32 }, [0x42] = { I.timestamp_33 }, [0x33] = { I.node_id_34 }, [0x47] = { I.timestamp_stack_36 } }
C[13] = { [0x5f] = { I.wire_expr_42 } }
C[14] = { [0x21] = { I.queryable_info_43 } }
C[15] = { [0x41] = { I.source_info_44 }, [0x12] = { I.shm_45 }, [0x43] = { I.attachment_46 } }
C[16] = { [0x41] = { I.source_info_44 }, [0x42] = { I.attachment_48 }, [0x43] = { I.attachment_46 } }
C[17] = { [0x41] = { I.source_info_44 }, [0x04] = { I.query_body_shm_49 }, [0x43] = { I.query_body_50, I.query_body_51 }, [0x45] = { I.attachment_52 } }
C[18] = { [0x41] = { I.source_info_44 }, [0x12] = { I.shm_45 } }
C[19] = { [0x02] = { I.usr_pwd_6 }, [0x41] = { I.pub_key_7 } }
C[20] = { [0x22] = { I.usr_pwd_9 }, [0x41] = { I.pub_key_10 } }
C[21] = { [0x42] = { I.usr_pwd_21 }, [0x41] = { I.pub_key_22 } }
C[22] = { [0x02] = { I.usr_pwd_6 }, [0x01] = { I.pub_key_24 } }
S[1] = { [0x04] = true, [0x05] = true }
S[2] = { [0x03] = true }
S[3] = { [0x01] = true, [0x02] = true }
S[4] = { [0x00] = true, [0x01] = true, [0x02] = true, [0x03] = true, [0x04] = true, [0x05] = true, [0x06] = true, [0x07] = true, [0x1a] = true }

R.scout = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.scout_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.scout_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.scout_reserved_5, here) end
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then item:add(F.scout_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.I = floor(c / 8) % 2
  m.what = c % 8
  if item then
    local here = range(at, 1)
    item:add(F.scout_zid_len, here)
    item:add(F.scout_I, here)
    item:add(F.scout_what, here)
  end
  at = at + 1
  if m.I == 1 then
    start, n = at, at + m.zid_len + 1
    if n > stop then return cut(b, m, "zid", at) end
    m.zid = zid(raw, start, n)
    if item then item:add(F.scout_zid, range(start, n - start), m.zid) end
    if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[1], at, stop)
    if not at then return nil end
  end
  return at
end

R.hello = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.L = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.hello_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.hello_reserved_6, here) end
    item:add(F.hello_L, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then item:add(F.hello_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved2 = floor(c / 4) % 4
  m.whatami = c % 4
  if item then
    local here = range(at, 1)
    item:add(F.hello_zid_len, here)
    if m.reserved2 ~= 0 then item:add(F.hello_reserved2, here) end
    item:add(F.hello_whatami, here)
  end
  if m.whatami < 0 or m.whatami > 2 then note(b, m, "BadValue", "whatami", at, m.whatami .. " has no meaning") end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then item:add(F.hello_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  if m.L == 1 then
    do
      local first, count = at, nil
      lo, hi, n = vle(raw, at, stop)
      if not lo then return cut(b, m, "locators", at) end
      count, at = lo + hi * 4294967296, n
      local list, index = {}, 0
      m.locators = list
      while index < count do
        local v, path, begun = {}, "locators" .. "[" .. index .. "]", at
        lo, hi, start = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".locator", at) end
        if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", path .. ".locator", at, "a length of " .. lo + hi * 4294967296) end
        n = start + lo
        if hi > 0 or n > stop then return cut(b, m, path .. ".locator", at) end
        v.locator = sub(raw, start + 1, n)
        if item then item:add(F.hello_locator, range(start, n - start), shown(v.locator)) end
        if not is_utf8(v.locator) then note(b, m, "BadValue", path .. ".locator", at, "not UTF-8") end
        if not find(v.locator, "/", 1, true) or find(v.locator, "#", 1, true) then note(b, m, "BadValue", path .. ".locator", at, "no locator (proto/address)") end
        at = n
        index = index + 1
        list[index] = v.locator
      end
    end
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[1], at, stop)
    if not at then return nil end
  end
  return at
end

R.transport_oam = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.ENC = floor(c / 32) % 4
  if item then
    local here = range(at, 1)
    item:add(F.transport_oam_Z, here)
  end
  if m.ENC < 0 or m.ENC > 2 then note(b, m, "BadValue", "ENC", at, m.ENC .. " has no meaning") end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "oam_id", at) end
  m.oam_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.transport_oam_oam_id, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[2], at, stop)
    if not at then return nil end
  end
  if m.ENC == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "z64", at) end
    m.z64 = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.transport_oam_z64, range, at, n, lo, hi) end
    at = n
  end
  if m.ENC == 2 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "data", at) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "data", at) end
    m.data = sub(raw, start + 1, n)
    if item then item:add(F.transport_oam_data, range(start, n - start)) end
    at = n
  end
  return at
end

R.init = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.S = floor(c / 64) % 2
  m.A = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.init_Z, here)
    item:add(F.init_S, here)
    item:add(F.init_A, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then item:add(F.init_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved2 = floor(c / 4) % 4
  m.whatami = c % 4
  if item then
    local here = range(at, 1)
    item:add(F.init_zid_len, here)
    if m.reserved2 ~= 0 then item:add(F.init_reserved2, here) end
    item:add(F.init_whatami, here)
  end
  if m.whatami < 0 or m.whatami > 2 then note(b, m, "BadValue", "whatami", at, m.whatami .. " has no meaning") end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then item:add(F.init_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  if m.S == 1 then
    c = at < stop and byte(raw, at + 1)
    if not c then return cut(b, m, "rid", at) end
    m.reserved4 = floor(c / 16)
    m.rid = floor(c / 4) % 4
    m.fsn = c % 4
    if item then
      local here = range(at, 1)
      if m.reserved4 ~= 0 then item:add(F.init_reserved4, here) end
      item:add(F.init_rid, here)
      item:add(F.init_fsn, here)
    end
    at = at + 1
    if stop - at < 2 then return cut(b, m, "batch_size", at) end
    m.batch_size = le(raw, at, 2, false)
    if item then item:add_le(F.init_batch_size, range(at, 2)) end
    at = at + 2
  end
  if m.A == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "cookie", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "cookie", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "cookie", at) end
    m.cookie = sub(raw, start + 1, n)
    if item then item:add(F.init_cookie, range(start, n - start)) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[3], at, stop)
    if not at then return nil end
  end
  return at
end

R.open = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.T = floor(c / 64) % 2
  m.A = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.open_Z, here)
    item:add(F.open_T, here)
    item:add(F.open_A, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "lease", at) end
  m.lease = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.open_lease, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "initial_sn", at) end
  m.initial_sn = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.open_initial_sn, range, at, n, lo, hi) end
  at = n
  if m.A == 0 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "cookie", at) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "cookie", at) end
    m.cookie = sub(raw, start + 1, n)
    if item then item:add(F.open_cookie, range(start, n - start)) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[4], at, stop)
    if not at then return nil end
  end
  return at
end

R.close = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.S = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.close_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.close_reserved_6, here) end
    item:add(F.close_S, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "reason", at) end
  m.reason = c
  if item then item:add(F.close_reason, range(at, 1)) end
  at = at + 1
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.keep_alive = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.keep_alive_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.keep_alive_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.keep_alive_reserved_5, here) end
  end
  at = at + 1
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.frame = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.R = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.frame_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.frame_reserved_6, here) end
    item:add(F.frame_R, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "sn", at) end
  m.sn = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.frame_sn, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[2], at, stop)
    if not at then return nil end
  end
  at = messages_of(b, m, messages.network, at, stop)
  if not at then return nil end
  return at
end

R.fragment = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.R = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.fragment_Z, here)
    item:add(F.fragment_M, here)
    item:add(F.fragment_R, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "sn", at) end
  m.sn = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.fragment_sn, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[6], at, stop)
    if not at then return nil end
  end
  start, n = at, stop
  m.data = sub(raw, start + 1, n)
  if item then item:add(F.fragment_data, range(start, n - start)) end
  at = n
  return at
end

R.join = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.S = floor(c / 64) % 2
  m.T = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.join_Z, here)
    item:add(F.join_S, here)
    item:add(F.join_T, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then item:add(F.join_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved2 = floor(c / 4) % 4
  m.whatami = c % 4
  if item then
    local here = range(at, 1)
    item:add(F.join_zid_len, here)
    if m.reserved2 ~= 0 then item:add(F.join_reserved2, here) end
    item:add(F.join_whatami, here)
  end
  if m.whatami < 0 or m.whatami > 2 then note(b, m, "BadValue", "whatami", at, m.whatami .. " has no meaning") end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then item:add(F.join_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  if m.S == 1 then
    c = at < stop and byte(raw, at + 1)
    if not c then return cut(b, m, "rid", at) end
    m.reserved4 = floor(c / 16)
    m.rid = floor(c / 4) % 4
    m.fsn = c % 4
    if item then
      local here = range(at, 1)
      if m.reserved4 ~= 0 then item:add(F.join_reserved4, here) end
      item:add(F.join_rid, here)
      item:add(F.join_fsn, here)
    end
    at = at + 1
    if stop - at < 2 then return cut(b, m, "batch_size", at) end
    m.batch_size = le(raw, at, 2, false)
    if item then item:add_le(F.join_batch_size, range(at, 2)) end
    at = at + 2
  end
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "lease", at) end
  m.lease = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.join_lease, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "next_sn_re", at) end
  m.next_sn_re = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.join_next_sn_re, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "next_sn_be", at) end
  m.next_sn_be = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.join_next_sn_be, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[7], at, stop)
    if not at then return nil end
  end
  return at
end

R.interest = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.mode = floor(c / 32) % 4
  if item then
    local here = range(at, 1)
    item:add(F.interest_Z, here)
    item:add(F.interest_mode, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "interest_id", at) end
  m.interest_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.interest_interest_id, range, at, n, lo, hi) end
  at = n
  if m.mode ~= 0 then
    c = at < stop and byte(raw, at + 1)
    if not c then return cut(b, m, "aggregate", at) end
    m.aggregate = floor(c / 128)
    m.M = floor(c / 64) % 2
    m.N = floor(c / 32) % 2
    m.restricted = floor(c / 16) % 2
    m.tokens = floor(c / 8) % 2
    m.queryables = floor(c / 4) % 2
    m.subscribers = floor(c / 2) % 2
    m.keyexprs = c % 2
    if item then
      local here = range(at, 1)
      item:add(F.interest_aggregate, here)
      item:add(F.interest_M, here)
      item:add(F.interest_N, here)
      item:add(F.interest_restricted, here)
      item:add(F.interest_tokens, here)
      item:add(F.interest_queryables, here)
      item:add(F.interest_subscribers, here)
      item:add(F.interest_keyexprs, here)
    end
    at = at + 1
  end
  if m.mode ~= 0 and m.restricted == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_scope", at) end
    m.key_scope = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.interest_key_scope, range, at, n, lo, hi) end
    if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
    at = n
  end
  if m.mode ~= 0 and m.restricted == 1 and m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.interest_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[8], at, stop)
    if not at then return nil end
  end
  return at
end

R.response_final = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.response_final_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.response_final_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.response_final_reserved_5, here) end
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "request_id", at) end
  m.request_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.response_final_request_id, range, at, n, lo, hi) end
  if hi > 0 then note(b, m, "Overlong", "request_id", at, "more than 32 bits") end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[9], at, stop)
    if not at then return nil end
  end
  return at
end

R.response = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.response_Z, here)
    item:add(F.response_M, here)
    item:add(F.response_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "request_id", at) end
  m.request_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.response_request_id, range, at, n, lo, hi) end
  if hi > 0 then note(b, m, "Overlong", "request_id", at, "more than 32 bits") end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.response_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.response_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[10], at, stop)
    if not at then return nil end
  end
  at = body(b, m, "body", messages.data, S[1], at, stop)
  if not at then return nil end
  return at
end

R.request = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.request_Z, here)
    item:add(F.request_M, here)
    item:add(F.request_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "request_id", at) end
  m.request_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.request_request_id, range, at, n, lo, hi) end
  if hi > 0 then note(b, m, "Overlong", "request_id", at, "more than 32 bits") end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.request_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.request_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[11], at, stop)
    if not at then return nil end
  end
  at = body(b, m, "body", messages.data, S[2], at, stop)
  if not at then return nil end
  return at
end

R.push = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.push_Z, here)
    item:add(F.push_M, here)
    item:add(F.push_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.push_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.push_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[12], at, stop)
    if not at then return nil end
  end
  at = body(b, m, "body", messages.data, S[3], at, stop)
  if not at then return nil end
  return at
end

R.declare = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.I = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.declare_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.declare_reserved_6, here) end
    item:add(F.declare_I, here)
  end
  at = at + 1
  if m.I == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "interest_id", at) end
    m.interest_id = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.declare_interest_id, range, at, n, lo, hi) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[8], at, stop)
    if not at then return nil end
  end
  at = body(b, m, "body", messages.declaration, S[4], at, stop)
  if not at then return nil end
  return at
end

R.network_oam = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.ENC = floor(c / 32) % 4
  if item then
    local here = range(at, 1)
    item:add(F.network_oam_Z, here)
  end
  if m.ENC < 0 or m.ENC > 2 then note(b, m, "BadValue", "ENC", at, m.ENC .. " has no meaning") end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "oam_id", at) end
  m.oam_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.network_oam_oam_id, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[9], at, stop)
    if not at then return nil end
  end
  if m.ENC == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "z64", at) end
    m.z64 = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.network_oam_z64, range, at, n, lo, hi) end
    at = n
  end
  if m.ENC == 2 and m.oam_id == 1 then
    at = region(b, m, m, "linkstate", "linkstate", I.linkstate_41, item, at, stop)
    if not at then return nil end
  end
  if m.ENC == 2 and not (m.oam_id == 1) then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "data", at) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "data", at) end
    m.data = sub(raw, start + 1, n)
    if item then item:add(F.network_oam_data, range(start, n - start)) end
    at = n
  end
  return at
end

R.d_keyexpr = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.d_keyexpr_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.d_keyexpr_reserved_6, here) end
    item:add(F.d_keyexpr_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_id", at) end
  m.key_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_keyexpr_key_id, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_keyexpr_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.d_keyexpr_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.u_keyexpr = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.u_keyexpr_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.u_keyexpr_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.u_keyexpr_reserved_5, here) end
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_id", at) end
  m.key_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.u_keyexpr_key_id, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.d_subscriber = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.d_subscriber_Z, here)
    item:add(F.d_subscriber_M, here)
    item:add(F.d_subscriber_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "entity_id", at) end
  m.entity_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_subscriber_entity_id, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_subscriber_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.d_subscriber_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.u_subscriber = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.u_subscriber_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.u_subscriber_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.u_subscriber_reserved_5, here) end
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "entity_id", at) end
  m.entity_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.u_subscriber_entity_id, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[13], at, stop)
    if not at then return nil end
  end
  return at
end

R.d_queryable = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.d_queryable_Z, here)
    item:add(F.d_queryable_M, here)
    item:add(F.d_queryable_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "entity_id", at) end
  m.entity_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_queryable_entity_id, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_queryable_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.d_queryable_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[14], at, stop)
    if not at then return nil end
  end
  return at
end

R.u_queryable = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.u_queryable_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.u_queryable_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.u_queryable_reserved_5, here) end
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "entity_id", at) end
  m.entity_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.u_queryable_entity_id, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[13], at, stop)
    if not at then return nil end
  end
  return at
end

R.d_token = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.d_token_Z, here)
    item:add(F.d_token_M, here)
    item:add(F.d_token_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "entity_id", at) end
  m.entity_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_token_entity_id, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.d_token_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "key_suffix", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "key_suffix", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "key_suffix", at) end
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.d_token_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.u_token = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.u_token_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.u_token_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.u_token_reserved_5, here) end
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "entity_id", at) end
  m.entity_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.u_token_entity_id, range, at, n, lo, hi) end
  at = n
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[13], at, stop)
    if not at then return nil end
  end
  return at
end

R.d_final = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.d_final_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.d_final_reserved_6, here) end
    if m.reserved_5 ~= 0 then item:add(F.d_final_reserved_5, here) end
  end
  at = at + 1
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.put = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.E = floor(c / 64) % 2
  m.T = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.put_Z, here)
    item:add(F.put_E, here)
    item:add(F.put_T, here)
  end
  at = at + 1
  if m.T == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp", at) end
    m.timestamp = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.put_timestamp, range, at, n, lo, hi) end
    at = n
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp_id", at) end
    if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
    n = start + lo
    if n > stop then return cut(b, m, "timestamp_id", at) end
    m.timestamp_id = zid(raw, start, n)
    if item then item:add(F.put_timestamp_id, range(start, n - start), m.timestamp_id) end
    if m.timestamp_id == "0" then note(b, m, "BadValue", "timestamp_id", at, "a ZenohID of value 0") end
    at = n
  end
  if m.E == 1 then
    start, lo, hi, n = at, vle(raw, at, stop)
    if not lo then return cut(b, m, "encoding", at) end
    if hi > 0 then note(b, m, "Overlong", "encoding", at, "more than 32 bits") end
    m.reserved32 = hi
    m.encoding = floor(lo / 2)
    m.S = lo % 2
    if item then
      local here = range(at, n - at)
      if m.reserved32 ~= 0 then item:add(F.put_reserved32, here, m.reserved32) end
      item:add(F.put_encoding, here, m.encoding)
      item:add(F.put_S, here, m.S)
    end
    at = n
  end
  if m.E == 1 and m.S == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "schema", at) end
    if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", "schema", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "schema", at) end
    m.schema = sub(raw, start + 1, n)
    if item then item:add(F.put_schema, range(start, n - start)) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[15], at, stop)
    if not at then return nil end
  end
  if not ((m.seen or none)[0x12]) then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "data", at) end
    if hi > 0 then return fail(b, m, "Overlong", "data", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "data", at) end
    m.data = sub(raw, start + 1, n)
    if item then item:add(F.put_data, range(start, n - start)) end
    at = n
  end
  if (m.seen or none)[0x12] then
    do
      local first, count = at, nil
      lo, hi, n = vle(raw, at, stop)
      if not lo then return cut(b, m, "slices", at) end
      count, at = lo + hi * 4294967296, n
      local list, index = {}, 0
      m.slices = list
      while index < count do
        local v, path, begun = {}, "slices" .. "[" .. index .. "]", at
        local sub_item = item and item:add(range(at, 0), "slices[" .. index .. "]")
        c = at < stop and byte(raw, at + 1)
        if not c then return cut(b, m, path .. ".kind", at) end
        v.kind = c
        if sub_item then
          local here = range(at, 1)
          sub_item:add(F.put_kind, here)
        end
        if v.kind < 0 or v.kind > 1 then note(b, m, "BadValue", path .. ".kind", at, v.kind .. " has no meaning") end
        at = at + 1
        if v.kind == 0 then
          lo, hi, start = vle(raw, at, stop)
          if not lo then return cut(b, m, path .. ".slice", at) end
          n = start + lo
          if hi > 0 or n > stop then return cut(b, m, path .. ".slice", at) end
          v.slice = sub(raw, start + 1, n)
          if sub_item then sub_item:add(F.put_slice, range(start, n - start)) end
          at = n
        end
        if v.kind == 1 then
          at = region(b, m, v, "reference", path .. ".reference", I.reference_47, sub_item, at, stop)
          if not at then return nil end
        end
        index = index + 1
        if sub_item then sub_item:set_len(at - begun) end
        list[index] = v
      end
    end
  end
  return at
end

R.del = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.T = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.del_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.del_reserved_6, here) end
    item:add(F.del_T, here)
  end
  at = at + 1
  if m.T == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp", at) end
    m.timestamp = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.del_timestamp, range, at, n, lo, hi) end
    at = n
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp_id", at) end
    if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
    n = start + lo
    if n > stop then return cut(b, m, "timestamp_id", at) end
    m.timestamp_id = zid(raw, start, n)
    if item then item:add(F.del_timestamp_id, range(start, n - start), m.timestamp_id) end
    if m.timestamp_id == "0" then note(b, m, "BadValue", "timestamp_id", at, "a ZenohID of value 0") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[16], at, stop)
    if not at then return nil end
  end
  return at
end

R.query = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.P = floor(c / 64) % 2
  m.C = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.query_Z, here)
    item:add(F.query_P, here)
    item:add(F.query_C, here)
  end
  at = at + 1
  if m.C == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "consolidation", at) end
    m.consolidation = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.query_consolidation, range, at, n, lo, hi) end
    at = n
  end
  if m.P == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "parameters", at) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "parameters", at) end
    m.parameters = sub(raw, start + 1, n)
    if item then item:add(F.query_parameters, range(start, n - start), shown(m.parameters)) end
    if not is_utf8(m.parameters) then note(b, m, "BadValue", "parameters", at, "not UTF-8") end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[17], at, stop)
    if not at then return nil end
  end
  return at
end

R.reply = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.C = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.reply_Z, here)
    if m.reserved_6 ~= 0 then item:add(F.reply_reserved_6, here) end
    item:add(F.reply_C, here)
  end
  at = at + 1
  if m.C == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "consolidation", at) end
    m.consolidation = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.reply_consolidation, range, at, n, lo, hi) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  at = body(b, m, "body", messages.data, S[3], at, stop)
  if not at then return nil end
  return at
end

R.err = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.E = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  if item then
    local here = range(at, 1)
    item:add(F.err_Z, here)
    item:add(F.err_E, here)
    if m.reserved_5 ~= 0 then item:add(F.err_reserved_5, here) end
  end
  at = at + 1
  if m.E == 1 then
    start, lo, hi, n = at, vle(raw, at, stop)
    if not lo then return cut(b, m, "encoding", at) end
    if hi > 0 then note(b, m, "Overlong", "encoding", at, "more than 32 bits") end
    m.reserved32 = hi
    m.encoding = floor(lo / 2)
    m.S = lo % 2
    if item then
      local here = range(at, n - at)
      if m.reserved32 ~= 0 then item:add(F.err_reserved32, here, m.reserved32) end
      item:add(F.err_encoding, here, m.encoding)
      item:add(F.err_S, here, m.S)
    end
    at = n
  end
  if m.E == 1 and m.S == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "schema", at) end
    if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", "schema", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "schema", at) end
    m.schema = sub(raw, start + 1, n)
    if item then item:add(F.err_schema, range(start, n - start)) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[18], at, stop)
    if not at then return nil end
  end
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "data", at) end
  if hi > 0 then return fail(b, m, "Overlong", "data", at, "a length of " .. lo + hi * 4294967296) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "data", at) end
  m.data = sub(raw, start + 1, n)
  if item then item:add(F.err_data, range(start, n - start)) end
  at = n
  return at
end

I.qos_0.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "priority", at) end
  m.reserved3 = bits_of(lo, hi, 3, 61)
  m.priority = lo % 8
  if item then
    local here = range(at, n - at)
    if m.reserved3 ~= 0 then item:add(F.qos_reserved3, here, wide(m.reserved3)) end
    item:add(F.qos_priority, here, m.priority)
  end
  at = n
  return at
end

I.qos_1.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.qoslink_2.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "reliability", at) end
  m.reserved20 = bits_of(lo, hi, 20, 44)
  m.reliability = floor(lo / 524288) % 2
  m.last_priority = floor(lo / 2048) % 256
  m.first_priority = floor(lo / 8) % 256
  m.has_reliability = floor(lo / 4) % 2
  m.has_priorities = floor(lo / 2) % 2
  m.qos = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved20 ~= 0 then item:add(F.qoslink_reserved20, here, wide(m.reserved20)) end
    item:add(F.qoslink_reliability, here, m.reliability)
    item:add(F.qoslink_last_priority, here, m.last_priority)
    item:add(F.qoslink_first_priority, here, m.first_priority)
    item:add(F.qoslink_has_reliability, here, m.has_reliability)
    item:add(F.qoslink_has_priorities, here, m.has_priorities)
    item:add(F.qoslink_qos, here, m.qos)
  end
  at = n
  return at
end

I.shm_3.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "segment_id", at) end
  m.segment_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_segment_id, range, at, n, lo, hi) end
  at = n
  return at
end

I.shm_4.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "challenge", at) end
  m.challenge = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_challenge, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "segment_id", at) end
  m.segment_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_segment_id, range, at, n, lo, hi) end
  at = n
  return at
end

I.auth_5.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[19], at, stop)
  if not at then return nil end
  return at
end

I.usr_pwd_6.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.pub_key_7.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then item:add(F.pub_key_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then item:add(F.pub_key_e, range(start, n - start)) end
  at = n
  return at
end

I.auth_8.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[20], at, stop)
  if not at then return nil end
  return at
end

I.usr_pwd_9.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  m.nonce = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.usr_pwd_nonce, range, at, n, lo, hi) end
  at = n
  return at
end

I.pub_key_10.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then item:add(F.pub_key_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then item:add(F.pub_key_e, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then item:add(F.pub_key_nonce, range(start, n - start)) end
  at = n
  return at
end

I.multi_link_11.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then item:add(F.multi_link_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then item:add(F.multi_link_e, range(start, n - start)) end
  at = n
  return at
end

I.multi_link_12.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then item:add(F.multi_link_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then item:add(F.multi_link_e, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then item:add(F.multi_link_nonce, range(start, n - start)) end
  at = n
  return at
end

I.low_latency_13.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.compression_14.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.patch_15.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "patch", at) end
  m.patch = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.patch_patch, range, at, n, lo, hi) end
  at = n
  return at
end

I.region_name_16.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, n = at, stop
  m.region = sub(raw, start + 1, n)
  if item then item:add(F.region_name_region, range(start, n - start), shown(m.region)) end
  if not is_utf8(m.region) then note(b, m, "BadValue", "region", at, "not UTF-8") end
  at = n
  return at
end

I.shm_17.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "challenge", at) end
  m.challenge = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_challenge, range, at, n, lo, hi) end
  at = n
  return at
end

I.shm_18.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "challenge", at) end
  m.challenge = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_challenge, range, at, n, lo, hi) end
  at = n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "has_counters", at) end
  m.has_counters = c
  if item then
    local here = range(at, 1)
    item:add(F.shm_has_counters, here)
  end
  if m.has_counters < 0 or m.has_counters > 1 then note(b, m, "BadValue", "has_counters", at, m.has_counters .. " has no meaning") end
  at = at + 1
  if m.has_counters == 1 then
    do
      local first, count = at, nil
      count = 8
      local list, index = {}, 0
      m.counters = list
      while index < count do
        local v, path, begun = {}, "counters" .. "[" .. index .. "]", at
        lo, hi, n = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".counter", at) end
        v.counter = hi == 0 and lo or number(lo, hi)
        if item then add_vle(item, F.shm_counter, range, at, n, lo, hi) end
        if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", path .. ".counter", at, "more than 16 bits") end
        at = n
        index = index + 1
        list[index] = v.counter
      end
    end
  end
  return at
end

I.shm_19.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "has_counters", at) end
  m.has_counters = c
  if item then
    local here = range(at, 1)
    item:add(F.shm_has_counters, here)
  end
  if m.has_counters < 0 or m.has_counters > 1 then note(b, m, "BadValue", "has_counters", at, m.has_counters .. " has no meaning") end
  at = at + 1
  if m.has_counters == 1 then
    do
      local first, count = at, nil
      count = 8
      local list, index = {}, 0
      m.counters = list
      while index < count do
        local v, path, begun = {}, "counters" .. "[" .. index .. "]", at
        lo, hi, n = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".counter", at) end
        v.counter = hi == 0 and lo or number(lo, hi)
        if item then add_vle(item, F.shm_counter, range, at, n, lo, hi) end
        if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", path .. ".counter", at, "more than 16 bits") end
        at = n
        index = index + 1
        list[index] = v.counter
      end
    end
  end
  return at
end

I.auth_20.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[21], at, stop)
  if not at then return nil end
  return at
end

I.usr_pwd_21.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "user", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "user", at) end
  m.user = sub(raw, start + 1, n)
  if item then item:add(F.usr_pwd_user, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "hmac", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "hmac", at) end
  m.hmac = sub(raw, start + 1, n)
  if item then item:add(F.usr_pwd_hmac, range(start, n - start)) end
  at = n
  return at
end

I.pub_key_22.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then item:add(F.pub_key_nonce, range(start, n - start)) end
  at = n
  return at
end

I.auth_23.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[22], at, stop)
  if not at then return nil end
  return at
end

I.pub_key_24.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.multi_link_25.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then item:add(F.multi_link_nonce, range(start, n - start)) end
  at = n
  return at
end

I.multi_link_ack_26.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.remote_bound_27.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "bound", at) end
  m.bound = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.remote_bound_bound, range, at, n, lo, hi) end
  at = n
  return at
end

I.first_28.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.drop_29.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.qos_30.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  do
    local first, count = at, nil
    count = 8
    local list, index = {}, 0
    m.lanes = list
    while index < count do
      local v, path, begun = {}, "lanes" .. "[" .. index .. "]", at
      local sub_item = item and item:add(range(at, 0), "lanes[" .. index .. "]")
      lo, hi, n = vle(raw, at, stop)
      if not lo then return cut(b, m, path .. ".next_sn_re", at) end
      v.next_sn_re = hi == 0 and lo or number(lo, hi)
      if sub_item then add_vle(sub_item, F.qos_next_sn_re, range, at, n, lo, hi) end
      at = n
      lo, hi, n = vle(raw, at, stop)
      if not lo then return cut(b, m, path .. ".next_sn_be", at) end
      v.next_sn_be = hi == 0 and lo or number(lo, hi)
      if sub_item then add_vle(sub_item, F.qos_next_sn_be, range, at, n, lo, hi) end
      at = n
      index = index + 1
      if sub_item then sub_item:set_len(at - begun) end
      list[index] = v
    end
  end
  return at
end

I.shm_31.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, n = at, stop
  m.data = sub(raw, start + 1, n)
  if item then item:add(F.shm_data, range(start, n - start)) end
  at = n
  return at
end

I.qos_32.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "F", at) end
  m.reserved6 = bits_of(lo, hi, 6, 58)
  m.F = floor(lo / 32) % 2
  m.E = floor(lo / 16) % 2
  m.D = floor(lo / 8) % 2
  m.priority = lo % 8
  if item then
    local here = range(at, n - at)
    if m.reserved6 ~= 0 then item:add(F.qos_reserved6, here, wide(m.reserved6)) end
    item:add(F.qos_F, here, m.F)
    item:add(F.qos_E, here, m.E)
    item:add(F.qos_D, here, m.D)
    item:add(F.qos_priority, here, m.priority)
  end
  at = n
  return at
end

I.timestamp_33.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp", at) end
  m.timestamp = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.timestamp_timestamp, range, at, n, lo, hi) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp_id", at) end
  if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
  n = start + lo
  if n > stop then return cut(b, m, "timestamp_id", at) end
  m.timestamp_id = zid(raw, start, n)
  if item then item:add(F.timestamp_timestamp_id, range(start, n - start), m.timestamp_id) end
  if m.timestamp_id == "0" then note(b, m, "BadValue", "timestamp_id", at, "a ZenohID of value 0") end
  at = n
  return at
end

I.node_id_34.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "node_id", at) end
  m.node_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.node_id_node_id, range, at, n, lo, hi) end
  at = n
  return at
end

I.responder_id_35.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved0 = c % 16
  if item then
    local here = range(at, 1)
    item:add(F.responder_id_zid_len, here)
    if m.reserved0 ~= 0 then item:add(F.responder_id_reserved0, here) end
  end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then item:add(F.responder_id_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "eid", at) end
  m.eid = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.responder_id_eid, range, at, n, lo, hi) end
  at = n
  return at
end

I.timestamp_stack_36.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "conf_flags", at) end
  m.conf_flags = c
  if item then item:add(F.timestamp_stack_conf_flags, range(at, 1)) end
  if m.conf_flags < 1 or m.conf_flags > 255 then note(b, m, "BadValue", "conf_flags", at, m.conf_flags .. " has no meaning") end
  at = at + 1
  do
    local first, count = at, nil
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "records", at) end
    count, at = lo + hi * 4294967296, n
    if count > 255 then note(b, m, "BadValue", "records", first, "a count of " .. count) end
    local list, index = {}, 0
    m.records = list
    while index < count do
      local v, path, begun = {}, "records" .. "[" .. index .. "]", at
      local sub_item = item and item:add(range(at, 0), "records[" .. index .. "]")
      c = at < stop and byte(raw, at + 1)
      if not c then return cut(b, m, path .. ".custom", at) end
      v.custom = floor(c / 128)
      v.reserved3 = floor(c / 8) % 16
      v.point = c % 8
      if sub_item then
        local here = range(at, 1)
        sub_item:add(F.timestamp_stack_custom, here)
        if v.reserved3 ~= 0 then sub_item:add(F.timestamp_stack_reserved3, here) end
        sub_item:add(F.timestamp_stack_point, here)
      end
      at = at + 1
      if v.custom == 1 then
        lo, hi, start = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".record", at) end
        n = start + lo
        if hi > 0 or n > stop then return cut(b, m, path .. ".record", at) end
        v.record = sub(raw, start + 1, n)
        if sub_item then sub_item:add(F.timestamp_stack_record, range(start, n - start)) end
        at = n
      end
      if not (v.custom == 1) then
        at = region(b, m, v, "stamp", path .. ".stamp", I.stamp_37, sub_item, at, stop)
        if not at then return nil end
      end
      index = index + 1
      if sub_item then sub_item:set_len(at - begun) end
      list[index] = v
    end
  end
  return at
end

I.stamp_37.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp", at) end
  m.timestamp = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.stamp_timestamp, range, at, n, lo, hi) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp_id", at) end
  if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
  n = start + lo
  if n > stop then return cut(b, m, "timestamp_id", at) end
  m.timestamp_id = zid(raw, start, n)
  if item then item:add(F.stamp_timestamp_id, range(start, n - start), m.timestamp_id) end
  if m.timestamp_id == "0" then note(b, m, "BadValue", "timestamp_id", at, "a ZenohID of value 0") end
  at = n
  return at
end

I.query_target_38.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "target", at) end
  m.target = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.query_target_target, range, at, n, lo, hi) end
  if (lo + hi * 4294967296) < 0 or (lo + hi * 4294967296) > 2 then note(b, m, "BadValue", "target", at, (lo + hi * 4294967296) .. " has no meaning") end
  at = n
  return at
end

I.budget_39.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "budget", at) end
  m.budget = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.budget_budget, range, at, n, lo, hi) end
  at = n
  return at
end

I.timeout_40.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "timeout", at) end
  m.timeout = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.timeout_timeout, range, at, n, lo, hi) end
  at = n
  return at
end

I.linkstate_41.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  do
    local first, count = at, nil
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "records", at) end
    count, at = lo + hi * 4294967296, n
    local list, index = {}, 0
    m.records = list
    while index < count do
      local v, path, begun = {}, "records" .. "[" .. index .. "]", at
      local sub_item = item and item:add(range(at, 0), "records[" .. index .. "]")
      start, lo, hi, n = at, vle(raw, at, stop)
      if not lo then return cut(b, m, path .. ".gateway", at) end
      v.reserved5 = bits_of(lo, hi, 5, 59)
      v.gateway = floor(lo / 16) % 2
      v.has_weights = floor(lo / 8) % 2
      v.has_locators = floor(lo / 4) % 2
      v.has_whatami = floor(lo / 2) % 2
      v.has_zid = lo % 2
      if sub_item then
        local here = range(at, n - at)
        if v.reserved5 ~= 0 then sub_item:add(F.linkstate_reserved5, here, wide(v.reserved5)) end
        sub_item:add(F.linkstate_gateway, here, v.gateway)
        sub_item:add(F.linkstate_has_weights, here, v.has_weights)
        sub_item:add(F.linkstate_has_locators, here, v.has_locators)
        sub_item:add(F.linkstate_has_whatami, here, v.has_whatami)
        sub_item:add(F.linkstate_has_zid, here, v.has_zid)
      end
      at = n
      lo, hi, n = vle(raw, at, stop)
      if not lo then return cut(b, m, path .. ".psid", at) end
      v.psid = hi == 0 and lo or number(lo, hi)
      if sub_item then add_vle(sub_item, F.linkstate_psid, range, at, n, lo, hi) end
      at = n
      lo, hi, n = vle(raw, at, stop)
      if not lo then return cut(b, m, path .. ".state_sn", at) end
      v.state_sn = hi == 0 and lo or number(lo, hi)
      if sub_item then add_vle(sub_item, F.linkstate_state_sn, range, at, n, lo, hi) end
      at = n
      if v.has_zid == 1 then
        lo, hi, start = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".zid", at) end
        if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", path .. ".zid", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
        n = start + lo
        if n > stop then return cut(b, m, path .. ".zid", at) end
        v.zid = zid(raw, start, n)
        if sub_item then sub_item:add(F.linkstate_zid, range(start, n - start), v.zid) end
        if v.zid == "0" then note(b, m, "BadValue", path .. ".zid", at, "a ZenohID of value 0") end
        at = n
      end
      if v.has_whatami == 1 then
        c = at < stop and byte(raw, at + 1)
        if not c then return cut(b, m, path .. ".whatami", at) end
        v.whatami = c
        if sub_item then sub_item:add(F.linkstate_whatami, range(at, 1)) end
        if v.whatami ~= 1 and v.whatami ~= 2 and v.whatami ~= 4 then note(b, m, "BadValue", path .. ".whatami", at, v.whatami .. " has no meaning") end
        at = at + 1
      end
      if v.has_locators == 1 then
        do
          local first, count = at, nil
          lo, hi, n = vle(raw, at, stop)
          if not lo then return cut(b, m, path .. ".locators", at) end
          count, at = lo + hi * 4294967296, n
          local list, index = {}, 0
          v.locators = list
          while index < count do
            local v, path, begun = {}, path .. ".locators" .. "[" .. index .. "]", at
            lo, hi, start = vle(raw, at, stop)
            if not lo then return cut(b, m, path .. ".locator", at) end
            if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", path .. ".locator", at, "a length of " .. lo + hi * 4294967296) end
            n = start + lo
            if hi > 0 or n > stop then return cut(b, m, path .. ".locator", at) end
            v.locator = sub(raw, start + 1, n)
            if sub_item then sub_item:add(F.linkstate_locator, range(start, n - start), shown(v.locator)) end
            if not is_utf8(v.locator) then note(b, m, "BadValue", path .. ".locator", at, "not UTF-8") end
            if not find(v.locator, "/", 1, true) or find(v.locator, "#", 1, true) then note(b, m, "BadValue", path .. ".locator", at, "no locator (proto/address)") end
            at = n
            index = index + 1
            list[index] = v.locator
          end
        end
      end
      do
        local first, count = at, nil
        lo, hi, n = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".links", at) end
        count, at = lo + hi * 4294967296, n
        local list, index = {}, 0
        v.links = list
        while index < count do
          local v, path, begun = {}, path .. ".links" .. "[" .. index .. "]", at
          lo, hi, n = vle(raw, at, stop)
          if not lo then return cut(b, m, path .. ".link", at) end
          v.link = hi == 0 and lo or number(lo, hi)
          if sub_item then add_vle(sub_item, F.linkstate_link, range, at, n, lo, hi) end
          at = n
          index = index + 1
          list[index] = v.link
        end
      end
      if v.has_weights == 1 then
        do
          local first, count = at, nil
          count = #(v.links or none)
          local list, index = {}, 0
          v.weights = list
          while index < count do
            local v, path, begun = {}, path .. ".weights" .. "[" .. index .. "]", at
            lo, hi, n = vle(raw, at, stop)
            if not lo then return cut(b, m, path .. ".weight", at) end
            v.weight = hi == 0 and lo or number(lo, hi)
            if sub_item then add_vle(sub_item, F.linkstate_weight, range, at, n, lo, hi) end
            if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", path .. ".weight", at, "more than 16 bits") end
            at = n
            index = index + 1
            list[index] = v.weight
          end
        end
      end
      index = index + 1
      if sub_item then sub_item:set_len(at - begun) end
      list[index] = v
    end
  end
  return at
end

I.wire_expr_42.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "mapping", at) end
  m.reserved2 = floor(c / 4)
  m.mapping = floor(c / 2) % 2
  m.N = c % 2
  if item then
    local here = range(at, 1)
    if m.reserved2 ~= 0 then item:add(F.wire_expr_reserved2, here) end
    item:add(F.wire_expr_mapping, here)
    item:add(F.wire_expr_N, here)
  end
  at = at + 1
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "key_scope", at) end
  m.key_scope = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.wire_expr_key_scope, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "key_scope", at, "more than 16 bits") end
  at = n
  if m.N == 1 then
    start, n = at, stop
    m.key_suffix = sub(raw, start + 1, n)
    if item then item:add(F.wire_expr_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  return at
end

I.queryable_info_43.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "distance", at) end
  m.reserved24 = bits_of(lo, hi, 24, 40)
  m.distance = floor(lo / 256) % 65536
  m.reserved1 = floor(lo / 2) % 128
  m.complete = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved24 ~= 0 then item:add(F.queryable_info_reserved24, here, wide(m.reserved24)) end
    item:add(F.queryable_info_distance, here, m.distance)
    if m.reserved1 ~= 0 then item:add(F.queryable_info_reserved1, here, m.reserved1) end
    item:add(F.queryable_info_complete, here, m.complete)
  end
  at = n
  return at
end

I.source_info_44.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved0 = c % 16
  if item then
    local here = range(at, 1)
    item:add(F.source_info_zid_len, here)
    if m.reserved0 ~= 0 then item:add(F.source_info_reserved0, here) end
  end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then item:add(F.source_info_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "eid", at) end
  m.eid = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.source_info_eid, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "source_sn", at) end
  m.source_sn = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.source_info_source_sn, range, at, n, lo, hi) end
  at = n
  return at
end

I.shm_45.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.attachment_46.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, n = at, stop
  m.attachment = sub(raw, start + 1, n)
  if item then item:add(F.attachment_attachment, range(start, n - start)) end
  at = n
  return at
end

I.reference_47.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "size", at) end
  m.size = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.reference_size, range, at, n, lo, hi) end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "segment_id", at) end
  m.segment_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.reference_segment_id, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "segment_id", at, "more than 16 bits") end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "index", at) end
  m.index = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.reference_index, range, at, n, lo, hi) end
  if (hi > 0 or lo >= 65536) then note(b, m, "Overlong", "index", at, "more than 16 bits") end
  at = n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "generation", at) end
  m.generation = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.reference_generation, range, at, n, lo, hi) end
  if hi > 0 then note(b, m, "Overlong", "generation", at, "more than 32 bits") end
  at = n
  return at
end

I.attachment_48.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, n = at, stop
  m.attachment = sub(raw, start + 1, n)
  if item then item:add(F.attachment_attachment, range(start, n - start)) end
  at = n
  return at
end

I.query_body_shm_49.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  return at
end

I.query_body_50.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "encoding", at) end
  if hi > 0 then note(b, m, "Overlong", "encoding", at, "more than 32 bits") end
  m.reserved32 = hi
  m.encoding = floor(lo / 2)
  m.S = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved32 ~= 0 then item:add(F.query_body_reserved32, here, m.reserved32) end
    item:add(F.query_body_encoding, here, m.encoding)
    item:add(F.query_body_S, here, m.S)
  end
  at = n
  if m.S == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "schema", at) end
    if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", "schema", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "schema", at) end
    m.schema = sub(raw, start + 1, n)
    if item then item:add(F.query_body_schema, range(start, n - start)) end
    at = n
  end
  start, n = at, stop
  m.data = sub(raw, start + 1, n)
  if item then item:add(F.query_body_data, range(start, n - start)) end
  at = n
  return at
end

I.query_body_51.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "encoding", at) end
  if hi > 0 then note(b, m, "Overlong", "encoding", at, "more than 32 bits") end
  m.reserved32 = hi
  m.encoding = floor(lo / 2)
  m.S = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved32 ~= 0 then item:add(F.query_body_reserved32, here, m.reserved32) end
    item:add(F.query_body_encoding, here, m.encoding)
    item:add(F.query_body_S, here, m.S)
  end
  at = n
  if m.S == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "schema", at) end
    if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", "schema", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "schema", at) end
    m.schema = sub(raw, start + 1, n)
    if item then item:add(F.query_body_schema, range(start, n - start)) end
    at = n
  end
  do
    local first, count = at, nil
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "slices", at) end
    count, at = lo + hi * 4294967296, n
    local list, index = {}, 0
    m.slices = list
    while index < count do
      local v, path, begun = {}, "slices" .. "[" .. index .. "]", at
      local sub_item = item and item:add(range(at, 0), "slices[" .. index .. "]")
      c = at < stop and byte(raw, at + 1)
      if not c then return cut(b, m, path .. ".kind", at) end
      v.kind = c
      if sub_item then
        local here = range(at, 1)
        sub_item:add(F.query_body_kind, here)
      end
      if v.kind < 0 or v.kind > 1 then note(b, m, "BadValue", path .. ".kind", at, v.kind .. " has no meaning") end
      at = at + 1
      if v.kind == 0 then
        lo, hi, start = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".slice", at) end
        n = start + lo
        if hi > 0 or n > stop then return cut(b, m, path .. ".slice", at) end
        v.slice = sub(raw, start + 1, n)
        if sub_item then sub_item:add(F.query_body_slice, range(start, n - start)) end
        at = n
      end
      if v.kind == 1 then
        at = region(b, m, v, "reference", path .. ".reference", I.reference_47, sub_item, at, stop)
        if not at then return nil end
      end
      index = index + 1
      if sub_item then sub_item:set_len(at - begun) end
      list[index] = v
    end
  end
  return at
end

I.attachment_52.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.item
  local start, c, lo, hi, n
  start, n = at, stop
  m.attachment = sub(raw, start + 1, n)
  if item then item:add(F.attachment_attachment, range(start, n - start)) end
  at = n
  return at
end
Z.messages.scouting[0x01] = { name = "scout", label = "SCOUT", kind = "scouting", read = R.scout, field = F.scout }
Z.messages.scouting[0x02] = { name = "hello", label = "HELLO", kind = "scouting", read = R.hello, field = F.hello }
Z.messages.transport[0x00] = { name = "transport_oam", label = "OAM", kind = "transport", read = R.transport_oam, field = F.transport_oam }
Z.messages.transport[0x01] = { name = "init", label = "INIT", kind = "transport", read = R.init, field = F.init }
Z.messages.transport[0x02] = { name = "open", label = "OPEN", kind = "transport", read = R.open, field = F.open }
Z.messages.transport[0x03] = { name = "close", label = "CLOSE", kind = "transport", read = R.close, field = F.close }
Z.messages.transport[0x04] = { name = "keep_alive", label = "KEEP_ALIVE", kind = "transport", read = R.keep_alive, field = F.keep_alive }
Z.messages.transport[0x05] = { name = "frame", label = "FRAME", kind = "transport", read = R.frame, field = F.frame }
Z.messages.transport[0x06] = { name = "fragment", label = "FRAGMENT", kind = "transport", read = R.fragment, field = F.fragment }
Z.messages.transport[0x07] = { name = "join", label = "JOIN", kind = "transport", read = R.join, field = F.join }
Z.messages.network[0x19] = { name = "interest", label = "INTEREST", kind = "network", read = R.interest, field = F.interest }
Z.messages.network[0x1a] = { name = "response_final", label = "RESPONSE_FINAL", kind = "network", read = R.response_final, field = F.response_final }
Z.messages.network[0x1b] = { name = "response", label = "RESPONSE", kind = "network", read = R.response, field = F.response }
Z.messages.network[0x1c] = { name = "request", label = "REQUEST", kind = "network", read = R.request, field = F.request }
Z.messages.network[0x1d] = { name = "push", label = "PUSH", kind = "network", read = R.push, field = F.push }
Z.messages.network[0x1e] = { name = "declare", label = "DECLARE", kind = "network", read = R.declare, field = F.declare }
Z.messages.network[0x1f] = { name = "network_oam", label = "OAM", kind = "network", read = R.network_oam, field = F.network_oam }
Z.messages.declaration[0x00] = { name = "d_keyexpr", label = "D_KEYEXPR", kind = "declaration", read = R.d_keyexpr, field = F.d_keyexpr }
Z.messages.declaration[0x01] = { name = "u_keyexpr", label = "U_KEYEXPR", kind = "declaration", read = R.u_keyexpr, field = F.u_keyexpr }
Z.messages.declaration[0x02] = { name = "d_subscriber", label = "D_SUBSCRIBER", kind = "declaration", read = R.d_subscriber, field = F.d_subscriber }
Z.messages.declaration[0x03] = { name = "u_subscriber", label = "U_SUBSCRIBER", kind = "declaration", read = R.u_subscriber, field = F.u_subscriber }
Z.messages.declaration[0x04] = { name = "d_queryable", label = "D_QUERYABLE", kind = "declaration", read = R.d_queryable, field = F.d_queryable }
Z.messages.declaration[0x05] = { name = "u_queryable", label = "U_QUERYABLE", kind = "declaration", read = R.u_queryable, field = F.u_queryable }
Z.messages.declaration[0x06] = { name = "d_token", label = "D_TOKEN", kind = "declaration", read = R.d_token, field = F.d_token }
Z.messages.declaration[0x07] = { name = "u_token", label = "U_TOKEN", kind = "declaration", read = R.u_token, field = F.u_token }
Z.messages.declaration[0x1a] = { name = "d_final", label = "D_FINAL", kind = "declaration", read = R.d_final, field = F.d_final }
Z.messages.data[0x01] = { name = "put", label = "PUT", kind = "data", read = R.put, field = F.put }
Z.messages.data[0x02] = { name = "del", label = "DEL", kind = "data", read = R.del, field = F.del }
Z.messages.data[0x03] = { name = "query", label = "QUERY", kind = "data", read = R.query, field = F.query }
Z.messages.data[0x04] = { name = "reply", label = "REPLY", kind = "data", read = R.reply, field = F.reply }
Z.messages.data[0x05] = { name = "err", label = "ERR", kind = "data", read = R.err, field = F.err }
end

-- tail ------------------------------------------------------------------------------------------------

do
-- The Info column, and all of it into Wireshark.

local MOST_CLAUSES, MOST_CHARACTERS = 4, 160
local PT_UDP = 3

local function key_of(m)
  local keyed = m.body and m.body.key_scope and m.body or m
  if m.keyexpr then return m.keyexpr end
  if not keyed.key_scope then return nil end
  return tostring(keyed.key_scope) .. ":" .. (keyed.key_suffix or "")
end

local function syn_or_ack(m)
  return m.A == 1 and "ack" or "syn"
end

local clauses = {
  init = function(m) return syn_or_ack(m) .. " " .. (Z.enums.WhatAmI[m.whatami] or "") .. " " .. (m.zid or "") end,
  open = syn_or_ack,
  close = function(m) return Z.enums.CloseReason[m.reason] or tostring(m.reason) end,
  fragment = function(m) return "sn " .. tostring(m.sn) end,
  join = function(m) return m.zid or "" end,
  scout = function(m) return m.zid or "" end,
  hello = function(m) return table.concat(m.locators or {}, " ") end,
}

local function clause(m)
  local parts = { m.label }
  if m.request_id then parts[#parts + 1] = tostring(m.request_id) end
  if m.interest_id then parts[#parts + 1] = tostring(m.interest_id) end
  if m.body and m.name == "declare" then parts[#parts + 1] = m.body.label end
  parts[#parts + 1] = key_of(m)
  if m.body and m.name ~= "declare" then parts[#parts + 1] = (m.body.body or m.body).label end
  local own = clauses[m.name]
  if own then parts[#parts + 1] = own(m) end
  if m.refused then parts[#parts + 1] = "[refused]" end
  local text = Z.shown(table.concat(parts, " "))
  if #text > MOST_CHARACTERS then text = text:sub(1, MOST_CHARACTERS) .. "..." end
  return text
end

local info = { number = -1, said = 0 }

Z.listeners[#Z.listeners + 1] = function(b, m)
  if m.name == "frame" then return end
  if m.item and m.keyexpr then m.item:append_text(": " .. Z.shown(m.keyexpr)) end
  if info.number ~= b.number or b.index == 1 then info.number, info.said = b.number, 0 end
  info.said = info.said + 1
  if info.said <= MOST_CLAUSES then
    b.pinfo.cols.info:append((info.said > 1 and ", " or "") .. clause(m))
  elseif info.said == MOST_CLAUSES + 1 then
    b.pinfo.cols.info:append(", ...")
  end
end

Z.proto.fields = Z.registered
Z.proto.experts = Z.experts

function Z.proto.init()
  for index = 1, #Z.on_init do Z.on_init[index]() end
end

function Z.proto.dissector(tvb, pinfo, tree)
  if pinfo.port_type == PT_UDP then return Z.entry.datagram(tvb, pinfo, tree) end
  return Z.entry.stream(tvb, pinfo, tree)
end

if not Z.ports_registered then
  DissectorTable.get("tcp.port"):add(7447, Z.proto)
  DissectorTable.get("udp.port"):add(7447, Z.proto)
  DissectorTable.get("udp.port"):add(7446, Z.proto)
end
end
