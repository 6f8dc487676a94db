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

-- Says something to the user that no packet can be blamed for; not on standard output, which may be read by others.
function Z.complain(text)
  if not (report_failure and pcall(report_failure, text)) then print(text) end
end

-- A script has globals of its own in some versions; those of all are in _G.
if _G.zenoh_harness then
  -- Loaded from a plugin folder and by -X lua_script, or from two folders.
  Z.complain("zenoh.lua: loaded twice; the first one stays (" .. tostring(_G.zenoh_harness) .. "), this one does nothing.")
  return
end

do
  local here = debug and debug.getinfo and debug.getinfo(1, "S")
  _G.zenoh_harness = here and here.source:gsub("^@", "") or "zenoh.lua"

  local free, proto = pcall(Proto, Z.prefix, Z.title)
  if not free then
    -- Protocols of the same name cannot be: the other one came first, and keeps its names.
    Z.prefix, Z.title = "zenoh_lua", "Zenoh (zenoh.lua)"
    Z.complain("zenoh.lua: another Zenoh dissector is loaded; this one is called " .. Z.prefix ..
      ", its fields " .. Z.prefix .. ".*. Remove the other one to have both names right.")
    free, proto = pcall(Proto, Z.prefix, Z.title)
  end
  if not free then
    Z.complain("zenoh.lua: two other Zenoh dissectors are loaded; this one does nothing: " .. tostring(proto))
    return
  end
  Z.proto = proto
end

-- core ------------------------------------------------------------------------------------------------

do
-- Numbers and bytes, layers inside layers, what is refused, batches in segments and datagrams.

local byte, sub, find, floor, format = string.byte, string.sub, string.find, math.floor, string.format
-- As functions: looking up a method or an attribute takes as long as adding a field.
local add, add_le, set_len, set_generated = TreeItem.add, TreeItem.add_le, TreeItem.set_len, TreeItem.set_generated
local size_of, bytes_of, tvb_of = Tvb.len, Tvb.raw, TvbRange.tvb
local HIGH = 4294967296

Z.fields = {}
Z.on_init = {}
Z.messages = { scouting = {}, transport = {}, network = {}, declaration = {}, data = {} }

local F, registered, layers, masks, experts, by_id, quiet = Z.fields, {}, {}, {}, {}, {}, {}
Z.registered, Z.experts = registered, experts

-- Makes a field of the description, known as Z.fields[key].
function Z.syntax(name, key, kind, ...)
  local made = ProtoField[kind](Z.prefix .. "." .. name, ...)
  F[key] = made
  registered[#registered + 1] = made
  layers[#registered] = name:match("^[^.]*")
  masks[#registered] = select(4, ...)
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
  quiet[id] = severity == "NOTE" or severity == "CHAT"
  return made
end

-- By what an expert info of ours is found that is more than a note: those of other dissectors are in the same packets.
local PROBLEM = Z.field("problem", "string", "Problem")

-- Adds an expert info to a tree item; without one nothing can be said. Those of little weight can be switched off.
function Z.note(item, id, text)
  if not item or (quiet[id] and Z.settings and not Z.settings.notes) then return end
  item:add_proto_expert_info(by_id[id], text)
  if not quiet[id] then item:add(PROBLEM, id):set_hidden() end
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

-- What is wanted of the tree. Where nobody looks at it (tshark without -V, with -T fields, with a filter), only fields
-- that somebody asks for are added, and messages without any stand for themselves in no item: `item` of a layer is then
-- that of its batch, `shown` is nil. In the GUI, which asks anew at any time, all is added.

local WHOLE = Z.field("whole", "none", "never added: referenced only when all is")
local wanted = { all = true, fields = {}, layers = {}, bits = {} }
local asked_at
Z.wanted = wanted

local function is_whole(tree)
  return tree:referenced(WHOLE)
end

-- Finds out what is wanted, in the first packet of a pass: from then on packets come in order, and all is the same. One
-- that comes out of order is asked about by itself.
local function ask(tree, number, call)
  if call > 1 then return end
  if asked_at and number > asked_at then
    asked_at = number
    return
  end
  local known, all = pcall(is_whole, tree)
  wanted.all = not known or all or gui_enabled()
  asked_at = number
  if wanted.all then return end
  wanted.fields, wanted.layers, wanted.bits = {}, {}, {}
  for index = 1, #registered do
    if tree:referenced(registered[index]) then
      wanted.fields[registered[index]], wanted.layers[layers[index]] = true, true
      if masks[index] then wanted.bits[layers[index]] = true end
    end
  end
end

-- Adds the item of a layer; returns it, again when its fields are wanted, and its range when the bits there are.
local function open(b, outer, desc, at, size)
  local all, name = wanted.all, desc.name
  if not all and not wanted.layers[name] then return b.item end
  local here = b.range(at, size)
  local item = add(all and outer or b.item, desc.field or F.unknown_extension, here)
  return item, item, (all or wanted.bits[name]) and here or nil
end

Z.on_init[#Z.on_init + 1] = function() asked_at = nil end

local EXPERTS = {
  Truncated = "truncated", Overlong = "overlong", BadValue = "bad_value", UnknownMessage = "unknown_message",
  UnknownMandatoryExtension = "unknown_mandatory_extension",
}
Z.expert("messages", "A packet with too many messages to show", "PROTOCOL", "NOTE")
Z.expert("truncated", "The bytes end inside a field", "MALFORMED", "ERROR")
Z.expert("overlong", "A number or count larger than its field permits", "MALFORMED", "ERROR")
Z.expert("bad_value", "A value without meaning, or bytes where none may stand", "PROTOCOL", "ERROR")
Z.expert("unknown_message", "An id that no message of this layer has", "PROTOCOL", "ERROR")
Z.expert("unknown_mandatory_extension", "A mandatory extension that is not known here", "PROTOCOL", "ERROR")

-- Numbers: two halves of 32 bits where 64 are possible, for Lua numbers may be doubles.

local SCALES = { 128, 16384, 2097152, nil, 8, 1024, 131072 }

-- Reads a VLE integer: low half, high half, place behind it; nil when the bytes end. The ninth byte has eight bits.
local function vle(raw, at, stop)
  if at >= stop then return nil end
  local c = byte(raw, at + 1)
  if c < 128 then return c, 0, at + 1 end
  local lo, hi, index = c - 128, 0, 1
  while true do
    local place = at + index
    if place >= stop then return nil end
    c = byte(raw, place + 1)
    if index == 8 then return lo, hi + c * 16777216, place + 1 end
    local seven = c % 128
    if index < 4 then
      lo = lo + seven * SCALES[index]
    elseif index == 4 then
      lo, hi = lo + seven % 16 * 268435456, floor(seven / 16)
    else
      hi = hi + seven * SCALES[index]
    end
    if c < 128 then return lo, hi, place + 1 end
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
    add(item, field, range(at, 1))
  else
    add(item, field, range(at, stop - at), UInt64.new(lo, hi))
  end
end

-- Adds the time that a VLE integer stands for: seconds since 1970, and below them the fraction.
function Z.add_ntp64(item, field, range, at, stop, lo, hi)
  set_generated(add(item, field, range(at, stop - at), NSTime.new(hi, floor(lo * 1e9 / HIGH))))
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

-- Returns how many bytes the UTF-8 character has that begins at a place above 127; nil when none does: no overlong forms,
-- no surrogates, nothing above U+10FFFF.
local function character(text, at)
  local c, second, more = byte(text, at), byte(text, at + 1) or 0, nil
  if c >= 194 and c <= 223 then
    more = 1
  elseif c >= 224 and c <= 239 and not (c == 224 and second < 160) and not (c == 237 and second > 159) then
    more = 2
  elseif c >= 240 and c <= 244 and not (c == 240 and second < 144) and not (c == 244 and second > 143) then
    more = 3
  else
    return nil
  end
  for index = 1, more do
    local follows = byte(text, at + index)
    if not follows or follows < 128 or follows > 191 then return nil end
  end
  return more + 1
end

local function is_utf8(text)
  local at = find(text, "[\128-\255]")
  while at do
    local size = character(text, at)
    if not size then return false end
    at = find(text, "[\128-\255]", at + size)
  end
  return true
end

local plain, plain_held = {}, 0 -- texts that show as they are: keys come again and again

-- Returns text as Wireshark can show it: its strings end at NUL, and what is no UTF-8 harms what reads its output.
function Z.shown(text)
  if plain[text] then return text end
  if find(text, "%z") then text = text:gsub("%z", "\226\144\128") end
  -- U+FFFE and U+FFFF are no characters: XML, and so PDML, has no place for them.
  if find(text, "\239\191[\190\191]") then text = text:gsub("\239\191[\190\191]", "\239\191\189") end
  if is_utf8(text) then
    if plain_held >= 4096 then plain, plain_held = {}, 0 end
    if #text <= 256 then plain[text], plain_held = true, plain_held + 1 end
    return text
  end
  local parts, at = {}, 1
  while at <= #text do
    local size = byte(text, at) < 128 and 1 or character(text, at)
    parts[#parts + 1] = size and sub(text, at, at + size - 1) or "\239\191\189"
    at = at + (size or 1)
  end
  return table.concat(parts)
end

-- Returns text of at most so many bytes, and dots when there was more; no character is cut.
function Z.shortened(text, most)
  if #text <= most then return text end
  while most > 0 and byte(text, most + 1) >= 128 and byte(text, most + 1) < 192 do most = most - 1 end
  return sub(text, 1, most) .. "..."
end

Z.vle, Z.number, Z.is_utf8 = vle, number, is_utf8

-- What is refused.

local function path(m)
  if not m.parent then return m.label end
  return path(m.parent) .. "." .. m.slot .. (m.nth and "[" .. m.nth .. "]" or "") ..
    (m.named and "." .. m.label or "")
end

local MOST = 100 -- expert infos of one batch
local MOST_MESSAGES = 50000 -- of one packet

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
  if item and stop > at then add(item, UNDECODED, b.range(at, stop - at)) end
end

-- Bytes that belong to no message may have been any: from there on nothing is certain.
local function unread(b, at, stop)
  undecoded(b, b.item, at, stop)
  if b.way and not b.dry then Z.links.doubt(b.way, b.place) end
end

-- Layers inside layers.

local listeners, listening = {}, {}

-- Has messages told to a function(b, m) once they were read: those for whose name and kind `wanted` says so, or all.
-- Listeners are called in the order in which they came.
function Z.listen(listener, wanted)
  listeners[#listeners + 1] = { listener, wanted }
end

-- To be called when a listener wants other messages than before.
function Z.choose_listeners()
  listening = {}
end

-- Which listeners a message has is found out once: most have few.
local function listeners_of(m)
  local found = {}
  for index = 1, #listeners do
    local listener, wanted = listeners[index][1], listeners[index][2]
    if not wanted or wanted(m.name, m.kind) then found[#found + 1] = listener end
  end
  listening[m.name] = found
  return found
end

local function heard(b, m)
  m.heard = true
  if b.dry then return end
  local found = listening[m.name] or listeners_of(m)
  for index = 1, #found do found[index](b, m) end
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

function unknown.new() return { name = unknown.name, label = unknown.label } end

local Z64 = 1
local ZBUF = 2

function unknown.read(b, e, at, stop)
  if e.enc == Z64 then
    local lo, hi, n = vle(b.raw, at, stop)
    if not lo then return cut(b, e, "z64", at) end
    e.z64 = number(lo, hi)
    if e.shown then Z.add_vle(e.shown, F.unknown_extension_z64, b.range, at, n, lo, hi) end
    return n
  end
  e.data = sub(b.raw, at + 1, stop)
  if e.shown then add(e.shown, F.unknown_extension_data, b.range(at, stop - at)) end
  return stop
end

local function extension(b, e, desc, at, stop)
  at = at + 1
  if e.enc == ZBUF and not desc.unbounded then
    local start, behind = length_of(b, e, at, stop)
    if not start then return nil end
    if desc.lenient and not fits(b, e, desc.read, start, behind) then
      e.unread = sub(b.raw, start + 1, behind)
      if e.item then add(e.item, UNREAD, b.range(start, behind - start)) end
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
    local e = desc.new()
    e.parent, e.slot, e.nth, e.named, e.header, e.enc, e.at = m, field, index, true, head, enc, at
    if item then
      e.item, e.shown = open(b, item, desc, at, 1)
      if wanted.all or wanted.fields[HEADER] then add(e.item, HEADER, b.range(at, 1)) end
    end
    index = index + 1
    list[index] = e
    ext[e.name] = ext[e.name] or e
    local behind = extension(b, e, desc, at, stop)
    e.stop = behind or b.at
    if e.shown then set_len(e.shown, (behind or b.at) - at) end
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
  if item then e.item, e.shown = open(b, item, desc, at, 0) end
  local start, behind = length_of(b, e, at, stop)
  if not start then return nil end
  behind = counted(b, e, desc.read, start, behind)
  if e.shown then set_len(e.shown, behind - at) end
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
  local inner = desc.new()
  inner.whole, inner.parent, inner.slot, inner.named, inner.at = nil, m, field, true, at
  m.body = inner
  if m.item then
    inner.item, inner.shown, inner.here = open(b, m.item, desc, at, 1)
  end
  local behind = desc.read(b, inner, at, stop)
  inner.stop = behind or b.at
  if inner.shown then set_len(inner.shown, inner.stop - at) end
  return behind
end

-- Reads a message of a link; it is heard as soon as all but the messages inside is read.
local function one(b, parent, desc, at, stop)
  local m = desc.new()
  m.at, m.within = at, b.within
  if parent then m.parent, m.slot, m.named, m.within = parent, "messages", true, parent end
  b.index = b.index + 1
  m.place = b.base + b.index
  b.place = m.place
  local item = b.item
  if parent then item = parent.item end
  if item then
    m.item, m.shown, m.here = open(b, item, desc, at, 1)
  end
  local behind = desc.read(b, m, at, stop)
  m.stop = behind or b.at
  if m.shown then set_len(m.shown, m.stop - at) end
  if not m.heard then heard(b, m) end
  if m.name == "fragment" then
    if b.dry then
      b.fragment = true
    elseif not m.refused and Z.reassemble then
      local whole, numbers = Z.reassemble(b, m)
      if whole then Z.put_together(b, m, whole, numbers) end
    end
  end
  return behind
end

-- Wireshark gives a packet up that has a million items: compressed batches may unpack to more.
local function is_full(b)
  if b.dry or b.index < MOST_MESSAGES then return false end
  Z.note(b.item, "messages", "more than " .. MOST_MESSAGES .. " messages in a packet: the rest is left as bytes")
  return true
end

-- Reads the messages of a FRAME: up to an id of another kind, or the end.
function Z.messages_of(b, m, messages, at, stop)
  heard(b, m)
  local raw = b.raw
  while at < stop do
    local desc = messages[byte(raw, at + 1) % 32]
    if not desc then break end
    if is_full(b) then
      b.at = at
      return nil
    end
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
      unread(b, at, stop)
      return
    end
    if is_full(b) then b.at = at end
    local behind = b.index < MOST_MESSAGES and one(b, nil, desc, at, stop)
    if not behind then
      unread(b, b.at, stop)
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
    unread(b, 0, stop)
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

-- Tells whether strict decoding takes bytes: kind "batch", "scouting" or "network"; `exact`: to the last one. Then whether
-- there is a FRAGMENT, which takes whatever is behind its head.
function Z.strict(raw, kind, exact)
  local b = { raw = raw, dry = true, mute = true, total = 0, at = 0, index = 0, base = 0 }
  local behind = readers[kind](b)
  return #raw > 0 and b.total == 0 and (not exact or behind == #raw), b.fragment or false
end

-- Tells whether nothing in a batch is refused. Each of thousands of messages in it may ask.
function Z.is_whole(b)
  if b.whole == nil then b.whole = Z.strict(b.raw, "batch") end
  return b.whole
end

-- Tells what is wrong with a batch, if anything.
local function conclude(b)
  local wrong = b.error
  if not wrong or not b.item then return end
  local item = add(b.item, ERROR, b.range(wrong.offset, 0),
    wrong.field .. " at byte " .. wrong.offset .. ": " .. wrong.found)
  set_generated(item)
  set_generated(add(item, ERROR_KIND, wrong.kind))
  set_generated(add(item, ERROR_FIELD, wrong.field))
  set_generated(add(item, ERROR_OFFSET, wrong.offset))
end

-- The places of messages in a packet. A dissector may be called several times for one packet: for a batch that a
-- segment completes and for the rest of the segment; the next pass counts on in the same way.

local PLACES = 1048576 -- messages of one packet
local MAX_LENGTH = 16777216 -- bytes of a batch with a 4-byte length that are believed
local calls, current = {}, { number = -1, call = 0, index = 0 }
local order = { moved = {}, last = -1 } -- see `base_of`
local columns -- whether packets that are read for the first time, outside of the GUI, have them: all or none

-- In front of the places of a packet, which go up from packet to packet. With `-R` tshark gives what it leaves out the
-- number of the next packet: then packets are counted here, and a number is that of the last packet that had it.
local function base_of(pinfo, number, visited)
  if visited then return (order.moved[number] or number) * PLACES end
  local time = pinfo.rel_ts
  if number ~= order.number or time ~= order.time then
    order.last = number > order.last and number or order.last + 1
    order.number, order.time, order.moved[number] = number, time, order.last ~= number and order.last or nil
    calls[number] = nil
  end
  return order.last * PLACES
end

function Z.base(pinfo) return base_of(pinfo, pinfo.number, pinfo.visited) end

local function begin_packet(pinfo)
  local number, visited = pinfo.number, pinfo.visited
  local base = base_of(pinfo, number, visited)
  if current.number ~= number or current.base ~= base or (visited and current.call >= (calls[number] or 1)) then
    current.number, current.call, current.index = number, 0, 0
  end
  current.visited, current.base, current.time = visited, base, visited and pinfo.rel_ts or order.time
  current.call = current.call + 1
  if not visited and current.call > 1 then calls[number] = current.call end
end

Z.on_init[#Z.on_init + 1] = function()
  calls, columns, order = {}, nil, { moved = {}, last = -1 }
  current.number, current.call, current.index = -1, 0, 0
  zids, zids_held = {}, 0
  plain, plain_held = {}, 0
end

local function new_batch(pinfo, root, way, raw, range)
  -- A place of its own in front of that of its messages: what was agreed until then holds for the batch.
  current.index = current.index + 1
  return {
    raw = raw, range = range, tvb = range, pinfo = pinfo, root = root, way = way, link = way and way.link,
    number = current.number, time = current.time, visited = current.visited, total = 0, at = 0,
    base = current.base, index = current.index, place = current.base + current.index,
    item = nil, srczid_told = nil, again = nil, -- room for what comes, so that the table is not copied
  }
end

-- Dissects one batch or datagram: `range` gives the bytes of what was captured, `outer` those of the segment, where a
-- length of `prefix` bytes begins at `at`.
local function dissect_batch(pinfo, root, way, range, raw, kind, outer, at, prefix)
  local size = #raw
  local item = root
  if wanted.all or wanted.layers.batch then
    item = add(root, BATCH, outer(at, prefix + size))
    if prefix > 0 then add_le(item, LENGTH, outer(at, prefix)) end
  end
  local b = new_batch(pinfo, root, way, raw, range)
  b.item = item
  b.again = not b.visited and way and not way.link.tcp and Z.links.again(way, raw, b.time)
  if kind == "batch" and Z.links then
    if not b.visited and way.link.tcp then Z.links.follow(way, b.place, raw) end
    local unpacked, why, wrong, field, at = Z.links.unpack(way, b.place, raw, prefix)
    if not unpacked then
      refuse(b, nil, wrong, "batch." .. field, at, why)
      undecoded(b, item, 0, size)
      conclude(b)
      return
    end
    if unpacked ~= raw then
      b.raw = unpacked
      if #unpacked == size - 1 then
        range = range:range(1, size - 1):tvb()
      else
        range = ByteArray.new(unpacked, true):tvb("Decompressed batch")
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
  local range = ByteArray.new(bytes, true):tvb("Reassembled message")
  local inner = new_batch(b.pinfo, b.root, b.way, bytes, range)
  inner.index, inner.place, inner.within, inner.again = b.index, b.place, m, b.again
  inner.item = m.item and (wanted.all or wanted.layers.batch) and add(m.item, BATCH, range(0, #bytes)) or m.item
  if inner.item and wanted.all then
    inner.item:set_text("Reassembled from " .. #numbers .. " fragments, " .. #bytes .. " bytes")
  end
  one_of(inner, network, #bytes)
  conclude(inner)
  b.index, b.place = inner.index, inner.place
end

-- Has somebody asked for the columns? tshark makes none for `-T fields` and `-T json`; they read as their names then.
local function has_columns(pinfo)
  local first = not current.visited and not gui_enabled()
  if first and columns ~= nil then return columns end
  -- In some versions a column that is not among those of the profile has no text at all, which `tostring` refuses.
  local known, text = pcall(tostring, pinfo.cols.info)
  local asked = not known or text ~= "(info)"
  if first then columns = asked end
  return asked
end

-- TCP keeps what is said of a batch that a segment completes, and puts the rest behind it: it would stand there twice.
local function take_back(pinfo)
  local info, text = Z.info, Z.info.text
  pinfo.cols.info = ""
  local known, kept = pcall(tostring, pinfo.cols.info)
  if known and text ~= "" and sub(kept, -#text) == text then
    info.front = sub(kept, 1, -#text - 1)
    pinfo.cols.info:clear_fence()
  end
  pinfo.cols.info = info.front .. text
end

local function show_protocol(pinfo)
  if current.call == 1 then
    Z.info.text, Z.info.said, Z.info.shown, Z.info.front = "", 0, has_columns(pinfo), ""
  elseif Z.info.shown then
    take_back(pinfo)
  end
  if Z.info.shown then pinfo.cols.protocol = "Zenoh" end
end

local function link_of(pinfo, tvb, size)
  return Z.links and Z.links.of(pinfo, tvb, current.visited, size)
end

Z.entry = {}
Z.info = { text = "", said = 0, shown = true, front = "" } -- what the Info column says about a packet, if there is one

local function open_tree(tree, tvb, size)
  local root = add(tree, Z.proto, tvb(0, size))
  ask(root, current.number, current.call)
  return root
end

-- Batches behind their lengths, in order: TCP, TLS. What only begins a batch is no Zenoh packet yet.
function Z.entry.stream(tvb, pinfo, tree)
  begin_packet(pinfo)
  local size = size_of(tvb)
  local at, way = 0, link_of(pinfo, tvb, size)
  if size == 0 then return 0 end
  local raw = bytes_of(tvb, 0, size)
  if way then
    local more
    at, more = Z.sync(way, raw, current.base + current.call, current.visited)
    if not at then return 0 end
    if at < 0 then
      if more == 0 then return size end
      pinfo.desegment_offset, pinfo.desegment_len = 0, more
      return size
    end
  end
  show_protocol(pinfo)
  if way and way.ws then
    local key = current.base + current.call
    local http = way.upgrades and way.upgrades[key]
    if http then
      Z.websockets.show("http", tvb_of(tvb(0, http)), pinfo, tree)
    elseif at > 0 then
      add(add(tree, Z.proto, tvb(0, at)), CONTINUED, tvb(0, at))
    end
    return Z.websockets.frames(tvb, pinfo, tree, way, raw, at, key)
  end
  local root
  if at > 0 then
    root = open_tree(tree, tvb, size)
    add(root, CONTINUED, tvb(0, at))
    pinfo.cols.info = "[in mid batch]"
  end
  while at < size do
    local prefix = way and Z.links.prefix(way, current.base + current.index + 1, raw, at) or 2
    if size - at < prefix then
      pinfo.desegment_offset, pinfo.desegment_len = at, DESEGMENT_ONE_MORE_SEGMENT
      return size
    end
    local low, high = byte(raw, at + 1, at + 2)
    local length = prefix == 2 and low + high * 256 or Z.le(raw, at, prefix, false)
    local start = at + prefix
    local behind = start + length
    local key = current.base + current.call
    local wrong = way and (length > MAX_LENGTH or Z.was_wrong(way, at, key))
    if wrong then
      -- No node sends such a batch: what was taken for a length is none.
      local from = at
      at = Z.go_on(way, raw, from, key)
      root = root or open_tree(tree, tvb, size)
      add(root, CONTINUED, tvb(from, (at or size) - from))
      if not at then
        pinfo.desegment_offset, pinfo.desegment_len = from, DESEGMENT_ONE_MORE_SEGMENT
        return size
      end
    elseif behind > size then
      if way then Z.links.begun(way, behind - at) end
      pinfo.desegment_offset, pinfo.desegment_len = at, behind - size
      return size
    else
      -- A Tvb of its own: ranges of those may be empty at the end, those of ranges may not.
      root = root or open_tree(tree, tvb, size)
      local range = length > 0 and tvb_of(tvb(start, length)) or tvb
      dissect_batch(pinfo, root, way, range, sub(raw, start + 1, behind), "batch", tvb, at, prefix)
      at = behind
    end
  end
  return size
end

-- One batch without a length.
function Z.entry.message(tvb, pinfo, tree)
  Z.carried = true
  begin_packet(pinfo)
  show_protocol(pinfo)
  local size = size_of(tvb)
  local root = open_tree(tree, tvb, size)
  if size > 0 then
    local way = link_of(pinfo, tvb)
    if way then way.link.carrier = "ws" end
    local raw = bytes_of(tvb, 0, size)
    if way and way.link.unheard and not Z.seek.is_batch(raw) then
      -- Wireshark has cut it anywhere: it did not read the link in the first pass.
      add(root, CONTINUED, tvb(0, size))
      return size
    end
    if way and not way.ws then Z.links.message(way, current.base, size) end
    dissect_batch(pinfo, root, way, tvb, raw, "batch", tvb, 0, 0)
  end
  return size
end

-- A datagram: of scouting, or of a session.
function Z.entry.datagram(tvb, pinfo, tree)
  begin_packet(pinfo)
  show_protocol(pinfo)
  local size = size_of(tvb)
  local root = open_tree(tree, tvb, size)
  if size == 0 then return 0 end
  local raw = bytes_of(tvb, 0, size)
  local way = link_of(pinfo, tvb, size)
  if Z.links and Z.links.is_cut(size) then
    if not current.visited then Z.links.missed(way, current.base, true) end
    add(root, CONTINUED, tvb(0, size))
    return size
  end
  -- All on a link with a session belongs to that, whatever it looks like.
  local known = way and Z.links.has_session(way, current.base + current.index)
  local kind = not known and Z.is_scouting(raw, pinfo) and "scouting" or "batch"
  dissect_batch(pinfo, root, way, tvb, raw, kind, tvb, 0, 0)
  return size
end

-- INIT and OPEN have the ids of SCOUT and HELLO: only what is scouting to the last byte is, or what went to its port.
function Z.is_scouting(raw, pinfo)
  local ports = Z.scouting_ports or { [7446] = true }
  local there = ports[pinfo.dst_port] or ports[pinfo.src_port]
  if not Z.strict(raw, "scouting", true) then
    return there and not Z.seek.is_batch(raw) or false
  end
  -- What reads as the extensions of a SCOUT without a zid, though it has none, may be the zid of an INIT.
  local header, _, packed = byte(raw, 1, 3)
  local alike = header >= 0x80 and header % 32 == 1 and packed % 16 < 4 and Z.strict(raw, "batch", true)
  return there or not alike or Z.links ~= nil and Z.links.is_group(pinfo.dst)
end
end

-- generated -------------------------------------------------------------------------------------------

do
Z.enums = {
  WhatAmI = { [0] = "router", [1] = "peer", [2] = "client" },
  What = { [1] = "router", [2] = "peer", [3] = "router, peer", [4] = "client", [5] = "router, client", [6] = "peer, client", [7] = "router, peer, client" },
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
Z.encodings = { [0] = "zenoh/bytes", [1] = "zenoh/string", [2] = "zenoh/serialized", [3] = "application/octet-stream", [4] = "text/plain", [5] = "application/json", [6] = "text/json", [7] = "application/cdr", [8] = "application/cbor", [9] = "application/yaml", [10] = "text/yaml", [11] = "text/json5", [12] = "application/python-serialized-object", [13] = "application/protobuf", [14] = "application/java-serialized-object", [15] = "application/openmetrics-text", [16] = "image/png", [17] = "image/jpeg", [18] = "image/gif", [19] = "image/bmp", [20] = "image/webp", [21] = "application/xml", [22] = "application/x-www-form-urlencoded", [23] = "text/html", [24] = "text/xml", [25] = "text/css", [26] = "text/javascript", [27] = "text/markdown", [28] = "text/csv", [29] = "application/sql", [30] = "application/coap-payload", [31] = "application/json-patch+json", [32] = "application/json-seq", [33] = "application/jsonpath", [34] = "application/jwt", [35] = "application/mp4", [36] = "application/soap+xml", [37] = "application/yang", [38] = "audio/aac", [39] = "audio/flac", [40] = "audio/mp4", [41] = "audio/ogg", [42] = "audio/vorbis", [43] = "video/h261", [44] = "video/h263", [45] = "video/h264", [46] = "video/h265", [47] = "video/h266", [48] = "video/mp4", [49] = "video/ogg", [50] = "video/raw", [51] = "video/vp8", [52] = "video/vp9" }
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
Z.syntax("put.timestamp_time", "put_timestamp_time", "absolute_time", "time", base.UTC)
Z.syntax("del.timestamp_time", "del_timestamp_time", "absolute_time", "time", base.UTC)
Z.syntax("timestamp.timestamp_time", "timestamp_timestamp_time", "absolute_time", "time", base.UTC)
Z.syntax("stamp.timestamp_time", "stamp_timestamp_time", "absolute_time", "time", base.UTC)
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
local vle, number, wide, bits_of, add_vle, add_ntp64 = Z.vle, Z.number, Z.wide, Z.bits_of, Z.add_vle, Z.add_ntp64
local le, zid = Z.le, Z.zid
local shown, is_utf8, note, fail, cut = Z.shown, Z.is_utf8, Z.refuse, Z.fail, Z.cut
local add, add_le, set_len = TreeItem.add, TreeItem.add_le, TreeItem.set_len
local chain, region, body, messages_of = Z.chain, Z.region, Z.body, Z.messages_of
local R, I, C, S = {}, {}, {}, {}
I.qos_0 = { name = "qos", label = "QoS", field = F.qos, enc = 1, new = function() return { name = "qos", label = "QoS", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.qos_1 = { name = "qos", label = "QoS", field = F.qos, enc = 0, new = function() return { name = "qos", label = "QoS", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.qoslink_2 = { name = "qoslink", label = "QoSLink", field = F.qoslink, enc = 1, new = function() return { name = "qoslink", label = "QoSLink", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil, item = nil, shown = nil, stop = nil, reserved20 = nil, reliability = nil, last_priority = nil, first_priority = nil, has_reliability = nil } end }
I.shm_3 = { name = "shm", label = "Shm", field = F.shm, enc = 2, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.shm_4 = { name = "shm", label = "Shm", field = F.shm, enc = 2, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.auth_5 = { name = "auth", label = "Auth", field = F.auth, enc = 2, new = function() return { name = "auth", label = "Auth", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.usr_pwd_6 = { name = "usr_pwd", label = "UsrPwd", field = F.usr_pwd, enc = 0, new = function() return { name = "usr_pwd", label = "UsrPwd", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.pub_key_7 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 2, new = function() return { name = "pub_key", label = "PubKey", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.auth_8 = { name = "auth", label = "Auth", field = F.auth, enc = 2, new = function() return { name = "auth", label = "Auth", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.usr_pwd_9 = { name = "usr_pwd", label = "UsrPwd", field = F.usr_pwd, enc = 1, new = function() return { name = "usr_pwd", label = "UsrPwd", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.pub_key_10 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 2, new = function() return { name = "pub_key", label = "PubKey", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.multi_link_11 = { name = "multi_link", label = "MultiLink", field = F.multi_link, enc = 2, new = function() return { name = "multi_link", label = "MultiLink", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.multi_link_12 = { name = "multi_link", label = "MultiLink", field = F.multi_link, enc = 2, new = function() return { name = "multi_link", label = "MultiLink", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.low_latency_13 = { name = "low_latency", label = "LowLatency", field = F.low_latency, enc = 0, new = function() return { name = "low_latency", label = "LowLatency", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.compression_14 = { name = "compression", label = "Compression", field = F.compression, enc = 0, new = function() return { name = "compression", label = "Compression", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.patch_15 = { name = "patch", label = "Patch", field = F.patch, enc = 1, new = function() return { name = "patch", label = "Patch", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.region_name_16 = { name = "region_name", label = "RegionName", field = F.region_name, enc = 2, new = function() return { name = "region_name", label = "RegionName", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.shm_17 = { name = "shm", label = "Shm", field = F.shm, enc = 1, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.shm_18 = { name = "shm", label = "Shm", field = F.shm, enc = 2, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.shm_19 = { name = "shm", label = "Shm", field = F.shm, enc = 2, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.auth_20 = { name = "auth", label = "Auth", field = F.auth, enc = 2, new = function() return { name = "auth", label = "Auth", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 0 end }
I.usr_pwd_21 = { name = "usr_pwd", label = "UsrPwd", field = F.usr_pwd, enc = 2, new = function() return { name = "usr_pwd", label = "UsrPwd", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.pub_key_22 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 2, new = function() return { name = "pub_key", label = "PubKey", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.auth_23 = { name = "auth", label = "Auth", field = F.auth, enc = 2, new = function() return { name = "auth", label = "Auth", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true, fits = function(m, seen) return m.A == 1 end }
I.pub_key_24 = { name = "pub_key", label = "PubKey", field = F.pub_key, enc = 0, new = function() return { name = "pub_key", label = "PubKey", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.multi_link_25 = { name = "multi_link", label = "MultiLink", field = F.multi_link, enc = 2, new = function() return { name = "multi_link", label = "MultiLink", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, lenient = true }
I.multi_link_ack_26 = { name = "multi_link_ack", label = "MultiLinkAck", field = F.multi_link_ack, enc = 0, new = function() return { name = "multi_link_ack", label = "MultiLinkAck", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.remote_bound_27 = { name = "remote_bound", label = "RemoteBound", field = F.remote_bound, enc = 1, new = function() return { name = "remote_bound", label = "RemoteBound", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.first_28 = { name = "first", label = "First", field = F.first, enc = 0, new = function() return { name = "first", label = "First", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.drop_29 = { name = "drop", label = "Drop", field = F.drop, enc = 0, new = function() return { name = "drop", label = "Drop", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.qos_30 = { name = "qos", label = "QoS", field = F.qos, enc = 2, new = function() return { name = "qos", label = "QoS", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.shm_31 = { name = "shm", label = "Shm", field = F.shm, enc = 2, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.qos_32 = { name = "qos", label = "QoS", field = F.qos, enc = 1, new = function() return { name = "qos", label = "QoS", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil, item = nil, shown = nil, stop = nil, reserved6 = nil, F = nil, E = nil, D = nil, priority = nil } end }
I.timestamp_33 = { name = "timestamp", label = "Timestamp", field = F.timestamp, enc = 2, new = function() return { name = "timestamp", label = "Timestamp", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.node_id_34 = { name = "node_id", label = "NodeId", field = F.node_id, enc = 1, new = function() return { name = "node_id", label = "NodeId", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.responder_id_35 = { name = "responder_id", label = "ResponderId", field = F.responder_id, enc = 2, new = function() return { name = "responder_id", label = "ResponderId", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.timestamp_stack_36 = { name = "timestamp_stack", label = "TimestampStack", field = F.timestamp_stack, enc = 2, new = function() return { name = "timestamp_stack", label = "TimestampStack", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.stamp_37 = { name = "stamp", label = "stamp", field = F.stamp }
I.query_target_38 = { name = "query_target", label = "QueryTarget", field = F.query_target, enc = 1, new = function() return { name = "query_target", label = "QueryTarget", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.budget_39 = { name = "budget", label = "Budget", field = F.budget, enc = 1, new = function() return { name = "budget", label = "Budget", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.timeout_40 = { name = "timeout", label = "Timeout", field = F.timeout, enc = 1, new = function() return { name = "timeout", label = "Timeout", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.linkstate_41 = { name = "linkstate", label = "linkstate", field = F.linkstate }
I.wire_expr_42 = { name = "wire_expr", label = "WireExpr", field = F.wire_expr, enc = 2, new = function() return { name = "wire_expr", label = "WireExpr", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.queryable_info_43 = { name = "queryable_info", label = "QueryableInfo", field = F.queryable_info, enc = 1, new = function() return { name = "queryable_info", label = "QueryableInfo", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.source_info_44 = { name = "source_info", label = "SourceInfo", field = F.source_info, enc = 2, new = function() return { name = "source_info", label = "SourceInfo", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil, item = nil, shown = nil, stop = nil, zid_len = nil, reserved0 = nil, zid = nil, eid = nil, source_sn = nil } end }
I.shm_45 = { name = "shm", label = "Shm", field = F.shm, enc = 0, new = function() return { name = "shm", label = "Shm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.attachment_46 = { name = "attachment", label = "Attachment", field = F.attachment, enc = 2, new = function() return { name = "attachment", label = "Attachment", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.reference_47 = { name = "reference", label = "reference", field = F.reference }
I.attachment_48 = { name = "attachment", label = "Attachment", field = F.attachment, enc = 2, new = function() return { name = "attachment", label = "Attachment", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.query_body_shm_49 = { name = "query_body_shm", label = "QueryBodyShm", field = F.query_body_shm, enc = 0, new = function() return { name = "query_body_shm", label = "QueryBodyShm", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
I.query_body_50 = { name = "query_body", label = "QueryBody", field = F.query_body, enc = 2, new = function() return { name = "query_body", label = "QueryBody", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, fits = function(m, seen) return not ((seen or none)[0x04]) end }
I.query_body_51 = { name = "query_body", label = "QueryBody", field = F.query_body, enc = 2, new = function() return { name = "query_body", label = "QueryBody", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end, unbounded = true, fits = function(m, seen) return (seen or none)[0x04] end }
I.attachment_52 = { name = "attachment", label = "Attachment", field = F.attachment, enc = 2, new = function() return { name = "attachment", label = "Attachment", at = nil, parent = nil, slot = nil, named = nil, nth = nil, header = nil, enc = nil } end }
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.scout_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.scout_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.scout_reserved_5, here) end
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then add(item, F.scout_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.I = floor(c / 8) % 2
  m.what = c % 8
  local here = item and range(at, 1)
  if here then
    add(item, F.scout_zid_len, here)
    add(item, F.scout_I, here)
    add(item, F.scout_what, here)
  end
  at = at + 1
  if m.I == 1 then
    start, n = at, at + m.zid_len + 1
    if n > stop then return cut(b, m, "zid", at) end
    m.zid = zid(raw, start, n)
    if item then add(item, F.scout_zid, range(start, n - start), m.zid) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.L = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.hello_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.hello_reserved_6, here) end
    add(item, F.hello_L, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then add(item, F.hello_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved2 = floor(c / 4) % 4
  m.whatami = c % 4
  local here = item and range(at, 1)
  if here then
    add(item, F.hello_zid_len, here)
    if m.reserved2 ~= 0 then add(item, F.hello_reserved2, here) end
    add(item, F.hello_whatami, here)
  end
  if m.whatami < 0 or m.whatami > 2 then note(b, m, "BadValue", "whatami", at, m.whatami .. " has no meaning") end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then add(item, F.hello_zid, range(start, n - start), m.zid) end
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
        if item then add(item, F.hello_locator, range(start, n - start), shown(v.locator)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.ENC = floor(c / 32) % 4
  local here = m.here
  if here then
    add(item, F.transport_oam_Z, here)
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
    if item then add(item, F.transport_oam_data, range(start, n - start)) end
    at = n
  end
  return at
end

R.init = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.S = floor(c / 64) % 2
  m.A = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.init_Z, here)
    add(item, F.init_S, here)
    add(item, F.init_A, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then add(item, F.init_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved2 = floor(c / 4) % 4
  m.whatami = c % 4
  local here = item and range(at, 1)
  if here then
    add(item, F.init_zid_len, here)
    if m.reserved2 ~= 0 then add(item, F.init_reserved2, here) end
    add(item, F.init_whatami, here)
  end
  if m.whatami < 0 or m.whatami > 2 then note(b, m, "BadValue", "whatami", at, m.whatami .. " has no meaning") end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then add(item, F.init_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  if m.S == 1 then
    c = at < stop and byte(raw, at + 1)
    if not c then return cut(b, m, "rid", at) end
    m.reserved4 = floor(c / 16)
    m.rid = floor(c / 4) % 4
    m.fsn = c % 4
    local here = item and range(at, 1)
    if here then
      if m.reserved4 ~= 0 then add(item, F.init_reserved4, here) end
      add(item, F.init_rid, here)
      add(item, F.init_fsn, here)
    end
    at = at + 1
    if stop - at < 2 then return cut(b, m, "batch_size", at) end
    m.batch_size = le(raw, at, 2, false)
    if item then add_le(item, F.init_batch_size, range(at, 2)) end
    at = at + 2
  end
  if m.A == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "cookie", at) end
    if (hi > 0 or lo >= 65536) then return fail(b, m, "Overlong", "cookie", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "cookie", at) end
    m.cookie = sub(raw, start + 1, n)
    if item then add(item, F.init_cookie, range(start, n - start)) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[3], at, stop)
    if not at then return nil end
  end
  return at
end

R.open = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.T = floor(c / 64) % 2
  m.A = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.open_Z, here)
    add(item, F.open_T, here)
    add(item, F.open_A, here)
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
    if item then add(item, F.open_cookie, range(start, n - start)) end
    at = n
  end
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[4], at, stop)
    if not at then return nil end
  end
  return at
end

R.close = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.S = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.close_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.close_reserved_6, here) end
    add(item, F.close_S, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "reason", at) end
  m.reason = c
  if item then add(item, F.close_reason, range(at, 1)) end
  at = at + 1
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.keep_alive = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.keep_alive_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.keep_alive_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.keep_alive_reserved_5, here) end
  end
  at = at + 1
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.frame = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.R = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.frame_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.frame_reserved_6, here) end
    add(item, F.frame_R, here)
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.R = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.fragment_Z, here)
    add(item, F.fragment_M, here)
    add(item, F.fragment_R, here)
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
  if item then add(item, F.fragment_data, range(start, n - start)) end
  at = n
  return at
end

R.join = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.S = floor(c / 64) % 2
  m.T = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.join_Z, here)
    add(item, F.join_S, here)
    add(item, F.join_T, here)
  end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "version", at) end
  m.version = c
  if item then add(item, F.join_version, range(at, 1)) end
  at = at + 1
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved2 = floor(c / 4) % 4
  m.whatami = c % 4
  local here = item and range(at, 1)
  if here then
    add(item, F.join_zid_len, here)
    if m.reserved2 ~= 0 then add(item, F.join_reserved2, here) end
    add(item, F.join_whatami, here)
  end
  if m.whatami < 0 or m.whatami > 2 then note(b, m, "BadValue", "whatami", at, m.whatami .. " has no meaning") end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then add(item, F.join_zid, range(start, n - start), m.zid) end
  if m.zid == "0" then note(b, m, "BadValue", "zid", at, "a ZenohID of value 0") end
  at = n
  if m.S == 1 then
    c = at < stop and byte(raw, at + 1)
    if not c then return cut(b, m, "rid", at) end
    m.reserved4 = floor(c / 16)
    m.rid = floor(c / 4) % 4
    m.fsn = c % 4
    local here = item and range(at, 1)
    if here then
      if m.reserved4 ~= 0 then add(item, F.join_reserved4, here) end
      add(item, F.join_rid, here)
      add(item, F.join_fsn, here)
    end
    at = at + 1
    if stop - at < 2 then return cut(b, m, "batch_size", at) end
    m.batch_size = le(raw, at, 2, false)
    if item then add_le(item, F.join_batch_size, range(at, 2)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.mode = floor(c / 32) % 4
  local here = m.here
  if here then
    add(item, F.interest_Z, here)
    add(item, F.interest_mode, here)
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
    local here = item and range(at, 1)
    if here then
      add(item, F.interest_aggregate, here)
      add(item, F.interest_M, here)
      add(item, F.interest_N, here)
      add(item, F.interest_restricted, here)
      add(item, F.interest_tokens, here)
      add(item, F.interest_queryables, here)
      add(item, F.interest_subscribers, here)
      add(item, F.interest_keyexprs, here)
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
    if item then add(item, F.interest_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.response_final_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.response_final_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.response_final_reserved_5, here) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.response_Z, here)
    add(item, F.response_M, here)
    add(item, F.response_N, here)
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
    if item then add(item, F.response_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.request_Z, here)
    add(item, F.request_M, here)
    add(item, F.request_N, here)
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
    if item then add(item, F.request_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.push_Z, here)
    add(item, F.push_M, here)
    add(item, F.push_N, here)
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
    if item then add(item, F.push_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.I = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.declare_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.declare_reserved_6, here) end
    add(item, F.declare_I, here)
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.ENC = floor(c / 32) % 4
  local here = m.here
  if here then
    add(item, F.network_oam_Z, here)
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
    at = region(b, m, m, "linkstate", "linkstate", I.linkstate_41, item or m.item, at, stop)
    if not at then return nil end
  end
  if m.ENC == 2 and not (m.oam_id == 1) then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "data", at) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "data", at) end
    m.data = sub(raw, start + 1, n)
    if item then add(item, F.network_oam_data, range(start, n - start)) end
    at = n
  end
  return at
end

R.d_keyexpr = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.d_keyexpr_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.d_keyexpr_reserved_6, here) end
    add(item, F.d_keyexpr_N, here)
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
    if item then add(item, F.d_keyexpr_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.u_keyexpr_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.u_keyexpr_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.u_keyexpr_reserved_5, here) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.d_subscriber_Z, here)
    add(item, F.d_subscriber_M, here)
    add(item, F.d_subscriber_N, here)
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
    if item then add(item, F.d_subscriber_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.u_subscriber_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.u_subscriber_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.u_subscriber_reserved_5, here) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.d_queryable_Z, here)
    add(item, F.d_queryable_M, here)
    add(item, F.d_queryable_N, here)
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
    if item then add(item, F.d_queryable_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.u_queryable_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.u_queryable_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.u_queryable_reserved_5, here) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.M = floor(c / 64) % 2
  m.N = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.d_token_Z, here)
    add(item, F.d_token_M, here)
    add(item, F.d_token_N, here)
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
    if item then add(item, F.d_token_key_suffix, range(start, n - start), shown(m.key_suffix)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.u_token_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.u_token_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.u_token_reserved_5, here) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.d_final_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.d_final_reserved_6, here) end
    if m.reserved_5 ~= 0 then add(item, F.d_final_reserved_5, here) end
  end
  at = at + 1
  if m.Z == 1 then
    at = chain(b, m, "extensions", C[5], at, stop)
    if not at then return nil end
  end
  return at
end

R.put = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.E = floor(c / 64) % 2
  m.T = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.put_Z, here)
    add(item, F.put_E, here)
    add(item, F.put_T, here)
  end
  at = at + 1
  if m.T == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp", at) end
    m.timestamp = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.put_timestamp, range, at, n, lo, hi) end
    if item then add_ntp64(item, F.put_timestamp_time, range, at, n, lo, hi) end
    at = n
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp_id", at) end
    if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
    n = start + lo
    if n > stop then return cut(b, m, "timestamp_id", at) end
    m.timestamp_id = zid(raw, start, n)
    if item then add(item, F.put_timestamp_id, range(start, n - start), m.timestamp_id) end
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
      if m.reserved32 ~= 0 then add(item, F.put_reserved32, here, m.reserved32) end
      add(item, F.put_encoding, here, m.encoding)
      add(item, F.put_S, here, m.S)
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
    if item then add(item, F.put_schema, range(start, n - start)) end
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
    if item then add(item, F.put_data, range(start, n - start)) end
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
        local sub_item = item and add(item, range(at, 0), "slices[" .. index .. "]")
        c = at < stop and byte(raw, at + 1)
        if not c then return cut(b, m, path .. ".kind", at) end
        v.kind = c
        local here = sub_item and range(at, 1)
        if here then
          add(sub_item, F.put_kind, here)
        end
        if v.kind < 0 or v.kind > 1 then note(b, m, "BadValue", path .. ".kind", at, v.kind .. " has no meaning") end
        at = at + 1
        if v.kind == 0 then
          lo, hi, start = vle(raw, at, stop)
          if not lo then return cut(b, m, path .. ".slice", at) end
          n = start + lo
          if hi > 0 or n > stop then return cut(b, m, path .. ".slice", at) end
          v.slice = sub(raw, start + 1, n)
          if sub_item then add(sub_item, F.put_slice, range(start, n - start)) end
          at = n
        end
        if v.kind == 1 then
          at = region(b, m, v, "reference", path .. ".reference", I.reference_47, sub_item or m.item, at, stop)
          if not at then return nil end
        end
        index = index + 1
        if sub_item then set_len(sub_item, at - begun) end
        list[index] = v
      end
    end
  end
  return at
end

R.del = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.T = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.del_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.del_reserved_6, here) end
    add(item, F.del_T, here)
  end
  at = at + 1
  if m.T == 1 then
    lo, hi, n = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp", at) end
    m.timestamp = hi == 0 and lo or number(lo, hi)
    if item then add_vle(item, F.del_timestamp, range, at, n, lo, hi) end
    if item then add_ntp64(item, F.del_timestamp_time, range, at, n, lo, hi) end
    at = n
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "timestamp_id", at) end
    if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
    n = start + lo
    if n > stop then return cut(b, m, "timestamp_id", at) end
    m.timestamp_id = zid(raw, start, n)
    if item then add(item, F.del_timestamp_id, range(start, n - start), m.timestamp_id) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.P = floor(c / 64) % 2
  m.C = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.query_Z, here)
    add(item, F.query_P, here)
    add(item, F.query_C, here)
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
    if item then add(item, F.query_parameters, range(start, n - start), shown(m.parameters)) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.reserved_6 = floor(c / 64) % 2
  m.C = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.reply_Z, here)
    if m.reserved_6 ~= 0 then add(item, F.reply_reserved_6, here) end
    add(item, F.reply_C, here)
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "Z", at) end
  m.Z = floor(c / 128)
  m.E = floor(c / 64) % 2
  m.reserved_5 = floor(c / 32) % 2
  local here = m.here
  if here then
    add(item, F.err_Z, here)
    add(item, F.err_E, here)
    if m.reserved_5 ~= 0 then add(item, F.err_reserved_5, here) end
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
      if m.reserved32 ~= 0 then add(item, F.err_reserved32, here, m.reserved32) end
      add(item, F.err_encoding, here, m.encoding)
      add(item, F.err_S, here, m.S)
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
    if item then add(item, F.err_schema, range(start, n - start)) end
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
  if item then add(item, F.err_data, range(start, n - start)) end
  at = n
  return at
end

I.qos_0.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "priority", at) end
  m.reserved3 = bits_of(lo, hi, 3, 61)
  m.priority = lo % 8
  if item then
    local here = range(at, n - at)
    if m.reserved3 ~= 0 then add(item, F.qos_reserved3, here, wide(m.reserved3)) end
    add(item, F.qos_priority, here, m.priority)
  end
  at = n
  return at
end

I.qos_1.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.qoslink_2.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
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
    if m.reserved20 ~= 0 then add(item, F.qoslink_reserved20, here, wide(m.reserved20)) end
    add(item, F.qoslink_reliability, here, m.reliability)
    add(item, F.qoslink_last_priority, here, m.last_priority)
    add(item, F.qoslink_first_priority, here, m.first_priority)
    add(item, F.qoslink_has_reliability, here, m.has_reliability)
    add(item, F.qoslink_has_priorities, here, m.has_priorities)
    add(item, F.qoslink_qos, here, m.qos)
  end
  at = n
  return at
end

I.shm_3.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "segment_id", at) end
  m.segment_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_segment_id, range, at, n, lo, hi) end
  at = n
  return at
end

I.shm_4.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[19], at, stop)
  if not at then return nil end
  return at
end

I.usr_pwd_6.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.pub_key_7.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then add(item, F.pub_key_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then add(item, F.pub_key_e, range(start, n - start)) end
  at = n
  return at
end

I.auth_8.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[20], at, stop)
  if not at then return nil end
  return at
end

I.usr_pwd_9.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  m.nonce = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.usr_pwd_nonce, range, at, n, lo, hi) end
  at = n
  return at
end

I.pub_key_10.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then add(item, F.pub_key_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then add(item, F.pub_key_e, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then add(item, F.pub_key_nonce, range(start, n - start)) end
  at = n
  return at
end

I.multi_link_11.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then add(item, F.multi_link_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then add(item, F.multi_link_e, range(start, n - start)) end
  at = n
  return at
end

I.multi_link_12.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "n", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "n", at) end
  m.n = sub(raw, start + 1, n)
  if item then add(item, F.multi_link_n, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "e", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "e", at) end
  m.e = sub(raw, start + 1, n)
  if item then add(item, F.multi_link_e, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then add(item, F.multi_link_nonce, range(start, n - start)) end
  at = n
  return at
end

I.low_latency_13.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.compression_14.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.patch_15.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "patch", at) end
  m.patch = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.patch_patch, range, at, n, lo, hi) end
  at = n
  return at
end

I.region_name_16.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, n = at, stop
  m.region = sub(raw, start + 1, n)
  if item then add(item, F.region_name_region, range(start, n - start), shown(m.region)) end
  if not is_utf8(m.region) then note(b, m, "BadValue", "region", at, "not UTF-8") end
  at = n
  return at
end

I.shm_17.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "challenge", at) end
  m.challenge = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_challenge, range, at, n, lo, hi) end
  at = n
  return at
end

I.shm_18.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "challenge", at) end
  m.challenge = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.shm_challenge, range, at, n, lo, hi) end
  at = n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "has_counters", at) end
  m.has_counters = c
  local here = item and range(at, 1)
  if here then
    add(item, F.shm_has_counters, here)
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "has_counters", at) end
  m.has_counters = c
  local here = item and range(at, 1)
  if here then
    add(item, F.shm_has_counters, here)
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[21], at, stop)
  if not at then return nil end
  return at
end

I.usr_pwd_21.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "user", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "user", at) end
  m.user = sub(raw, start + 1, n)
  if item then add(item, F.usr_pwd_user, range(start, n - start)) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "hmac", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "hmac", at) end
  m.hmac = sub(raw, start + 1, n)
  if item then add(item, F.usr_pwd_hmac, range(start, n - start)) end
  at = n
  return at
end

I.pub_key_22.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then add(item, F.pub_key_nonce, range(start, n - start)) end
  at = n
  return at
end

I.auth_23.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  at = chain(b, m, "extensions", C[22], at, stop)
  if not at then return nil end
  return at
end

I.pub_key_24.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.multi_link_25.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "nonce", at) end
  n = start + lo
  if hi > 0 or n > stop then return cut(b, m, "nonce", at) end
  m.nonce = sub(raw, start + 1, n)
  if item then add(item, F.multi_link_nonce, range(start, n - start)) end
  at = n
  return at
end

I.multi_link_ack_26.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.remote_bound_27.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "bound", at) end
  m.bound = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.remote_bound_bound, range, at, n, lo, hi) end
  at = n
  return at
end

I.first_28.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.drop_29.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.qos_30.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  do
    local first, count = at, nil
    count = 8
    local list, index = {}, 0
    m.lanes = list
    while index < count do
      local v, path, begun = {}, "lanes" .. "[" .. index .. "]", at
      local sub_item = item and add(item, range(at, 0), "lanes[" .. index .. "]")
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
      if sub_item then set_len(sub_item, at - begun) end
      list[index] = v
    end
  end
  return at
end

I.shm_31.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, n = at, stop
  m.data = sub(raw, start + 1, n)
  if item then add(item, F.shm_data, range(start, n - start)) end
  at = n
  return at
end

I.qos_32.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
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
    if m.reserved6 ~= 0 then add(item, F.qos_reserved6, here, wide(m.reserved6)) end
    add(item, F.qos_F, here, m.F)
    add(item, F.qos_E, here, m.E)
    add(item, F.qos_D, here, m.D)
    add(item, F.qos_priority, here, m.priority)
  end
  at = n
  return at
end

I.timestamp_33.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp", at) end
  m.timestamp = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.timestamp_timestamp, range, at, n, lo, hi) end
  if item then add_ntp64(item, F.timestamp_timestamp_time, range, at, n, lo, hi) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp_id", at) end
  if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
  n = start + lo
  if n > stop then return cut(b, m, "timestamp_id", at) end
  m.timestamp_id = zid(raw, start, n)
  if item then add(item, F.timestamp_timestamp_id, range(start, n - start), m.timestamp_id) end
  if m.timestamp_id == "0" then note(b, m, "BadValue", "timestamp_id", at, "a ZenohID of value 0") end
  at = n
  return at
end

I.node_id_34.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "node_id", at) end
  m.node_id = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.node_id_node_id, range, at, n, lo, hi) end
  at = n
  return at
end

I.responder_id_35.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved0 = c % 16
  local here = item and range(at, 1)
  if here then
    add(item, F.responder_id_zid_len, here)
    if m.reserved0 ~= 0 then add(item, F.responder_id_reserved0, here) end
  end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then add(item, F.responder_id_zid, range(start, n - start), m.zid) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "conf_flags", at) end
  m.conf_flags = c
  if item then add(item, F.timestamp_stack_conf_flags, range(at, 1)) end
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
      local sub_item = item and add(item, range(at, 0), "records[" .. index .. "]")
      c = at < stop and byte(raw, at + 1)
      if not c then return cut(b, m, path .. ".custom", at) end
      v.custom = floor(c / 128)
      v.reserved3 = floor(c / 8) % 16
      v.point = c % 8
      local here = sub_item and range(at, 1)
      if here then
        add(sub_item, F.timestamp_stack_custom, here)
        if v.reserved3 ~= 0 then add(sub_item, F.timestamp_stack_reserved3, here) end
        add(sub_item, F.timestamp_stack_point, here)
      end
      at = at + 1
      if v.custom == 1 then
        lo, hi, start = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".record", at) end
        n = start + lo
        if hi > 0 or n > stop then return cut(b, m, path .. ".record", at) end
        v.record = sub(raw, start + 1, n)
        if sub_item then add(sub_item, F.timestamp_stack_record, range(start, n - start)) end
        at = n
      end
      if not (v.custom == 1) then
        at = region(b, m, v, "stamp", path .. ".stamp", I.stamp_37, sub_item or m.item, at, stop)
        if not at then return nil end
      end
      index = index + 1
      if sub_item then set_len(sub_item, at - begun) end
      list[index] = v
    end
  end
  return at
end

I.stamp_37.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp", at) end
  m.timestamp = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.stamp_timestamp, range, at, n, lo, hi) end
  if item then add_ntp64(item, F.stamp_timestamp_time, range, at, n, lo, hi) end
  at = n
  lo, hi, start = vle(raw, at, stop)
  if not lo then return cut(b, m, "timestamp_id", at) end
  if hi > 0 or lo < 1 or lo > 16 then return fail(b, m, "BadValue", "timestamp_id", at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes") end
  n = start + lo
  if n > stop then return cut(b, m, "timestamp_id", at) end
  m.timestamp_id = zid(raw, start, n)
  if item then add(item, F.stamp_timestamp_id, range(start, n - start), m.timestamp_id) end
  if m.timestamp_id == "0" then note(b, m, "BadValue", "timestamp_id", at, "a ZenohID of value 0") end
  at = n
  return at
end

I.query_target_38.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "budget", at) end
  m.budget = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.budget_budget, range, at, n, lo, hi) end
  at = n
  return at
end

I.timeout_40.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  lo, hi, n = vle(raw, at, stop)
  if not lo then return cut(b, m, "timeout", at) end
  m.timeout = hi == 0 and lo or number(lo, hi)
  if item then add_vle(item, F.timeout_timeout, range, at, n, lo, hi) end
  at = n
  return at
end

I.linkstate_41.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
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
      local sub_item = item and add(item, range(at, 0), "records[" .. index .. "]")
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
        if v.reserved5 ~= 0 then add(sub_item, F.linkstate_reserved5, here, wide(v.reserved5)) end
        add(sub_item, F.linkstate_gateway, here, v.gateway)
        add(sub_item, F.linkstate_has_weights, here, v.has_weights)
        add(sub_item, F.linkstate_has_locators, here, v.has_locators)
        add(sub_item, F.linkstate_has_whatami, here, v.has_whatami)
        add(sub_item, F.linkstate_has_zid, here, v.has_zid)
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
        if sub_item then add(sub_item, F.linkstate_zid, range(start, n - start), v.zid) end
        if v.zid == "0" then note(b, m, "BadValue", path .. ".zid", at, "a ZenohID of value 0") end
        at = n
      end
      if v.has_whatami == 1 then
        c = at < stop and byte(raw, at + 1)
        if not c then return cut(b, m, path .. ".whatami", at) end
        v.whatami = c
        if sub_item then add(sub_item, F.linkstate_whatami, range(at, 1)) end
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
            if sub_item then add(sub_item, F.linkstate_locator, range(start, n - start), shown(v.locator)) end
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
      if sub_item then set_len(sub_item, at - begun) end
      list[index] = v
    end
  end
  return at
end

I.wire_expr_42.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "mapping", at) end
  m.reserved2 = floor(c / 4)
  m.mapping = floor(c / 2) % 2
  m.N = c % 2
  local here = item and range(at, 1)
  if here then
    if m.reserved2 ~= 0 then add(item, F.wire_expr_reserved2, here) end
    add(item, F.wire_expr_mapping, here)
    add(item, F.wire_expr_N, here)
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
    if item then add(item, F.wire_expr_key_suffix, range(start, n - start), shown(m.key_suffix)) end
    if not is_utf8(m.key_suffix) then note(b, m, "BadValue", "key_suffix", at, "not UTF-8") end
    at = n
  end
  return at
end

I.queryable_info_43.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "distance", at) end
  m.reserved24 = bits_of(lo, hi, 24, 40)
  m.distance = floor(lo / 256) % 65536
  m.reserved1 = floor(lo / 2) % 128
  m.complete = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved24 ~= 0 then add(item, F.queryable_info_reserved24, here, wide(m.reserved24)) end
    add(item, F.queryable_info_distance, here, m.distance)
    if m.reserved1 ~= 0 then add(item, F.queryable_info_reserved1, here, m.reserved1) end
    add(item, F.queryable_info_complete, here, m.complete)
  end
  at = n
  return at
end

I.source_info_44.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  c = at < stop and byte(raw, at + 1)
  if not c then return cut(b, m, "zid_len", at) end
  m.zid_len = floor(c / 16)
  m.reserved0 = c % 16
  local here = item and range(at, 1)
  if here then
    add(item, F.source_info_zid_len, here)
    if m.reserved0 ~= 0 then add(item, F.source_info_reserved0, here) end
  end
  at = at + 1
  start, n = at, at + m.zid_len + 1
  if n > stop then return cut(b, m, "zid", at) end
  m.zid = zid(raw, start, n)
  if item then add(item, F.source_info_zid, range(start, n - start), m.zid) end
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.attachment_46.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, n = at, stop
  m.attachment = sub(raw, start + 1, n)
  if item then add(item, F.attachment_attachment, range(start, n - start)) end
  at = n
  return at
end

I.reference_47.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
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
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, n = at, stop
  m.attachment = sub(raw, start + 1, n)
  if item then add(item, F.attachment_attachment, range(start, n - start)) end
  at = n
  return at
end

I.query_body_shm_49.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  return at
end

I.query_body_50.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "encoding", at) end
  if hi > 0 then note(b, m, "Overlong", "encoding", at, "more than 32 bits") end
  m.reserved32 = hi
  m.encoding = floor(lo / 2)
  m.S = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved32 ~= 0 then add(item, F.query_body_reserved32, here, m.reserved32) end
    add(item, F.query_body_encoding, here, m.encoding)
    add(item, F.query_body_S, here, m.S)
  end
  at = n
  if m.S == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "schema", at) end
    if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", "schema", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "schema", at) end
    m.schema = sub(raw, start + 1, n)
    if item then add(item, F.query_body_schema, range(start, n - start)) end
    at = n
  end
  start, n = at, stop
  m.data = sub(raw, start + 1, n)
  if item then add(item, F.query_body_data, range(start, n - start)) end
  at = n
  return at
end

I.query_body_51.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, lo, hi, n = at, vle(raw, at, stop)
  if not lo then return cut(b, m, "encoding", at) end
  if hi > 0 then note(b, m, "Overlong", "encoding", at, "more than 32 bits") end
  m.reserved32 = hi
  m.encoding = floor(lo / 2)
  m.S = lo % 2
  if item then
    local here = range(at, n - at)
    if m.reserved32 ~= 0 then add(item, F.query_body_reserved32, here, m.reserved32) end
    add(item, F.query_body_encoding, here, m.encoding)
    add(item, F.query_body_S, here, m.S)
  end
  at = n
  if m.S == 1 then
    lo, hi, start = vle(raw, at, stop)
    if not lo then return cut(b, m, "schema", at) end
    if (hi > 0 or lo >= 256) then return fail(b, m, "Overlong", "schema", at, "a length of " .. lo + hi * 4294967296) end
    n = start + lo
    if hi > 0 or n > stop then return cut(b, m, "schema", at) end
    m.schema = sub(raw, start + 1, n)
    if item then add(item, F.query_body_schema, range(start, n - start)) end
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
      local sub_item = item and add(item, range(at, 0), "slices[" .. index .. "]")
      c = at < stop and byte(raw, at + 1)
      if not c then return cut(b, m, path .. ".kind", at) end
      v.kind = c
      local here = sub_item and range(at, 1)
      if here then
        add(sub_item, F.query_body_kind, here)
      end
      if v.kind < 0 or v.kind > 1 then note(b, m, "BadValue", path .. ".kind", at, v.kind .. " has no meaning") end
      at = at + 1
      if v.kind == 0 then
        lo, hi, start = vle(raw, at, stop)
        if not lo then return cut(b, m, path .. ".slice", at) end
        n = start + lo
        if hi > 0 or n > stop then return cut(b, m, path .. ".slice", at) end
        v.slice = sub(raw, start + 1, n)
        if sub_item then add(sub_item, F.query_body_slice, range(start, n - start)) end
        at = n
      end
      if v.kind == 1 then
        at = region(b, m, v, "reference", path .. ".reference", I.reference_47, sub_item or m.item, at, stop)
        if not at then return nil end
      end
      index = index + 1
      if sub_item then set_len(sub_item, at - begun) end
      list[index] = v
    end
  end
  return at
end

I.attachment_52.read = function(b, m, at, stop)
  local raw, range, item = b.raw, b.range, m.shown
  local start, c, lo, hi, n
  start, n = at, stop
  m.attachment = sub(raw, start + 1, n)
  if item then add(item, F.attachment_attachment, range(start, n - start)) end
  at = n
  return at
end
Z.messages.scouting[0x01] = { name = "scout", label = "SCOUT", kind = "scouting", read = R.scout, field = F.scout, new = function() return { name = "scout", label = "SCOUT", kind = "scouting", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.scouting[0x02] = { name = "hello", label = "HELLO", kind = "scouting", read = R.hello, field = F.hello, new = function() return { name = "hello", label = "HELLO", kind = "scouting", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x00] = { name = "transport_oam", label = "OAM", kind = "transport", read = R.transport_oam, field = F.transport_oam, new = function() return { name = "transport_oam", label = "OAM", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x01] = { name = "init", label = "INIT", kind = "transport", read = R.init, field = F.init, new = function() return { name = "init", label = "INIT", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x02] = { name = "open", label = "OPEN", kind = "transport", read = R.open, field = F.open, new = function() return { name = "open", label = "OPEN", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x03] = { name = "close", label = "CLOSE", kind = "transport", read = R.close, field = F.close, new = function() return { name = "close", label = "CLOSE", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x04] = { name = "keep_alive", label = "KEEP_ALIVE", kind = "transport", read = R.keep_alive, field = F.keep_alive, new = function() return { name = "keep_alive", label = "KEEP_ALIVE", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x05] = { name = "frame", label = "FRAME", kind = "transport", read = R.frame, field = F.frame, new = function() return { name = "frame", label = "FRAME", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x06] = { name = "fragment", label = "FRAGMENT", kind = "transport", read = R.fragment, field = F.fragment, new = function() return { name = "fragment", label = "FRAGMENT", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.transport[0x07] = { name = "join", label = "JOIN", kind = "transport", read = R.join, field = F.join, new = function() return { name = "join", label = "JOIN", kind = "transport", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x19] = { name = "interest", label = "INTEREST", kind = "network", read = R.interest, field = F.interest, new = function() return { name = "interest", label = "INTEREST", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x1a] = { name = "response_final", label = "RESPONSE_FINAL", kind = "network", read = R.response_final, field = F.response_final, new = function() return { name = "response_final", label = "RESPONSE_FINAL", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x1b] = { name = "response", label = "RESPONSE", kind = "network", read = R.response, field = F.response, new = function() return { name = "response", label = "RESPONSE", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x1c] = { name = "request", label = "REQUEST", kind = "network", read = R.request, field = F.request, new = function() return { name = "request", label = "REQUEST", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x1d] = { name = "push", label = "PUSH", kind = "network", read = R.push, field = F.push, new = function() return { name = "push", label = "PUSH", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x1e] = { name = "declare", label = "DECLARE", kind = "network", read = R.declare, field = F.declare, new = function() return { name = "declare", label = "DECLARE", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.network[0x1f] = { name = "network_oam", label = "OAM", kind = "network", read = R.network_oam, field = F.network_oam, new = function() return { name = "network_oam", label = "OAM", kind = "network", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x00] = { name = "d_keyexpr", label = "D_KEYEXPR", kind = "declaration", read = R.d_keyexpr, field = F.d_keyexpr, new = function() return { name = "d_keyexpr", label = "D_KEYEXPR", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x01] = { name = "u_keyexpr", label = "U_KEYEXPR", kind = "declaration", read = R.u_keyexpr, field = F.u_keyexpr, new = function() return { name = "u_keyexpr", label = "U_KEYEXPR", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x02] = { name = "d_subscriber", label = "D_SUBSCRIBER", kind = "declaration", read = R.d_subscriber, field = F.d_subscriber, new = function() return { name = "d_subscriber", label = "D_SUBSCRIBER", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x03] = { name = "u_subscriber", label = "U_SUBSCRIBER", kind = "declaration", read = R.u_subscriber, field = F.u_subscriber, new = function() return { name = "u_subscriber", label = "U_SUBSCRIBER", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x04] = { name = "d_queryable", label = "D_QUERYABLE", kind = "declaration", read = R.d_queryable, field = F.d_queryable, new = function() return { name = "d_queryable", label = "D_QUERYABLE", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x05] = { name = "u_queryable", label = "U_QUERYABLE", kind = "declaration", read = R.u_queryable, field = F.u_queryable, new = function() return { name = "u_queryable", label = "U_QUERYABLE", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x06] = { name = "d_token", label = "D_TOKEN", kind = "declaration", read = R.d_token, field = F.d_token, new = function() return { name = "d_token", label = "D_TOKEN", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x07] = { name = "u_token", label = "U_TOKEN", kind = "declaration", read = R.u_token, field = F.u_token, new = function() return { name = "u_token", label = "U_TOKEN", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.declaration[0x1a] = { name = "d_final", label = "D_FINAL", kind = "declaration", read = R.d_final, field = F.d_final, new = function() return { name = "d_final", label = "D_FINAL", kind = "declaration", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.data[0x01] = { name = "put", label = "PUT", kind = "data", read = R.put, field = F.put, new = function() return { name = "put", label = "PUT", kind = "data", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.data[0x02] = { name = "del", label = "DEL", kind = "data", read = R.del, field = F.del, new = function() return { name = "del", label = "DEL", kind = "data", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.data[0x03] = { name = "query", label = "QUERY", kind = "data", read = R.query, field = F.query, new = function() return { name = "query", label = "QUERY", kind = "data", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.data[0x04] = { name = "reply", label = "REPLY", kind = "data", read = R.reply, field = F.reply, new = function() return { name = "reply", label = "REPLY", kind = "data", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
Z.messages.data[0x05] = { name = "err", label = "ERR", kind = "data", read = R.err, field = F.err, new = function() return { name = "err", label = "ERR", kind = "data", whole = true, at = nil, parent = nil, slot = nil, named = nil, within = nil, place = nil, item = nil, shown = nil, here = nil, stop = nil, heard = nil, keyexpr = nil, Z = nil } end }
end

-- preferences -----------------------------------------------------------------------------------------

do
-- What users can set, and where packets come from: ports, Decode As, what TLS and WebSocket carry.

local DEFAULTS = {
  tcp_ports = "7447",
  udp_ports = "7447",
  scouting_ports = "7446",
  payload = true,
  payload_dissectors = "",
  notes = true,
  heuristics = true,
}
local LAST_PORT = 65535

-- The settings in force; other parts read them at run time.
Z.settings = {}
for name, value in pairs(DEFAULTS) do
  Z.settings[name] = value
end

local prefs = Z.proto.prefs
prefs.tcp_ports = Pref.range("TCP ports", DEFAULTS.tcp_ports,
  "Ports of session links over TCP, over TLS where it can be decrypted, and over WebSocket", LAST_PORT)
prefs.udp_ports = Pref.range("UDP ports", DEFAULTS.udp_ports, "Ports of session links over UDP", LAST_PORT)
prefs.scouting_ports = Pref.range("Scouting ports", DEFAULTS.scouting_ports,
  "UDP ports of SCOUT and HELLO, and of multicast groups", LAST_PORT)
prefs.payload = Pref.bool("Dissect payloads", DEFAULTS.payload,
  "Hand payloads to the dissectors that their encodings, or the table below, name")
prefs.payload_dissectors = Pref.string("Payloads by key", DEFAULTS.payload_dissectors,
  "Key expressions and dissectors, such as: demo/**=json; rt/*/image=image/png; p/*=protobuf:demo.Point; raw/**=none. "
    .. "The first that intersects the key of a message decides, before its encoding")
prefs.notes = Pref.bool("Show notes", DEFAULTS.notes,
  "Expert infos of severity Note and Chat: what is allowed but unusual. Broken rules are always shown")
prefs.heuristics = Pref.bool("Find sessions on other ports", DEFAULTS.heuristics,
  "Recognise handshakes and scouting wherever they are. Needs several facts, and the whole of a packet, to fit")

-- Ports --------------------------------------------------------------------------------------------

-- A dissector is not told who calls it, so what TLS and WebSocket carry goes to protocols of their own.
local function over(suffix, name, dissect)
  local proto = Proto(Z.prefix .. suffix, Z.title:gsub(" Protocol", "") .. " over " .. name)
  proto.dissector = dissect
  return proto
end

-- Batches inside of TLS. That the connection itself was taken for something else does not count for them; from its
-- first record on Wireshark gives it to TLS, and we see no more of it.
function Z.entry.tls(tvb, pinfo, tree)
  local way = Z.links.of(pinfo, tvb, pinfo.visited, tvb:len())
  way.foreign, way.opposite.foreign = nil, nil
  way.link.carrier = "tls"
  return Z.entry.stream(tvb, pinfo, tree)
end

Z.tls = over("_tls", "TLS", function(tvb, pinfo, tree) return Z.entry.tls(tvb, pinfo, tree) end)

-- In WebSocket a batch is a message, without a length in front.
Z.websocket = over("_ws", "WebSocket", function(tvb, pinfo, tree) return Z.entry.message(tvb, pinfo, tree) end)

-- Each table of ports, the settings that fill it, and who takes what arrives there.
local TABLES = {
  { name = "tcp.port", settings = { "tcp_ports" }, target = Z.proto },
  { name = "udp.port", settings = { "udp_ports", "scouting_ports" }, target = Z.proto },
  { name = "tls.port", settings = { "tcp_ports" }, target = Z.tls },
  { name = "ws.port", settings = { "tcp_ports" }, target = Z.websocket },
}

-- Returns the ports of a range as a set.
local function ports_of(text)
  local ports = {}
  for first, last in string.gmatch(text, "(%d+)%-?(%d*)") do
    for port = tonumber(first), math.min(tonumber(last) or tonumber(first), LAST_PORT) do
      ports[port] = true
    end
  end
  return ports
end

-- Returns a table of dissectors, nil when this Wireshark has none of that name.
function Z.table_of(name)
  local found, dissectors = pcall(DissectorTable.get, name)
  return found and dissectors or nil
end

-- Adds the ports that are new and takes back those that are gone. The others stay as they are: users may have told
-- Wireshark to decode them as something else.
local function set_ports(entry)
  local dissectors = Z.table_of(entry.name)
  if not dissectors then
    return
  end
  local wanted = {}
  for _, setting in ipairs(entry.settings) do
    for port in pairs(ports_of(Z.settings[setting])) do
      wanted[port] = true
    end
  end
  for port in pairs(entry.current or {}) do
    if not wanted[port] then
      pcall(function() dissectors:remove(port, entry.target) end)
    end
  end
  for port in pairs(wanted) do
    if not (entry.current and entry.current[port]) then
      pcall(function() dissectors:add(port, entry.target) end)
    end
  end
  entry.current = wanted
end

local function read_settings()
  for name, default in pairs(DEFAULTS) do
    -- Before a protocol is registered its preferences have no values in some versions.
    local found, value = pcall(function() return prefs[name] end)
    if found and value ~= nil then
      Z.settings[name] = value
    else
      Z.settings[name] = default
    end
  end
end

-- Tells `tail` that the ports are looked after here.
Z.ports_registered = true

-- Puts the settings into force. Called once at the end of loading, and whenever they change.
function Z.apply_preferences()
  read_settings()
  Z.scouting_ports = ports_of(Z.settings.scouting_ports)
  for _, entry in ipairs(TABLES) do
    set_ports(entry)
  end
  local faults = Z.set_payload_table(Z.settings.payload_dissectors)
  if #faults > 0 then
    Z.complain("zenoh.payload_dissectors: " .. table.concat(faults, "; "))
  end
end

function Z.proto.prefs_changed()
  Z.apply_preferences()
end

-- Decode As -----------------------------------------------------------------------------------------

for _, entry in ipairs(TABLES) do
  -- That of WebSocket has no Decode As.
  local dissectors = entry.target ~= Z.websocket and Z.table_of(entry.name)
  if dissectors then
    -- Without this function the table offers every protocol, or none: nothing to be done about it.
    pcall(function() dissectors:add_for_decode_as(entry.target) end)
  end
end
end

-- lz4 -------------------------------------------------------------------------------------------------

do
-- LZ4 blocks as batches with compression carry them. Spec: Compression.

local MIN_MATCH = 4 -- bytes that the shortest copy of earlier output has
local FULL = 15 -- value of a length nibble behind which further bytes are added, as long as they are 255
local RUN = 2048 -- bytes that are moved at a time: every Lua takes so many arguments

local byte, char, floor, min = string.byte, string.char, math.floor, math.min
local unpack = table.unpack or unpack

-- Returns a length that starts with a nibble, and the position behind it; nothing when the block ends inside it.
local function length(block, size, at)
  if size < FULL then
    return size, at
  end
  while true do
    local more = byte(block, at)
    if not more then
      return nil
    end
    size, at = size + more, at + 1
    if more ~= 255 then
      return size, at
    end
  end
end

-- Returns about how many bytes `Z.lz4` has to write, also of a block that it refuses; it takes no time.
function Z.lz4_weight(block, most)
  local size, at, stop = 0, 1, #block
  while at <= stop and size < most do
    local token = byte(block, at)
    local literals, copied
    literals, at = length(block, floor(token / 16), at + 1)
    if not literals then break end
    size = size + literals
    copied, at = length(block, token % 16, at + literals + 2)
    if not copied then break end
    size = size + copied + MIN_MATCH
  end
  return min(size, most)
end

local function text(out, count)
  local pieces = {}
  for from = 1, count, RUN do
    pieces[#pieces + 1] = char(unpack(out, from, min(from + RUN - 1, count)))
  end
  return table.concat(pieces)
end

-- Returns what a block without a size header holds. When it is refused, nil and why: the text, then kind, field and
-- place as strict decoding names them (it is cut, copies from before its start, or holds more than `most` bytes).
-- Takes time linear in block and output.
function Z.lz4(block, most)
  local out, count, at, stop = {}, 0, 1, #block
  while at <= stop do
    local start, token = at, byte(block, at)
    local literals, matched = floor(token / 16), token % 16
    literals, at = length(block, literals, at + 1)
    if not literals then
      return nil, "a length goes on behind the end of the block", "Truncated", "length", stop
    end
    if literals > stop - at + 1 then
      return nil, literals .. " bytes, " .. stop - at + 1 .. " left", "Truncated", "literals", start - 1
    end
    if count + literals > most then
      return nil, "more than " .. most .. " bytes of output", "Overlong", "block", start - 1
    end
    for from = at, at + literals - 1, RUN do
      local bytes = { byte(block, from, min(from + RUN, at + literals) - 1) }
      for i = 1, #bytes do
        out[count + i] = bytes[i]
      end
      count = count + #bytes
    end
    at = at + literals
    if at > stop then
      return text(out, count)
    end
    local low, high = byte(block, at, at + 1)
    if not high then
      return nil, "the offset has two bytes", "Truncated", "match", at - 1
    end
    local back = low + 256 * high
    if back == 0 or back > count then
      return nil, "an offset of " .. back .. " behind " .. count .. " bytes of output", "BadValue", "match", at - 1
    end
    matched, at = length(block, matched, at + 2)
    if not matched then
      return nil, "a length goes on behind the end of the block", "Truncated", "length", stop
    end
    matched = matched + MIN_MATCH
    if count + matched > most then
      return nil, "more than " .. most .. " bytes of output", "Overlong", "block", start - 1
    end
    for i = count + 1, count + matched do
      out[i] = out[i - back]
    end
    count = count + matched
  end
  return nil, "a block ends with literals", "Truncated", "token", stop
end
end

-- memory ----------------------------------------------------------------------------------------------

do
-- What holds from a place of the capture on. Packets are read again in any order (a click, a second pass) and must say
-- the same as when they were first read, so nothing is overwritten: what changes is kept with the place where it begins.

local memory = {}
Z.memory = memory

local floor, type = math.floor, type

-- A history: records with `from`, ascending. The oldest may be removed.
function memory.append(history, record)
  local last = history.last + 1
  history.last = last
  history[last] = record
end

function memory.history()
  return { first = 1, last = 0 }
end

function memory.remove_first(history)
  history[history.first] = nil
  history.first = history.first + 1
end

local function from_of(record)
  return type(record) == "string" and tonumber(record:match("^%S+")) or record.from
end

-- Returns the record that holds at a place, and its index; nil if there is none yet.
function memory.at(history, place)
  if not history then
    return nil
  end
  local low, high = history.first, history.last
  local last = history[high]
  if not last or from_of(last) <= place then
    return last, high
  end
  local index
  high = high - 1
  while low <= high do
    local middle = floor((low + high) / 2)
    if from_of(history[middle]) <= place then
      index, low = middle, middle + 1
    else
      high = middle - 1
    end
  end
  return history[index], index
end

-- A ring of records, each in one ring at most.
function memory.ring()
  local ring = {}
  ring.after, ring.before = ring, ring
  return ring
end

function memory.unlink(record)
  record.before.after, record.after.before = record.after, record.before
end

function memory.link(ring, record)
  record.before, record.after = ring.before, ring
  ring.before.after, ring.before = record, record
end

-- A store of records, in histories by group (a table) and name. When they cost more than `most` bytes, those that are
-- over go first, then those that are open, the oldest first; a session that loses an open one is `lossy`.
--
-- What is over is most of it, and is looked at again only when its packets are. With `freeze`, which makes a string of
-- a record that begins with `from` and a space, and `thaw`, which makes a record of the string, it is kept as a string:
-- a quarter of the bytes, and nothing that the collector has to look into.
function memory.store(most, freeze, thaw)
  return {
    most = most, held = 0, forgotten = 0, freeze = freeze, thaw = thaw,
    open = memory.ring(),
    over = { first = 1, last = 0 }, -- group and name of one after another
  }
end

local FROZEN = 200 -- bytes that a string costs besides its own, with its place in the group and among those that are over

local function cost_of(record)
  return type(record) == "string" and FROZEN + #record or record.cost
end

local function forget_first(store, group, name)
  local history = group[name]
  local record = history
  if type(history) ~= "string" then
    record = history[history.first]
    memory.remove_first(history)
  end
  if record == history or history.first > history.last then
    group[name] = nil
  end
  store.held = store.held - cost_of(record)
  store.forgotten = store.forgotten + 1
  return record
end

local function make_room(store)
  local over = store.over
  while store.held > store.most do
    if over.first < over.last then
      forget_first(store, over[over.first], over[over.first + 1])
      over[over.first], over[over.first + 1] = nil, nil
      over.first = over.first + 2
    else
      local record = store.open.after
      memory.unlink(record)
      forget_first(store, record.group, record.name)
      record.gone, record.session.lossy = true, true
    end
  end
end

-- Adds a record that has `from`, `session` and `cost` in bytes.
function memory.keep(store, group, name, record)
  local history = group[name]
  if type(history) ~= "table" then
    history = { first = 1, last = history and 1 or 0, history }
    group[name] = history
  end
  memory.append(history, record)
  record.group, record.name = group, name
  memory.link(store.open, record)
  store.held = store.held + record.cost
  make_room(store)
end

-- Takes note that a record is over, or that one that is has changed. Of one history only the last may be open.
function memory.retire(store, record)
  if record.is_over then
    memory.charge(store, record, 0)
    return
  elseif record.gone then
    return
  end
  record.is_over = true
  memory.unlink(record)
  local group, name, over = record.group, record.name, store.over
  over[over.last + 1], over[over.last + 2] = group, name
  over.last = over.last + 2
  if store.freeze then
    local history, frozen = group[name], store.freeze(record)
    store.held = store.held - record.cost + cost_of(frozen)
    if history.first == history.last then
      group[name] = frozen
    else
      history[history.last] = frozen
    end
  end
end

-- Takes note that every record of a group is over.
function memory.retire_all(store, group)
  for _, history in pairs(group) do
    local record = type(history) == "table" and history[history.last]
    if type(record) == "table" then
      memory.retire(store, record)
    end
  end
end

local function thawed(store, frozen, group, name)
  local record = store.thaw(frozen)
  record.is_over, record.group, record.name = true, group, name
  return record
end

-- Returns the record that holds at a place; nil if there is none yet.
function memory.find(store, group, name, place)
  local history = group[name]
  if type(history) ~= "table" then
    return history and from_of(history) <= place and thawed(store, history, group, name) or nil
  end
  -- Nearly always, and for each message.
  local last = history[history.last]
  if type(last) == "table" and last.from <= place then
    return last
  end
  local found = memory.at(history, place)
  if type(found) == "string" then
    return thawed(store, found, group, name)
  end
  return found
end

-- Takes note that a record has grown by so many bytes, or else changed.
function memory.charge(store, record, cost)
  if record.gone then
    return
  end
  if record.is_over and store.freeze then
    local group, name = record.group, record.name
    local before, index = group[name], nil
    if type(before) == "table" then
      before, index = memory.at(before, record.from)
    end
    if not before or from_of(before) ~= record.from then
      return -- it was forgotten
    end
    local frozen = store.freeze(record)
    store.held = store.held - cost_of(before) + cost_of(frozen)
    if index then
      group[name][index] = frozen
    else
      group[name] = frozen
    end
  else
    record.cost = record.cost + cost
    store.held = store.held + cost
  end
  make_room(store)
end

-- A number as a name in a table: above 2^53 it is no Lua number, and equal ones are different objects.
function memory.name(number)
  if type(number) == "number" then
    return number
  end
  return "u" .. tostring(number)
end

-- Notes by place, as many as `most`; the oldest go.
function memory.notes(most)
  return { most = most, first = 1, last = 0, places = {}, by_place = {} }
end

function memory.note(notes, place, note)
  notes.last = notes.last + 1
  notes.places[notes.last] = place
  notes.by_place[place] = note
  if notes.last - notes.first >= notes.most then
    notes.by_place[notes.places[notes.first]] = nil
    notes.places[notes.first] = nil
    notes.first = notes.first + 1
  end
end
end

-- links -----------------------------------------------------------------------------------------------

do
-- Links: TCP connections, pairs of UDP endpoints, what one endpoint sends to a group. Which end sends; how batches stand
-- in the stream and whether they are compressed, as was negotiated, at each place of the capture.

local memory = Z.memory
local links = {}
Z.links = links

local MOST_LINKS = 16384 -- those that were silent longest are forgotten first
local MOST_SNAPSHOTS = 64 -- changes of one link that are remembered; a handshake makes five
local MAX_UNPACKED = 65535 -- bytes of the largest batch, compressed or not
Z.PLACES = 1048576 -- places of one packet

local MOST_DATAGRAMS = 1024 -- of which it is remembered that they were heard
local SHORT = 1024 -- bytes of one of which all is remembered
local AGAIN = 0.1 -- seconds within which the same one once more was captured twice, or came twice over the network

local byte = string.byte
local offset_of = Tvb.offset

-- Which link a packet belongs to -------------------------------------------------------------------

-- A link is known by its endpoints. That a connection between the same ports is another one is seen by its number;
-- the first of two passes of tshark has no fields, then only a new handshake tells.
local tcp_stream = Field.new("tcp.stream")
local tcp_next = Field.new("tcp.nxtseq")
local tcp_length = Field.new("tcp.len")
local tcp_lost = Field.new("tcp.analysis.lost_segment")
local tcp_ack = Field.new("tcp.ack")
local tls = Field.new("tls")
local FAR = 16777216 -- bytes: what is further ahead is a number that begins anywhere
local PT_TCP, PT_UDP = 2, 3
local SETTLED = { "settled1", "settled2" }

local by_ends, by_stream, ring, count, latest, datagrams

local function forget_all()
  by_ends, by_stream = {}, {}
  ring, count = memory.ring(), 0
  latest = nil
  datagrams = { young = {}, old = {}, count = 0 }
  links.disordered = false
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

-- A protocol may stand in a packet more than once, in a tunnel: the innermost is ours.
local function value(field)
  local info, more = field()
  if more then
    local found = { field() }
    info = found[#found]
  end
  return info and info()
end

local function new_way(link, index)
  return { link = link, index = index, forward = index == 1 }
end

-- Is it the address of a group?
local function is_group(address)
  local text = tostring(address)
  local first = tonumber(text:match("^(%d+)%."))
  return (first ~= nil and first >= 224 and first <= 239) or text:lower():match("^ff%x%x:") ~= nil
end
links.is_group = is_group

-- Was the same datagram heard a moment ago? That is no fault of who sent it.
function links.again(way, raw, time)
  local size = #raw
  local brief = size <= SHORT and raw or raw:sub(1, SHORT / 2) .. raw:sub(-SHORT / 2)
  local name = string.format("%d %d %d ", way.link.from, way.index, size) .. brief
  local before = datagrams.young[name] or datagrams.old[name]
  if not datagrams.young[name] then
    datagrams.count = datagrams.count + 1
    if datagrams.count > MOST_DATAGRAMS then
      datagrams.young, datagrams.old, datagrams.count = {}, datagrams.young, 1
    end
  end
  datagrams.young[name] = time
  return before and math.abs(time - before) <= AGAIN or nil
end

-- What is known of a link of which nothing was heard. Until the handshake tells more, both lengths are thought of: the
-- capture may begin in mid session.
function links.blank(from)
  return { from = from, framing1 = "either", framing2 = "either" }
end

local function new_link(ends, pinfo, stream)
  local link = {
    from = Z.base(pinfo),
    tcp = pinfo.port_type ~= PT_UDP,
    stream = stream,
    ends = ends,
    address = tostring(pinfo.src),
    port = pinfo.src_port,
    one_port = pinfo.src_port == pinfo.dst_port,
    target = tostring(pinfo.dst) .. " " .. tostring(pinfo.dst_port),
  }
  link.multicast = not link.tcp and is_group(pinfo.dst)
  -- Without fields nobody can tell that bytes are missing.
  link.blind = link.tcp and stream == nil
  link.ways = { new_way(link, 1), new_way(link, 2) }
  link.ways[1].opposite, link.ways[2].opposite = link.ways[2], link.ways[1]
  link.snapshots = memory.history()
  memory.append(link.snapshots, links.blank(0))
  return link
end

local function ends_of(pinfo)
  local here = tostring(pinfo.src) .. " " .. tostring(pinfo.src_port)
  local there = tostring(pinfo.dst) .. " " .. tostring(pinfo.dst_port)
  if there < here then
    here, there = there, here
  end
  return tostring(pinfo.port_type) .. " " .. here .. " " .. there
end

local function forget_oldest()
  local oldest = ring.after
  memory.unlink(oldest)
  count = count - 1
  if oldest.stream then
    by_stream[oldest.stream] = nil
  end
  local history = by_ends[oldest.ends]
  if history[history.first] == oldest then
    memory.remove_first(history)
  end
  if history.first > history.last then
    by_ends[oldest.ends] = nil
  end
  links.leave(oldest)
end

local function remember(link)
  local history = by_ends[link.ends] or memory.history()
  by_ends[link.ends] = history
  memory.append(history, link)
  if link.stream then
    by_stream[link.stream] = link
  end
  memory.link(ring, link)
  count, latest = count + 1, link
  if count > MOST_LINKS then
    forget_oldest()
  end
end

-- Returns the link of a packet that was read before; one that was forgotten cannot tell again what it said, nor one that
-- Wireshark did not hand on then, as it finds an upgrade to WebSocket that is out of order in the second pass only.
local function find_again(pinfo)
  local ends = ends_of(pinfo)
  local link = memory.at(by_ends[ends], Z.base(pinfo))
  if not link then
    link = new_link(ends, pinfo, nil)
    link.unheard = true
  end
  return link
end

local function find(pinfo)
  local stream = pinfo.port_type == PT_TCP and value(tcp_stream) or nil
  local link = stream and by_stream[stream]
  if not link then
    local ends = ends_of(pinfo)
    local history = by_ends[ends]
    link = history and history[history.last]
    if not link or link.stream ~= stream then
      link = new_link(ends, pinfo, stream)
      remember(link)
    end
  end
  if latest ~= link then
    memory.unlink(link)
    memory.link(ring, link)
    latest = link
  end
  return link
end

-- Where in its direction the bytes that came begin, captured or not; nil where that cannot be said (reassembled, decrypted).
local function position(tvb)
  local behind = offset_of(tvb) > 0 and not tls() and value(tcp_next)
  return behind and behind - tvb:reported_len()
end

-- Takes note that answers may stand in front of what they answer. Of UDP that shows in handshakes only, so of all such links
-- it is believed as soon as one is like that.
function links.disorder(link)
  link.disordered, links.disordered = true, links.disordered or not link.tcp
end

function links.is_disordered(link)
  return link.disordered or (links.disordered and not link.tcp)
end

-- Were all bytes between two places read before? Where something was lost Wireshark hands on what comes once more.
local function is_repeated(way, at, stop)
  return way.next ~= nil and way.since <= at and stop <= way.next and way.next - at <= FAR
end

-- Takes note of an acknowledgement of what was not captured by then: answers may stand in front of what they answer.
-- A FIN takes a number as well.
local function compare(way)
  local link, other, ack = way.link, way.opposite, value(tcp_ack)
  local ahead = ack and ack - math.max(other.next or 1, other.due or 1) or 0
  if ahead > 1 and ahead <= FAR then
    links.disorder(link)
  end
end

-- Returns the direction in which a packet goes. To be called once for each call of the dissector, with its bytes; without
-- `size` they are not looked at.
function links.of(pinfo, tvb, visited, size)
  local link = visited and find_again(pinfo) or find(pinfo)
  local forward = pinfo.src_port == link.port
  if link.one_port then
    forward = tostring(pinfo.src) == link.address
  end
  local way = link.ways[forward and 1 or 2]
  way.visited = visited
  if size and link.stream and not visited then
    local at = position(tvb)
    if at and is_repeated(way, at, at + tvb:reported_len()) then
      way.repeated = true
    elseif at then
      local due = way.due
      -- What comes first begins at 1, with numbers that begin there.
      if way.next and way.next ~= at or not way.next and at > 1 and at <= FAR then
        links.missed(way, Z.base(pinfo), true)
        -- Inside a batch that has begun, whose length tells where the next one begins?
        local inside = due and way.next < at and at <= due or false
        way.broken, way.passing, way.search = not inside, inside and at < due and due, nil
        way.since = at
      end
      way.since = way.since or at
      way.next, way.due = at, way.passing and due or nil
      if not link.disordered then compare(way) end
    elseif not way.next and not tls() then
      -- Wireshark has put the first bytes in order before it handed them on.
      way.next, way.since = 1, 1
    end
  end
  return way
end

-- Where one end has said OPEN, what the other one says that is no handshake comes behind its own: that was not handed on.
function links.follow(way, place, raw)
  local talk, index = way.link.talk, way.index
  if #raw == 0 or not talk or talk.opened[index] or not talk.opened[3 - index] or links.latest(way.link)[SETTLED[index]] then return end
  local first, second = byte(raw, 1, 2)
  local id = first % 32
  if id ~= 2 and not (id == 1 and second == 9) then links.missed(way, place, true) end
end

local udp_length, ip4_length, ip6_length = Field.new("udp.length"), Field.new("ip.len"), Field.new("ipv6.plen")
local UDP_HEADER, IP_HEADER = 8, 20

-- Do both headers of a datagram say that it is longer than what there is of it?
function links.is_cut(size)
  local said = value(udp_length)
  if not said or said <= UDP_HEADER + size then return false end
  local whole = value(ip6_length)
  if not whole then
    whole = value(ip4_length)
    whole = whole and whole - IP_HEADER
  end
  return whole ~= nil and whole >= said
end

local LONGEST_MASK, LONG_MESSAGE, LONGEST_MESSAGE = 4, 125, 65535

-- Takes note of a message of WebSocket with so many bytes inside, and of holes in front of it. Where it begins is not told,
-- but it ends in the packet at hand: if it cannot reach so far from where the one before it ended, something is missing.
function links.message(way, base, size)
  local link, other = way.link, way.opposite
  link.ahead = nil
  if way.visited or not link.stream then
    return
  end
  local stop, length = value(tcp_next), value(tcp_length)
  if not stop or not length then
    return
  end
  local head = 2 + (size > LONGEST_MESSAGE and 8 or size > LONG_MESSAGE and 2 or 0) + LONGEST_MASK
  local reach = way.reach and way.reach + head + size
  if reach and (reach <= stop - length or (tcp_lost() and way.packet ~= base)) then
    links.missed(way, base, true)
    reach = nil
  end
  way.reach, way.packet = math.min(reach or stop, stop), base
  -- What the other end has of it may be more than was captured by now, or only more than whole messages.
  local ack = value(tcp_ack)
  if ack and other.heard then
    link.ahead = ack > other.heard + 1 and ack - other.heard <= FAR
    if other.has and stop <= other.has then links.disorder(link) end
  end
  way.heard = math.max(way.heard or stop, stop)
  way.has = ack and math.max(way.has or ack, ack)
end

-- What was agreed, by place --------------------------------------------------------------------------

-- What holds on a link: session, flipped, zid1, zid2 (of the sender of each way), framing1, framing2 ("short", "long",
-- "either"), lowlatency, compression (true, false, nil: not known), compressed (seen, not agreed), settled1, settled2
-- (what follows OPEN).
function links.at(link, place)
  return memory.at(link.snapshots, place) or link.snapshots[link.snapshots.first]
end

-- Was something of a session heard on a link, in front of a place?
function links.has_session(way, place)
  return links.at(way.link, place).session ~= nil
end

-- Returns what holds behind all that was read so far.
function links.latest(link)
  return link.snapshots[link.snapshots.last]
end

-- Adds what holds from a place on.
function links.add(link, now)
  local history = link.snapshots
  memory.append(history, now)
  if history.last - history.first >= MOST_SNAPSHOTS then
    memory.remove_first(history)
  end
end

-- Notes what changes from a place on. Only while packets are read for the first time.
function links.change(link, from, values)
  local history = link.snapshots
  local before = history[history.last]
  local now = before
  for name, new in pairs(values) do
    if before[name] ~= new then
      -- (Of what began later already nothing can be taken back.)
      if now == before and before.from < from then
        now = {}
        for known, old in pairs(before) do
          now[known] = old
        end
        now.from = from
        links.add(link, now)
      end
      now[name] = new
    end
  end
  return now
end

-- Framing --------------------------------------------------------------------------------------------

local FRAMINGS = { "framing1", "framing2" }

-- Returns "short", "long" or "either": what is known behind all that was read so far.
function links.framing_of(way)
  return links.latest(way.link)[FRAMINGS[way.index]]
end

-- Takes note that a batch has begun which needs so many bytes.
function links.begun(way, bytes)
  if not way.visited then
    way.due = way.next and way.next + bytes
  end
end

-- Returns the bytes of the length at a place: 2 or 4. `raw` is the stream as a string, the length begins at `at`
-- (from 0); without them the answer is what was agreed.
function links.prefix(way, place, raw, at)
  local framing = links.at(way.link, place)[FRAMINGS[way.index]]
  if framing == "short" then
    return 2
  end
  if not raw then
    return framing == "long" and 4 or 2
  end
  if way.long and not way.visited then
    -- What was found to be a batch may be too long for the other kind.
    way.long = nil
    framing = links.change(way.link, place, { [FRAMINGS[way.index]] = "long" })[FRAMINGS[way.index]]
  end
  local first, second, third, fourth = byte(raw, at + 1, at + 4)
  if framing == "long" then
    -- A CLOSE with a 2-byte length that real nodes write behind the last 4-byte one when they tear a link down. As a
    -- 4-byte length it would be larger than any batch.
    if first == 2 and second == 0 and (third == 3 or third == 0x23) and #raw <= at + 4 then
      return 2
    end
    -- The same where compression was agreed too: with its header byte.
    if first == 3 and second == 0 and third == 0 and (fourth == 3 or fourth == 0x23) and #raw <= at + 5 then
      return 2
    end
    return 4
  end
  -- Two bytes of a 4-byte length are 0, and no message begins with such bytes.
  if not third or third ~= 0 or (fourth or 0) ~= 0 or (first == 0 and second == 0) then
    return 2
  end
  if fourth and not way.visited then
    links.change(way.link, place, { [FRAMINGS[way.index]] = "long" })
  end
  return 4
end

-- Sets the framing that was agreed, from a place on: from OPEN_SYN on already, for nothing comes before OPEN_ACK.
-- `possible`: low latency may be agreed, as far as the handshake was heard.
function links.switch(link, from, possible)
  local now = links.latest(link)
  local changes = {}
  for index = 1, 2 do
    if now[FRAMINGS[index]] ~= "long" then
      local framing = "short"
      if now.lowlatency and now[SETTLED[index]] then
        framing = "long"
      elseif now.lowlatency or (now.lowlatency == nil and possible) then
        -- OPEN, or what else tells, may never come: it need not be in the capture.
        framing = "either"
      end
      changes[FRAMINGS[index]] = framing
    end
  end
  links.change(link, from, changes)
end

-- Compression ----------------------------------------------------------------------------------------

-- Returns what is behind the header byte, or nil and why it cannot be read.
local function unpacked(raw)
  if byte(raw, 1) % 2 == 1 then
    return Z.lz4(raw:sub(2), MAX_UNPACKED)
  end
  return raw:sub(2)
end
links.decompressed = unpacked

-- Tells whether a batch has the header byte of compression, when nobody has said so. As a message such a byte would
-- begin an OAM, which nodes do not send, or INIT, which is no LZ4 block.
local function is_compressed(raw)
  if byte(raw, 1) > 1 then
    return false
  end
  local inside = unpacked(raw)
  return inside ~= nil and Z.strict(inside, "batch")
end

-- Tells whether a datagram is a CLOSE and nothing else, with a header byte of compression or without.
local function closes(raw)
  return raw:find("^%z?[\3\35].$") ~= nil
end

-- Returns a batch without what compression puts in front, or nil and why that cannot be done, as `Z.lz4` does. Its length
-- has `prefix` bytes: how many are agreed from its place on may be known since they were read.
function links.unpack(way, place, raw, prefix)
  local link = way.link
  if way.next and not way.visited then
    way.next = way.next + prefix + #raw
  end
  -- A byte that is no header is how the CLOSE of a handshake that failed begins.
  if #raw == 0 or byte(raw, 1) > 1 then
    return raw
  end
  local now = links.at(link, place)
  if link.talk and link.talk.over and not way.visited and not closes(raw) then
    now = {} -- another session begins
  end
  local packed
  if now.compression == nil or link.multicast then
    if not way.visited and now.compression == nil and not now.compressed and is_compressed(raw) then
      now = links.change(link, place, { compressed = true })
    end
    packed = now.compressed or (link.unheard and is_compressed(raw))
  else
    -- On UDP nothing tells that OPEN was lost.
    local settled = now[SETTLED[way.index]] or (not link.tcp and is_compressed(raw))
    -- In low latency nothing has it but the CLOSE that `links.prefix` knows.
    packed = now.compression and settled and (not now.lowlatency or closes(raw))
  end
  if not packed then
    return raw
  end
  local inside, why, kind, field, at = unpacked(raw)
  if not inside then
    links.doubt(way, place)
  end
  return inside, why, kind, field, at
end

-- Takes note that something a direction said before a place could not be read, or is not in the capture.
function links.doubt(way, place)
  if not way.visited then
    links.missed(way, place, false)
  end
end

-- (`links.missed` and `links.leave` are in `conversation`, which knows what they mean.)
end

-- looks -----------------------------------------------------------------------------------------------

do
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
end

-- websocket -------------------------------------------------------------------------------------------

do
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
end

-- seek ------------------------------------------------------------------------------------------------

do
-- Finds the place in a stream where batches begin, when its start or a piece of it is not in the capture. The same as
-- `resync.py`, step by step: what is changed here has to be changed there, which also says why it is so.

local byte, sub, floor = string.byte, string.sub, math.floor
local looks = Z.looks
local seek = {}
Z.seek = seek

-- How much evidence is enough, in bits.
seek.EXPECTED = { bits = 28, content = 8, whole_bits = 24, whole_content = 3 }
seek.KNOWN = { bits = 18, content = 3, whole_bits = 24, whole_content = 3 }
seek.MOST_PACKETS = 2048 -- that are looked through
seek.MOST = 262144 -- bytes of a batch that is waited for, and of a direction that are looked through

local PLENTY = 64 -- bits of evidence until which a chain is followed
local TRIFLE = 3 -- bytes of KEEP_ALIVE and CLOSE, which prove nothing
local ASKED = 4096 -- bytes more than there are that may be asked about
local UNPACKED = 524288 -- bytes more than there are that batches may unpack to
local MAX_BATCH = 65535 -- bytes that one may
local WORK = 1 -- batches that are looked at for each byte
local PATIENCE = 256 -- chains that may be refused
local BOUNDARY = 6 -- bits, for a chain that begins with a packet
local AHEAD = 20 -- bytes at the end in which places may show themselves later
local LENGTH_BITS = { [2] = 16, [4] = 32, ws = 20 }

-- A heap of pairs: how many bytes have to be there, and which chain waits for them.

local function before(one, other)
  return one[1] < other[1] or (one[1] == other[1] and one[2] < other[2])
end

local function push(heap, entry)
  local at = #heap + 1
  heap[at] = entry
  while at > 1 do
    local above = floor(at / 2)
    if not before(entry, heap[above]) then break end
    heap[at], heap[above], at = heap[above], entry, above
  end
end

local function pop(heap)
  local top, last = heap[1], heap[#heap]
  heap[#heap] = nil
  local size, at = #heap, 1
  if size == 0 then return top end
  heap[1] = last
  while true do
    local below = 2 * at
    if below > size then break end
    if below < size and before(heap[below + 1], heap[below]) then below = below + 1 end
    if not before(heap[below], last) then break end
    heap[at], heap[below], at = heap[below], last, below
  end
  return top
end

local function bit_length(number)
  local bits = 0
  while number >= 1 do
    number, bits = number / 2, bits + 1
  end
  return bits
end

-- Chains -------------------------------------------------------------------------------------------

-- Takes note of the head of the batch that a chain goes on with.
local function meet(chain, head, size)
  chain.head, chain.counted = head, false
  if size > chain.longest then chain.longest = size end
  local lane, sn = head.lane, head.sn
  if not sn then return end
  local last = chain.numbers[lane]
  if last and (sn - last == 1 or sn - last == 2) then
    local bits = head.bits + head.sn_bits
    chain.content, chain.bits = chain.content + bits, chain.bits + bits
    chain.counted, chain.telling = true, true
  end
  chain.numbers[lane] = sn
end

-- Goes on behind the batch whose head was met.
local function complete(chain, behind, length_bits)
  local head = chain.head
  if not chain.counted then chain.content, chain.bits = chain.content + head.bits, chain.bits + head.bits end
  if not head.fragment then chain.telling = true end
  chain.bits, chain.next, chain.head = chain.bits + length_bits, behind, nil
end

-- Does a packet begin at a place?
local function begins(search, at)
  return at == 0 or search.boundaries[at] ~= nil
end

local function is_enough(search, chain)
  local proof = search.proof
  return chain.next > chain.at and chain.bits >= proof.bits and chain.content >= proof.content and chain.longest > TRIFLE
    and (chain.telling or (chain.begins and search.boundaries[chain.next] ~= nil))
end

local function is_whole(search, chain, raw)
  local proof = search.proof
  return chain.begins and chain.next == #raw and chain.bits >= proof.whole_bits and chain.content >= proof.whole_content
    -- Who only listens says nothing but KEEP_ALIVE, and CLOSE.
    and (chain.longest > TRIFLE or chain.at == 0)
end

-- Judges the head of a batch, which is behind a mask in WebSocket.
local function head_of(raw, start, stop, size, mask)
  if mask then raw, start, stop = mask(sub(raw, start + 1, stop), 0), 0, stop - start end
  local bits, lane, sn, sn_bits, fragment, opens = looks.at(raw, start, stop, size)
  return bits > 0 and { bits = bits, lane = lane, sn = sn, sn_bits = sn_bits, fragment = fragment, opens = opens } or nil
end

-- Goes from batch to batch until one is not complete, or the chain breaks or is good enough.
local function follow(search, chain, raw)
  local there, place = #raw, looks.place[search.framing]
  while chain.bits < PLENTY or not is_enough(search, chain) do
    if search.steps > WORK * there + ASKED then return end
    search.steps = search.steps + 1
    local need = chain.next + 1
    local start, behind, mask = place(raw, chain.next)
    if start == false then return end
    if start then
      local size = behind - start
      if size == 0 or size > seek.MOST then return end
      need = behind
      if not chain.head then
        need = start + math.min(looks.HEAD, size)
        local head = head_of(raw, start, math.min(need, there), size, mask)
        if need <= there or (head and not head.opens) then
          if not head or (head.opens and not begins(search, chain.next)) then return end
          meet(chain, head, size)
          need = behind
        end
      end
    end
    if not start or need > there then
      push(search.waiting, { math.max(need, there + 1), chain.at })
      search.chains[chain.at] = chain
      break
    end
    -- How many places of this kind there are that the length could have led to by chance.
    local targets = search.boundaries[behind] and search.packets or there
    complete(chain, behind, math.max(search.length_bits - bit_length(targets), 0))
    if not chain.proved and is_enough(search, chain) then chain.proved = behind end
    search.passed[behind] = true
  end
  if chain.bits > PLENTY then chain.bits = PLENTY end
  if is_enough(search, chain) or is_whole(search, chain, raw) then search.good[#search.good + 1] = chain end
end

local function start_at(search, at, raw)
  local first = begins(search, at)
  follow(search, {
    at = at, next = at, begins = first, bits = first and BOUNDARY or 0, content = 0, longest = 0, numbers = {},
    telling = false, counted = false, head = nil,
  }, raw)
end

-- Does strict decoding take it, compressed or not?
function seek.is_batch(raw)
  if Z.strict(raw, "batch") then return true end
  local inside = byte(raw, 1) <= 1 and Z.links.decompressed(raw)
  return inside and Z.strict(inside, "batch") or false
end

local is_batch = seek.is_batch

-- Returns where the first batch of a chain ends that is not plausible, or may not be asked about any more.
local function refused(search, chain, raw)
  local at, place = chain.at, looks.place[search.framing]
  while at < (chain.proved or chain.next) do -- what comes behind may be refused for its own sake
    local start, behind, mask = place(raw, at)
    at = behind
    local batch = sub(raw, start + 1, behind)
    batch = mask and mask(batch, 0) or batch
    search.asked = search.asked + #batch
    if byte(batch, 1) == 1 then search.unpacked = search.unpacked + Z.lz4_weight(sub(batch, 2), MAX_BATCH) end
    if search.asked > #raw + ASKED or search.unpacked > #raw + UNPACKED or not is_batch(batch) then return at end
  end
end

-- A search in a buffer that grows at its end; `framing`: bytes of the lengths; `ends`: where packets ended in it so far.
function seek.new(framing, proof, ends)
  local boundaries = {}
  for _, place in ipairs(ends) do boundaries[place] = true end
  return {
    framing = framing, proof = proof, length_bits = LENGTH_BITS[framing], boundaries = boundaries, packets = #ends, tried = 0,
    passed = {}, again = {}, asked = 0, unpacked = 0, steps = 0, refusals = 0, waiting = {}, chains = {}, good = {},
  }
end

-- Looks at what is new: returns where the first batch begins, and the evidence for that; nil as long as there is not enough.
function seek.look(search, raw)
  search.packets = search.packets + 1
  search.boundaries[#raw] = true
  if search.refusals > PATIENCE then return nil end
  local waiting, chains = search.waiting, search.chains
  while waiting[1] and waiting[1][1] <= #raw do
    local at = pop(waiting)[2]
    local chain = chains[at]
    chains[at] = nil
    if chain then follow(search, chain, raw) end
  end
  local passed = search.passed
  looks.candidates(raw, search.framing, search.tried, function(at)
    if not passed[at] then
      passed[at] = true
      start_at(search, at, raw)
    end
  end)
  search.tried = math.max(search.tried, #raw - AHEAD)
  local best
  local good, index = search.good, 1
  while good[index] do -- grows
    local chain = good[index]
    if not best or chain.bits > best.bits or (chain.bits == best.bits and chain.at < best.at) then
      local behind = refused(search, chain, raw)
      if not behind then
        best = chain
      else
        search.refusals = search.refusals + 1
        chains[chain.at] = nil
        if not search.again[behind] and not chains[behind] and search.refusals <= PATIENCE then
          search.again[behind] = true
          start_at(search, behind, raw)
        end
      end
    end
    index = index + 1
  end
  search.good = {}
  if best then return best.at, best.bits end
end
end

-- sync ------------------------------------------------------------------------------------------------

do
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
end

-- lanes -----------------------------------------------------------------------------------------------

do
-- Sequence numbers of one sender: a count for each lane (priority and reliability), modulo the resolution.
-- Spec: Sequence Numbers. Only while packets are read for the first time; what is wrong is remembered by place.

local lanes = {}
Z.lanes = lanes

local MASKS = { [0] = 127, [1] = 16383, [2] = 268435455 } -- nodes use what 1, 2 and 4 VLE bytes hold
local LARGE = 4294967295 -- where nodes begin again when 64 bits are agreed, and they count with 32
local REORDER = 64 -- sequence numbers by which the links of one session may overtake each other

-- Returns the largest number of a resolution; "large" for 64 bits, which nodes fill in different ways.
function lanes.mask(resolution)
  return MASKS[resolution] or "large"
end

-- May a number come right after another? When the resolution is not known, each one is thought of.
local function follows(sn, before, mask)
  if mask and mask ~= "large" then
    return sn == (before + 1) % (mask + 1)
  end
  if sn == before + 1 then
    return true
  end
  if sn ~= 0 then
    return false
  end
  return before == LARGE or (not mask and (before == MASKS[0] or before == MASKS[1] or before == MASKS[2]))
end
lanes.follows = follows

local function follows_next(sn, before, mask)
  local skipped = before + 1
  if mask and mask ~= "large" then
    return sn == (before + 2) % (mask + 1)
  end
  return follows(sn, skipped, mask) or (follows(0, before, mask) and sn == 1)
end
lanes.follows_next = follows_next

-- How far a number is ahead of another, and behind it: one of them is nil.
local function distance(sn, before, mask)
  if mask and mask ~= "large" then
    local step = (sn - before) % (mask + 1)
    if step <= (mask - 1) / 2 then
      return step
    end
    return nil, mask + 1 - step
  end
  if sn >= before then
    return sn - before
  end
  return nil, before - sn
end

function lanes.numbers()
  return { epoch = 0, first_epoch = 0, positions = {} }
end

-- Notes which number each lane begins with, said by OPEN (one for all) or JOIN (by lane).
function lanes.start(numbers, default, by_lane)
  numbers.default, numbers.first, numbers.first_epoch = default, by_lane, numbers.epoch
end

-- Notes that messages were not seen: the next number of every lane is taken as it is.
function lanes.doubt(numbers)
  numbers.epoch = numbers.epoch + 1
end

-- Is a number that with which a lane begins, and was nothing in front of it not seen?
function lanes.is_first(numbers, lane, sn)
  return numbers.first_epoch == numbers.epoch and sn ~= nil and sn == (numbers.first and numbers.first[lane] or numbers.default)
end

-- Did a lane have a number already, or leave it behind?
function lanes.was_there(numbers, lane, sn)
  local at = numbers.positions[lane]
  return at ~= nil and not at.missing[sn] and not follows(sn, at.last, numbers.mask)
end

function lanes.name(lane)
  local priority = (lane - lane % 2) / 2
  return tostring(Z.enums.Priority[priority] or priority) .. (lane % 2 == 1 and " reliable" or " best effort")
end

local function missing(lane, count, before, sn)
  local kind = lane % 2 == 1 and "gap" or "loss"
  return kind, string.format("%.0f sequence numbers missing between %.0f and %.0f on %s", count, before, sn,
    lanes.name(lane))
end

-- Returns where a lane stands before its first number: unknown, unless its start was seen.
local function begin(numbers, lane, sn)
  local first = numbers.first and numbers.first[lane] or numbers.default
  local mask = numbers.mask
  local known = first and mask and numbers.first_epoch == numbers.epoch and type(first) == "number"
  local at = { last = sn, epoch = -1, ends = true, begins = true, missing = {}, count = 0 }
  if known then
    at.epoch = numbers.epoch
    at.last = first - 1
    if first == 0 then
      at.last = mask == "large" and LARGE or mask
    end
  end
  numbers.positions[lane] = at
  return at
end

-- Tells of numbers that are still missing although the lane went on by more than the reordering there can be.
local function overdue(lane, at, mask)
  local late, first = 0, nil
  for sn in pairs(at.missing) do
    local ahead = distance(at.last, sn, mask)
    if not ahead or ahead > REORDER then
      late = late + 1
      if not first or (distance(first, sn, mask) or 0) > 0 then
        first = sn
      end
      at.missing[sn] = nil
      at.count = at.count - 1
    end
  end
  if late > 0 then
    return true, missing(lane, late, first - 1, at.last)
  end
  return true
end

local function jump(numbers, lane, at, sn, reorder)
  local mask = numbers.mask
  local ahead, behind = distance(sn, at.last, mask)
  if ahead == 0 then
    return false, "duplicate", string.format("sequence number %.0f again on %s", sn, lanes.name(lane))
  end
  if ahead then
    local before = at.last
    at.last = sn
    if not reorder or ahead > REORDER then
      return true, missing(lane, ahead - 1, before, sn)
    end
    for past = 1, ahead - 1 do
      local skipped = before + past
      if mask and mask ~= "large" then
        skipped = skipped % (mask + 1)
      end
      if not at.missing[skipped] then
        at.missing[skipped] = true
        at.count = at.count + 1
      end
    end
    return overdue(lane, at, mask)
  end
  if at.missing[sn] then
    at.missing[sn] = nil
    at.count = at.count - 1
    return true
  end
  if not mask and behind > 63 then
    -- So far back only if a small resolution wrapped where nobody saw it.
    at.last = sn
    return true
  end
  return false, "old", string.format("sequence number %.0f behind %.0f on %s", sn, at.last, lanes.name(lane))
end

-- Judges the number of the next FRAME or FRAGMENT of a lane.
--   fragment: a piece of a message; begins, ends: it says that it begins with one, it ends with one or gives one up
--   reorder: messages may overtake each other unharmed, on several links
--   lossy: messages may be lost on the way; inside: it says that it does not begin with one
-- Returns whether receivers take it, and what is wrong: the kind of remark and its text.
function lanes.take(numbers, lane, sn, fragment, begins, ends, reorder, lossy, inside)
  local mask = numbers.mask
  if mask and mask ~= "large" and (type(sn) ~= "number" or sn > mask) then
    return false, "range", "sequence number " .. tostring(sn) .. ", the agreed resolution ends at " .. mask
  end
  if type(sn) ~= "number" then
    -- Above 2^53: only a resolution of 64 bits has such numbers, and they are not counted here.
    numbers.positions[lane] = nil
    numbers.default, numbers.first = nil, nil
    return true
  end
  local at = numbers.positions[lane] or begin(numbers, lane, sn)
  local was_fragment, was_end = at.fragment, at.ends
  at.fragment, at.begins, at.ends = fragment, begins, ends
  if at.epoch ~= numbers.epoch then
    at.last, at.epoch = sn, numbers.epoch
    at.missing, at.count = {}, 0
    return true
  end
  -- Real nodes take one number more than they send for a message in fragments, finished or given up.
  local in_vain
  if lossy then
    -- Where a message in fragments has to begin or to end, and does not, that was lost.
    in_vain = was_fragment and was_end and not inside
  else
    in_vain = was_fragment and (was_end or begins)
  end
  if follows(sn, at.last, mask) or (in_vain and follows_next(sn, at.last, mask)) then
    if sn == 0 and not mask and at.last > 0 then
      -- It wrapped, which tells the resolution.
      numbers.mask = at.last <= MASKS[0] and MASKS[0] or at.last <= MASKS[1] and MASKS[1]
        or at.last <= MASKS[2] and MASKS[2] or "large"
    end
    at.last = sn
    if at.count > 0 then
      return overdue(lane, at, numbers.mask)
    end
    return true
  end
  return jump(numbers, lane, at, sn, reorder)
end
end

-- fragments -------------------------------------------------------------------------------------------

do
-- FRAGMENTs back into messages, one chain a lane, within bounds. Spec: Fragmentation.

local memory, lanes = Z.memory, Z.lanes
local fragments = {}
Z.fragments = fragments

local MIB = 1048576
local LONGEST = 64 * MIB -- bytes of one message; nodes permit 1 GiB
local MOST = 128 * MIB -- bytes of all unfinished messages
-- Bytes of finished messages that are kept for when their packets are read again: in a window in any order, elsewhere
-- never or in order, so that they can be put together again.
local MOST_KEPT = (gui_enabled() and 64 or 8) * MIB
local MOST_CHAINS = 32 * MIB -- bytes of what is known of chains besides
local PIECE = 64 -- bytes that a piece costs besides its data: an empty one is not free
local CHAIN = 512

local open, held, chains, kept, anew

local function forget_all()
  open, held = memory.ring(), 0
  chains = memory.store(MOST_CHAINS)
  kept = { ring = memory.ring(), held = 0 }
  anew = { ring = memory.ring(), held = 0 }
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

-- Ends a chain; what it was to be put together from is let go.
local function close(chain, place)
  memory.unlink(chain.open)
  held = held - chain.held
  chain.to, chain.parts, chain.lane.chain = place, nil, nil
  memory.retire(chains, chain)
end

local function keep(chain, data)
  chain.data = data
  chain.kept = { chain = chain }
  memory.link(kept.ring, chain.kept)
  kept.held = kept.held + #data
  while kept.held > MOST_KEPT do
    local oldest = kept.ring.after.chain
    memory.unlink(oldest.kept)
    kept.held = kept.held - #oldest.data
    oldest.data, oldest.kept = nil, nil
  end
end

local function begin(lane, session, place, packet)
  local chain = {
    from = place, session = session, cost = CHAIN, lane = lane,
    first = packet, packets = {}, parts = {}, held = 0, size = 0,
  }
  chain.open = { chain = chain }
  memory.link(open, chain.open)
  lane.chain = chain
  memory.keep(chains, lane, "chains", chain)
  return chain
end

local function lost(lane, place, why)
  local count, missed = #lane.chain.packets, lane.chain.missed
  close(lane.chain, place - 1)
  return not missed and string.format("a message of %d fragments is lost: %s", count, why)
end

-- Takes note that something was not captured: messages that have begun may lack what is there.
function fragments.miss(party)
  for _, lane in pairs(party.lanes) do
    if lane.chain then lane.chain.missed = true end
  end
end

-- Takes note of a FRAME on a lane: returns a remark when an unfinished message there is lost.
function fragments.interrupt(lane, sn, place)
  local why = lane.chain and lost(lane, place, "a FRAME of the same lane")
  lane.ended, lane.in_fragments = sn, false
  return why
end

local function broken_by(lane, m, first, patch, mask)
  local chain = lane.chain
  if not chain then
    return nil
  elseif first and patch ~= 0 then
    return "a new one begins"
  elseif not lanes.follows(m.sn, chain.last, mask) then
    return string.format("sequence number %s after %s", tostring(m.sn), tostring(chain.last))
  elseif patch and patch > 0 and chain.size == 0 then
    -- As real nodes do: a first fragment without a byte does not count as one.
    return "its first fragment is empty"
  end
end

-- May a fragment that does not say so begin a message?
local function may_begin(lane, sn, mask, opens)
  if lane.ended == nil then
    return opens
  end
  -- Real nodes take one number more than they send for a message in fragments.
  return lanes.follows(sn, lane.ended, mask) or (lane.in_fragments and lanes.follows_next(sn, lane.ended, mask))
end

local function finish(lane, sn)
  lane.ended, lane.in_fragments = sn, true
end

-- Takes the next fragment of a lane, when it is read for the first time.
--   patch: agreed version; below 1 First and Drop do not count, when nil they count where they stand
--   complete: all of the sender was heard so far, so the beginning of the message as well
--   opens: it is the first on its lane that its sender has said
-- Returns the bytes of the message when it is complete; a remark about fragments that make none and its kind.
function fragments.take(lane, session, m, place, packet, patch, mask, complete, opens)
  local sn, more = m.sn, m.M == 1
  if type(sn) ~= "number" then
    return nil
  end
  local marks = patch == nil or patch >= 1
  local first, drop = m.ext ~= nil and m.ext.first ~= nil, m.ext ~= nil and m.ext.drop ~= nil
  local why = broken_by(lane, m, first, patch, mask)
  local remark = why and lost(lane, place, why)
  if marks and drop then
    -- The sender gave it up. To say so is its duty, no fault.
    if lane.chain then
      close(lane.chain, place)
    end
    finish(lane, sn)
    return nil, remark, "fragment"
  end
  local chain = lane.chain
  if not chain then
    local named = marks and first
    if not named and ((patch or 0) > 0 or not may_begin(lane, sn, mask, opens)) then
      -- Can nothing be between it and what ended?
      local sure = complete or (lane.ended ~= nil and lanes.follows(sn, lane.ended, mask))
      if not more then
        finish(lane, sn)
      end
      return nil, remark or (sure and "a fragment of a message that never began" or nil), "fragment"
    end
    chain = begin(lane, session, place, packet)
  end
  local data = m.data or ""
  chain.last, chain.size = sn, chain.size + #data
  chain.parts[#chain.parts + 1] = data
  chain.packets[#chain.packets + 1] = packet
  chain.held = chain.held + #data + PIECE
  held = held + #data + PIECE
  memory.charge(chains, chain, 16)
  if chain.held > LONGEST then
    close(chain, place)
    return nil, string.format("a message of more than %d bytes is thrown away", LONGEST), "limit"
  end
  while held > MOST do
    local oldest = open.after.chain
    close(oldest, place)
  end
  if more then
    return nil, remark, "fragment"
  end
  local whole = table.concat(chain.parts)
  chain.complete = packet
  close(chain, place)
  finish(lane, sn)
  keep(chain, whole)
  return whole, remark, "fragment"
end

local function give_up(again)
  memory.unlink(again)
  anew.held = anew.held - again.held
  again.chain.again = nil
end

-- Takes a fragment of a finished message that is not kept any more, when it is read again: all of them, one after the
-- other as in a second pass, make it once more.
function fragments.again(chain, place, data)
  local again = chain.again
  if place == chain.from then
    if again then
      give_up(again)
    end
    again = { chain = chain, held = 0 }
    memory.link(anew.ring, again)
    chain.again = again
  elseif not again or place <= again.place then
    return
  end
  again.place = place
  again[#again + 1] = data
  again.held, anew.held = again.held + #data + PIECE, anew.held + #data + PIECE
  if place == chain.to then
    local whole = #again == #chain.packets and table.concat(again)
    give_up(again)
    if whole then
      keep(chain, whole)
    end
  end
  while anew.held > MOST do
    give_up(anew.ring.after)
  end
end

-- Returns the chain that a fragment of a lane belongs to.
function fragments.at(lane, place)
  local chain = memory.at(lane.chains, place)
  if chain and (not chain.to or place <= chain.to) then
    return chain
  end
end
end

-- exchanges -------------------------------------------------------------------------------------------

do
-- What belongs together: aliases and their keys, requests and responses, declarations, interests.

local memory = Z.memory

local concat, format, gmatch, match, rep = table.concat, string.format, string.gmatch, string.match, string.rep

local MIB = 1048576
local MOST_ALIASES = 64 * MIB -- bytes
local MOST_EXCHANGES = 64 * MIB -- bytes
local RECORD = 1024 -- bytes that a record costs besides its key while it is open
local ANSWER = 16
local MOST_ANSWERS = 64 -- answers that one exchange lists
local LONGEST = 65536 -- bytes of a key; a longer one cannot be said without an alias

-- What is over ---------------------------------------------------------------------------------------

-- Returns functions that make a string of a record and a record of the string: numbers by name, `from` the first of
-- them, the packets it lists, its key.
local function strings(names)
  local pattern = "^" .. rep("(%S+) ", #names) .. "(%S*) (.?)(.*)$"
  local function freeze(record)
    local parts = {}
    for index = 1, #names do
      local value = record[names[index]]
      parts[index] = value and format("%.17g", value) or "-"
    end
    parts[#names + 1] = concat(record, ",")
    parts[#names + 2] = record.keyexpr and "=" .. record.keyexpr or ""
    return concat(parts, " ")
  end
  local function thaw(text)
    local parts, record = { match(text, pattern) }, {}
    for index = 1, #names do
      record[names[index]] = tonumber(parts[index])
    end
    for packet in gmatch(parts[#names + 1], "[^,]+") do
      record[#record + 1] = tonumber(packet)
    end
    record.keyexpr = parts[#names + 2] == "=" and parts[#names + 3] or nil
    return record
  end
  return freeze, thaw
end

-- Aliases --------------------------------------------------------------------------------------------

local aliases = {}
Z.aliases = aliases
local known_aliases, known_exchanges

local function forget_all()
  known_aliases = memory.store(MOST_ALIASES, strings({ "from", "to" }))
  known_exchanges = memory.store(MOST_EXCHANGES,
    strings({ "from", "to", "asked", "asked_time", "ended", "complete", "answered", "budget", "timeout" }))
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

-- Takes D_KEYEXPR of one end. An alias that is in use stays as it is, as in real nodes: then returns a remark. With `lossy`
-- what took it back may not have been heard.
function aliases.declare(session, side, number, key, place, lossy)
  local known = memory.find(known_aliases, session.aliases[side], number, place)
  if known and not known.to then
    if known.keyexpr == key then return nil end
    if not lossy then
      return string.format("alias %d is in use for %q, which stays", number, known.keyexpr)
    end
  end
  memory.keep(known_aliases, session.aliases[side], number,
    { from = place + 1, keyexpr = key, session = session, cost = RECORD + #key })
end

-- Takes U_KEYEXPR of one end. The other end may have used the alias in messages that are under way.
function aliases.undeclare(session, side, number, place)
  local known = memory.find(known_aliases, session.aliases[side], number, place)
  if known and not known.to then
    known.to = place
    memory.retire(known_aliases, known)
  end
end

-- Returns the key an alias stands for at a place; for its owner only until it is taken back.
local function key_of(session, owner, number, place, own)
  local known = memory.find(known_aliases, session.aliases[owner], number, place)
  if known and not (own and known.to and known.to < place) then
    return known.keyexpr
  end
end

-- Returns the key that is taken back at a place.
function aliases.taken_back(session, side, number, place)
  return key_of(session, side, number, place, true)
end

-- Returns the full key that one end means, or nil and whether the alias is not known (else the key is too long).
function aliases.resolve(session, side, scope, suffix, own, place)
  if scope == 0 then
    return suffix
  end
  local key = key_of(session, own and side or 1 - side, scope, place, own)
  if not key then
    return nil, true
  end
  if #key + #suffix > LONGEST then
    return nil, false
  end
  return key .. suffix
end

-- Takes note that a session has ended. What its ends have left open is over, though messages may be under way.
function aliases.leave(session)
  memory.retire_all(known_aliases, session.aliases[0])
  memory.retire_all(known_aliases, session.aliases[1])
end

-- Exchanges ------------------------------------------------------------------------------------------

local exchanges = {}
Z.exchanges = exchanges

-- What is open of one kind, of one end.
function exchanges.room()
  return { [0] = {}, [1] = {} }
end

local function of_kind(room, owner, kind)
  local mine = room[owner]
  if not mine then
    mine = {}
    room[owner] = mine
  end
  local group = mine[kind]
  if not group then
    group = {}
    mine[kind] = group
  end
  return group
end

-- Opens an exchange: a table that lists the packets of its first answers. Returns
-- the one that was open under the same name and is now replaced.
function exchanges.begin(room, owner, kind, name, exchange)
  local group = of_kind(room, owner, kind)
  local before = memory.find(known_exchanges, group, name, exchange.from)
  if before and before.to then
    before = nil
  end
  if before then
    memory.retire(known_exchanges, before)
  end
  exchange.cost = RECORD + #(exchange.keyexpr or "")
  exchange.answered = 0
  memory.keep(known_exchanges, group, name, exchange)
  return before
end

-- Returns what was last opened under a name at or before a place, and whether it is still open there.
function exchanges.find(room, owner, kind, name, place)
  local mine = room[owner]
  local found = mine and mine[kind] and memory.find(known_exchanges, mine[kind], name, place)
  return found, found ~= nil and (found.to == nil or place <= found.to)
end

function exchanges.answer(exchange, packet)
  exchange.answered = exchange.answered + 1
  local count, cost = #exchange, 0
  if count < MOST_ANSWERS and exchange[count] ~= packet then
    exchange[count + 1] = packet
    cost = ANSWER
  end
  memory.charge(known_exchanges, exchange, cost)
end

-- Takes note that the session of a room has ended. What it was interested in stays at hand: of that more is known than is
-- kept of what is over.
function exchanges.leave(room)
  for _, mine in pairs(room) do
    for kind, group in pairs(mine) do
      if kind ~= "interest" then
        memory.retire_all(known_exchanges, group)
      end
    end
  end
end

-- Ends an exchange: at later places it is not open.
function exchanges.finish(exchange, place, packet)
  exchange.to, exchange.ended = place, packet
  memory.retire(known_exchanges, exchange)
end
end

-- scouts ----------------------------------------------------------------------------------------------

do
-- SCOUT, and the HELLOs that answer it. Spec: Scouting.

local memory = Z.memory

local MOST = 4194304 -- bytes
local RECORD = 512
local MOST_ANSWERS = 64

local scouts, endpoints

local function forget_all()
  scouts, endpoints = memory.store(MOST), {}
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

local FIELDS = {
  scout_in = Z.field("scout_in", "framenum", "Answer to the SCOUT in", base.NONE, frametype and frametype.REQUEST),
  hello_in = Z.field("hello_in", "framenum", "Answered by the HELLO in", base.NONE, frametype and frametype.RESPONSE),
}

local function endpoint(address, port)
  return tostring(address) .. " " .. tostring(port)
end

-- Tells whether a datagram goes where a SCOUT came from; of a group anybody may answer.
local function scouted(pinfo, place)
  local scout = memory.at(endpoints[endpoint(pinfo.dst, pinfo.dst_port)], place)
  if scout and (scout.group_asked or scout.asked == tostring(pinfo.src)) then
    return scout
  end
end

function Z.links.scouted(pinfo)
  return scouted(pinfo, Z.base(pinfo) + Z.PLACES) ~= nil
end

-- Hears a SCOUT or HELLO.
function Z.hear_scouting(b, m)
  local pinfo, place = b.pinfo, b.place
  if m.refused then
    return
  end
  m.srczid = m.zid
  if m.name == "scout" then
    local name = endpoint(pinfo.src, pinfo.src_port)
    if not b.visited then
      memory.keep(scouts, endpoints, name, {
        from = place, packet = b.number, zid = m.zid, asked = tostring(pinfo.dst), answers = {},
        group_asked = Z.links.is_group(pinfo.dst), session = {}, cost = RECORD,
      })
      return
    end
    local scout = memory.at(endpoints[name], place)
    if scout and scout.from == place and m.item then
      m.exchange = scout
      for _, packet in ipairs(scout.answers) do
        m.item:add(FIELDS.hello_in, packet):set_generated()
      end
    end
  elseif m.name == "hello" then
    local scout = scouted(pinfo, place)
    if scout then
      m.dstzid, m.exchange = scout.zid, scout
      if not b.visited and #scout.answers < MOST_ANSWERS then
        scout.answers[#scout.answers + 1] = b.number
      end
      if m.item then
        m.item:add(FIELDS.scout_in, scout.packet):set_generated()
      end
    end
  end
end
end

-- conversation ----------------------------------------------------------------------------------------

do
-- What a passive reader remembers: who speaks, what was agreed, what keys are meant, what belongs together.
-- Each message is heard once for good, when its packet is read for the first time; whenever it is read again, what is
-- said of it is looked up by its place.

-- As functions: looking up a method of an item takes as long as adding a field.
local add, set_generated = TreeItem.add, TreeItem.set_generated
local wanted = Z.wanted

local memory, links, lanes, fragments = Z.memory, Z.links, Z.lanes, Z.fragments
local aliases, exchanges = Z.aliases, Z.exchanges

local MOST_NOTES = 65536 -- remarks and other things that are kept by place
local DATA = 5 -- the priority of a lane without QoS
local BITS_32 = 2 -- the resolution when nothing else is said
local FINAL = 0 -- INTEREST: the mode that ends one
local VERSION = 9
local NETWORK_IDS = 0x19 -- the first one
local SHORTEST_LEASE = 1

local floor = math.floor

-- What Wireshark shows -------------------------------------------------------------------------------

local links_of = frametype or {}
local FIELDS = {
  keyexpr = Z.field("keyexpr", "string", "Key expression"),
  srczid = Z.field("srczid", "string", "Source ZenohID"),
  dstzid = Z.field("dstzid", "string", "Destination ZenohID"),
  reliability = Z.field("reliability", "uint8", "Reliability", base.DEC, { [0] = "best effort", [1] = "reliable" }),
  priority = Z.field("priority", "uint8", "Priority", base.DEC, Z.enums.Priority),
  request_in = Z.field("request_in", "framenum", "Request in", base.NONE, links_of.REQUEST),
  response_in = Z.field("response_in", "framenum", "Response in", base.NONE, links_of.RESPONSE),
  final_in = Z.field("final_in", "framenum", "Last response in", base.NONE, links_of.RESPONSE),
  response_time = Z.field("response_time", "relative_time", "Time since the request"),
  declared_in = Z.field("declared_in", "framenum", "Declared in", base.NONE),
  undeclared_in = Z.field("undeclared_in", "framenum", "Undeclared in", base.NONE),
  interest_in = Z.field("interest_in", "framenum", "Interest in", base.NONE, links_of.REQUEST),
  fragment_of = Z.field("fragment_of", "framenum", "First fragment in", base.NONE),
  fragments = Z.field("fragments", "framenum", "Fragment in", base.NONE),
  reassembled_in = Z.field("reassembled_in", "framenum", "Reassembled in", base.NONE),
}

-- What can be wrong with a message. The names are those of the Scapy side.
Z.expert("place", "A message that may not stand here", "PROTOCOL", "WARN")
Z.expert("range", "Sequence number above the agreed resolution", "PROTOCOL", "WARN")
Z.expert("gap", "Sequence numbers are missing on a reliable lane", "SEQUENCE", "WARN")
Z.expert("loss", "Sequence numbers are missing on a best-effort lane", "SEQUENCE", "NOTE")
Z.expert("duplicate", "A sequence number comes again", "SEQUENCE", "WARN")
Z.expert("old", "A sequence number lies behind what came before", "SEQUENCE", "WARN")
Z.expert("unordered", "Datagrams do not follow each other: lost, or out of order", "SEQUENCE", "NOTE")
Z.expert("lane", "A priority lane without QoS", "PROTOCOL", "WARN")
Z.expert("fragment", "Fragments that make no message", "SEQUENCE", "WARN")
Z.expert("alias", "An alias that is not declared, or declared anew", "PROTOCOL", "WARN")
Z.expert("request", "A request id in use, or a response to no request", "PROTOCOL", "WARN")
Z.expert("declaration", "An undeclaration of nothing, or an id that changes its key", "PROTOCOL", "WARN")
Z.expert("limit", "Something was too large to be remembered", "PROTOCOL", "NOTE")

-- Adds what stands nowhere in the bytes.
local function show(item, field, value)
  if item and value ~= nil and (wanted.all or wanted.fields[field]) then
    set_generated(add(item, field, value))
  end
end

-- Everything that is remembered ----------------------------------------------------------------------

local sessions, midway, rooms, pairs_of, openings, remarks, outcomes

local function forget_all()
  sessions, midway = 0, 0
  -- Kept by those who are in them.
  rooms, pairs_of = setmetatable({}, { __mode = "v" }), setmetatable({}, { __mode = "v" })
  openings = setmetatable({}, { __mode = "v" })
  remarks, outcomes = memory.notes(MOST_NOTES), memory.notes(MOST_NOTES)
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

local function new_party()
  return { complete = false, numbers = lanes.numbers(), lanes = {}, unnamed = {} }
end

local function new_session(link)
  sessions = sessions + 1
  local session = {
    number = sessions,
    multicast = link.multicast,
    links = 1,
    parties = { [0] = new_party(), [1] = new_party() },
    aliases = { [0] = {}, [1] = {} },
  }
  if link.multicast then
    session.room = rooms[link.target] or exchanges.room()
    rooms[link.target] = session.room
  else
    session.room = exchanges.room()
  end
  return session
end

-- Begins to remember a link, or another session on it, from a place on.
local function begin(link, place)
  local before, now = links.latest(link), links.blank(place)
  now.session = new_session(link)
  if not link.talk then
    now.framing1, now.framing2 = before.framing1, before.framing2
  end
  if not link.talk or link.multicast then
    -- Whether batches have a header byte was seen in front of the first message.
    now.compressed = before.compressed
  end
  links.add(link, now)
  -- `greeted`: how many of the messages that were said are INIT; `asked`: who began the handshake, for each way; `claimed`:
  -- see `claims`.
  link.talk = { inits = {}, opened = {}, ended = {}, said = 0, greeted = 0, asked = {}, sure = false, starts = {}, claimed = false }
  return link.talk
end

local function make_sure(talk)
  talk.sure = true
  if talk.midway then
    talk.midway = false
    midway = midway - 1
  end
end

function links.leave(link)
  if link.talk then
    make_sure(link.talk)
  end
end

-- One message and who says it. A single table, as there is one message at a time: locals would be quicker, but what is
-- put into one that functions share counts as alive for the collector in work, with all that it refers to.
local T = {}

local function note(kind, text)
  if T.b.again then return end
  local remark = T.remarks
  if not remark then
    remark = {}
    T.remarks = remark
    memory.note(remarks, T.place, remark)
  end
  remark[#remark + 1] = { kind, text }
  Z.note(T.m.item, kind, text)
end

-- Receivers drop the message: for its number, or else for where it stands, and then it has no lane either.
local function ignore(by_number)
  T.m.ignored = true
  if not T.remarks then
    T.remarks = {}
    memory.note(remarks, T.place, T.remarks)
  end
  T.remarks.ignored, T.remarks.by_number = true, by_number
end

local function has_remark(kind)
  for _, remark in ipairs(T.remarks or {}) do
    if remark[1] == kind then return true end
  end
  return false
end

local function doubt(party)
  party.complete = false
  lanes.doubt(party.numbers)
end

-- May fragments have been lost on the way? A number is missing here, or none says where it begins.
local function may_lack_some()
  local session = T.session
  if session.multilink or (session.patch or 0) == 0 then return true end
  return has_remark("loss") or has_remark("unordered")
end

-- Adds a remark, if there is one, that says that something of the sender was not heard.
local function missed(kind, text)
  if text then
    if not T.link.tcp and (kind == "gap" or kind == "old" or (kind == "fragment" and may_lack_some())) then
      kind = "unordered" -- on the way, where nobody knows whose fault it is
    end
    note(kind, text)
    T.speaker.complete = false
  end
end

-- Handshake ------------------------------------------------------------------------------------------

local function may_be_lowlatency(talk)
  local one, other = talk.inits[1], talk.inits[2]
  if one or other then
    return (one and one.lowlatency) or (other and other.lowlatency) or false
  end
  return talk.opened[1] or talk.opened[2] or false
end

local function switch(from)
  links.switch(T.link, from, may_be_lowlatency(T.talk))
end

-- Takes note that messages of a direction were not heard; with `hole` they are not in the capture.
function links.missed(way, place, hole)
  local link, talk = way.link, way.link.talk
  if not talk then
    return
  end
  local now, index = links.latest(link), way.index
  local session = now.session
  local party = session.parties[(index == 1) == not now.flipped and 0 or 1]
  doubt(party)
  fragments.miss(party)
  if hole and session.fsn and talk.opened[3 - index] then
    -- What is missing may be the other OPEN, and its INIT; what comes behind it is as agreed.
    links.change(link, place, { ["settled" .. index] = true })
    links.switch(link, place, may_be_lowlatency(talk))
  end
end

-- Is the handshake over? Nodes take no notice of INIT and OPEN then.
local function too_late()
  if not (T.talk.opened[1] and T.talk.opened[2]) then
    return false
  end
  ignore()
  note("place", T.m.name:upper() .. " inside a session")
  return true
end

-- What an INIT offers.
local function offer(m)
  local ext = m.ext or {}
  local link = ext.qoslink
  return {
    ack = m.A == 1,
    fsn = m.fsn or BITS_32,
    rid = m.rid or BITS_32,
    qos = ext.qos ~= nil
      or (link ~= nil and ((link.qos or 0) > 0 or (link.has_priorities or 0) > 0 or (link.has_reliability or 0) > 0)),
    lowlatency = ext.low_latency ~= nil,
    compression = ext.compression ~= nil,
    multilink = ext.multi_link ~= nil,
    patch = ext.patch and tonumber(tostring(ext.patch.patch)) or 0,
  }
end

local function agree(session, syn, ack)
  session.fsn, session.rid = math.min(syn.fsn, ack.fsn), math.min(syn.rid, ack.rid)
  session.qos = syn.qos and ack.qos
  session.multilink = syn.multilink and ack.multilink
  session.patch = math.min(syn.patch, ack.patch)
  for side = 0, 1 do
    session.parties[side].numbers.mask = lanes.mask(session.fsn)
  end
  links.change(T.link, T.place + 1, {
    lowlatency = syn.lowlatency and ack.lowlatency,
    compression = syn.compression and ack.compression,
  })
end

local function init()
  local talk, index = T.talk, T.way.index
  if not T.first or not talk.claimed then return end
  if T.m.A == 1 and talk.opened[3 - index] and not talk.inits[index] and not T.link.tcp then
    links.disorder(T.link) -- the other one has answered it before
  elseif too_late() then
    return
  end
  local mine = offer(T.m)
  talk.inits[index] = mine
  links.change(T.link, T.place + 1, { ["zid" .. index] = T.m.zid })
  local other = talk.inits[3 - index]
  local ack = mine.ack and mine or other
  if ack and ack.ack then
    -- Where one INIT was not captured: the acceptor names what both will do.
    local syn = mine.ack and other or mine
    if syn == nil or syn.ack then
      syn = ack
    end
    agree(T.session, syn, ack)
    if other then
      make_sure(talk)
    end
  end
  switch(T.place + 1)
end

local function milliseconds(m)
  return (tonumber(tostring(m.lease)) or 0) * (m.T == 1 and 1000 or 1)
end

-- Is a session still alive, of which another link seems to have come? That a connection has ended is not shown to
-- a dissector.
local function is_alive(session, time)
  return not session.closed and time - session.latest < math.max(session.lease or 0, SHORTEST_LEASE)
end

-- Is one of its links?
local function is_link_alive(session, talk, time)
  local over = session.closed or talk.closed or talk.ended[1] or talk.ended[2]
  return not over and time - talk.latest < math.max(session.lease or 0, SHORTEST_LEASE)
end

-- Moves a link, of which `one` sent the first INIT, from its own session to another one.
local function move(own, session, one, from)
  local flipped = session.zid0 ~= one
  session.links = session.links + 1
  links.change(T.link, from, { own = own, session = session, flipped = flipped })
  own.into, own.turned = own ~= session and session or nil, flipped
  return flipped
end

-- Makes a link one of another session, known by a name, from which its own turned out not to differ.
local function merge(known, one, names, name)
  T.talk.joined = { {}, {}, own = T.session, one = one, names = names, name = name }
  move(T.session, known, one, T.place + 1)
  if T.talk.said > 4 then
    -- Some messages were taken for those of another session.
    doubt(known.parties[0])
    doubt(known.parties[1])
  end
end

-- Finds the session that another link of the same two nodes has begun.
local function unite()
  local now = links.latest(T.link)
  local one, other = now.zid1, now.zid2
  if not one or not other or one == other then
    return
  end
  local name = one < other and one .. " " .. other or other .. " " .. one
  local known = pairs_of[name]
  if not known or not is_alive(known, T.b.time) then
    pairs_of[name] = T.session
    T.session.zid0 = one
    return
  end
  if known ~= T.session then
    merge(known, one, pairs_of, name)
  end
end

local function dialer(talk)
  return talk.asked[1] or talk.asked[2]
end

-- Finds the session that a link from the other end has begun: two nodes that connect to each other have one session on
-- both links, although they did not agree on several. Each says on one of them that all begins with the same numbers. The
-- second link may come at any time while the first one is there.
local function cross()
  local now, talk = links.latest(T.link), T.talk
  local starts, by = talk.starts, dialer(talk)
  local one, other = now.zid1, now.zid2
  if not one or not other or one == other or not by then
    return
  end
  local mine, theirs = one .. " " .. tostring(starts[1]), other .. " " .. tostring(starts[2])
  local name = mine < theirs and mine .. " " .. theirs or theirs .. " " .. mine
  local known = openings[name]
  local back = known and known.dialed[by == one and other or one]
  if back and is_link_alive(known, back, T.b.time) then
    known.multilink = true
    merge(known, one, openings, name)
  else
    known = T.session
    openings[name] = known
    known.zid0, known.dialed = one, {}
  end
  known.dialed[by] = talk
end

local function open()
  local talk, session, index = T.talk, T.session, T.way.index
  if not T.first or too_late() then
    return
  end
  if T.m.A == 0 and talk.opened[3 - index] and not T.link.tcp then links.disorder(T.link) end -- it was answered before
  lanes.start(T.speaker.numbers, T.m.initial_sn, nil)
  session.lease = math.max(session.lease or 0, milliseconds(T.m) / 1000)
  -- In low latency nothing tells of datagrams that are lost.
  T.speaker.complete = talk.inits[index] ~= nil and (T.link.tcp or not links.latest(T.link).lowlatency)
  if session.multilink and midway > 0 then
    -- The link may join a session whose beginning was not captured.
    doubt(T.speaker)
  end
  talk.opened[index], talk.starts[index] = true, T.m.initial_sn
  links.change(T.link, T.place + 1, { ["settled" .. index] = true })
  switch(T.place + 1)
  if talk.opened[1] and talk.opened[2] then
    if session.multilink then
      unite()
    elseif talk.inits[1] and talk.inits[2] then
      cross()
    end
  end
end

local function close()
  if not T.first then
    return
  end
  if T.link.tcp then
    -- Messages of the other end may be under way; the end of the connection ends all.
    if not T.talk.closed then
      T.talk.closed = true
      T.session.links = T.session.links - 1
      T.session.closed = T.m.S == 1 or T.session.links == 0
      if T.session.closed then
        aliases.leave(T.session)
        exchanges.leave(T.session.room)
      end
    end
    return
  end
  T.talk.ended[T.way.index] = true
  if T.session.multicast or (T.talk.ended[1] and T.talk.ended[2]) then
    T.talk.over = true
  end
end

local function join()
  if not T.first then
    return
  end
  local session, m, party = T.session, T.m, T.session.parties[0]
  if not session.multicast then
    ignore()
    note("place", "JOIN outside of a group")
    return
  end
  local now = links.latest(T.link)
  if now.zid1 then
    -- One JOIN may be something else that looks like it, the same again is none.
    make_sure(T.talk)
    return
  end
  links.change(T.link, T.place + 1, { zid1 = m.zid, lowlatency = false, compression = now.compressed or false })
  session.fsn, session.rid = m.fsn or BITS_32, m.rid or BITS_32
  session.patch = m.ext and m.ext.patch and tonumber(tostring(m.ext.patch.patch)) or 0
  session.multilink = false
  party.numbers.mask = lanes.mask(session.fsn)
  local first = { [DATA * 2 + 1] = m.next_sn_re, [DATA * 2] = m.next_sn_be }
  local named = m.ext and m.ext.qos and m.ext.qos.lanes
  session.qos = type(named) == "table"
  if session.qos then
    first = {}
    for i = 1, #named do
      first[(i - 1) * 2 + 1], first[(i - 1) * 2] = named[i].next_sn_re, named[i].next_sn_be
    end
  end
  lanes.start(party.numbers, nil, first)
end

-- Lanes ----------------------------------------------------------------------------------------------

-- Who says the message, in which session.
local function turn(session, flipped)
  local side = T.way.index - 1
  if flipped then
    side = 1 - side
  end
  T.session, T.side = session, side
  T.speaker, T.listener = session.parties[side], session.parties[1 - side]
end

-- Returns what there is of two sides, turned round if it has to be.
local function sides(both, turned)
  return turned and { [0] = both[1], [1] = both[0] } or both
end

-- Makes a link's own session the one that follows another. Each lane begins with the same number: with some that came on
-- lanes of which nothing had been heard, what was said was taken for the other session's.
local function succeed(known, joined)
  local own = joined.own
  known.follower, own.links, own.zid0 = own, 0, joined.one
  own.dialed = { [dialer(T.talk) or joined.one] = T.talk }
  joined.names[joined.name] = own
  if joined.some then
    local turned = known.zid0 ~= joined.one
    own.aliases, own.room = sides(known.aliases, turned), sides(known.room, turned)
    doubt(own.parties[0])
    doubt(own.parties[1])
  end
end

-- Takes a link back from the session that it was merged into: a number with which all began comes again on it. What was
-- before had ended, which is not shown to a dissector, and the nodes have begun a new session, perhaps with more links.
local function part(lane)
  local talk, known = T.talk, T.session
  local joined, heard = talk.joined, talk.joined[T.way.index]
  if not known.follower then
    if heard[lane] then
      return
    end
    heard[lane] = true
    if T.m.sn ~= talk.starts[T.way.index] then
      talk.joined = nil
      return
    end
    if not lanes.was_there(T.speaker.numbers, lane, T.m.sn) then
      joined.some = true
      return
    end
    succeed(known, joined)
  end
  talk.joined = nil
  turn(known.follower, move(joined.own, known.follower, joined.one, T.place))
end

local function lane_of(party, number)
  local lane = party.lanes[number]
  if not lane then
    lane = {}
    party.lanes[number] = lane
  end
  return lane
end

-- Judges the sequence number of a FRAME or FRAGMENT; returns its lane unless receivers drop it.
local function number(fragment, begins, ends)
  local m = T.m
  local priority = m.ext and m.ext.qos and m.ext.qos.priority or DATA
  m.reliable, m.priority_number = m.R == 1, priority
  local name = priority * 2 + (m.R == 1 and 1 or 0)
  if T.first then
    if T.talk.joined then
      part(name)
    end
    local session = T.session
    if priority ~= DATA then
      if session.qos == false then
        note("lane", "lane " .. tostring(Z.enums.Priority[priority] or priority) .. " in a session without QoS")
      elseif session.qos == nil then
        session.qos = true
      end
    end
    local fresh, kind, text = lanes.take(T.speaker.numbers, name, m.sn, fragment, begins, ends, session.multilink,
      not T.link.tcp, fragment and not begins and (session.patch or 0) > 0)
    missed(kind, text)
    if not fresh then
      ignore(true)
    end
  end
  return not m.ignored and lane_of(T.speaker, name) or nil
end

local function frame()
  local lane = number(false, true, true)
  if lane and T.first then
    missed("fragment", fragments.interrupt(lane, T.m.sn, T.place))
  end
end

local function fragment()
  local m = T.m
  local first, drop = m.ext ~= nil and m.ext.first ~= nil, m.ext ~= nil and m.ext.drop ~= nil
  local lane = number(true, first, drop or m.M ~= 1)
  local session, speaker = T.session, T.speaker
  m.lane_of_fragments, m.whole = lane, nil
  if lane and T.first then
    local opens = T.talk.inits[T.way.index] ~= nil
      and lanes.is_first(speaker.numbers, m.priority_number * 2 + m.R, m.sn)
    local whole, remark, kind = fragments.take(lane, session, m, T.place, T.b.number, session.patch,
      speaker.numbers.mask, speaker.complete, opens)
    missed(kind, remark)
    if whole and (whole:byte() or 0) % 32 < NETWORK_IDS then
      missed("fragment", "the fragments make no network message")
    end
  end
end

-- Returns the bytes of a message, and the packets that brought it, when a FRAGMENT that was heard completes it.
function Z.reassemble(b, m)
  local lane, item = m.lane_of_fragments, m.item
  local chain = lane and fragments.at(lane, m.place)
  if not chain then
    return nil
  end
  if chain.first ~= b.number then
    show(item, FIELDS.fragment_of, chain.first)
  end
  if not chain.complete then
    return nil
  end
  if not chain.data then
    fragments.again(chain, m.place, m.data or "")
  end
  if m.place ~= chain.to then
    if chain.complete ~= b.number then
      show(item, FIELDS.reassembled_in, chain.complete)
    end
    return nil
  end
  for i = 1, #chain.packets do
    show(item, FIELDS.fragments, chain.packets[i])
  end
  if not chain.data then
    Z.note(item, "limit", "the message that ends here is not kept any more")
    return nil
  end
  if (chain.data:byte() or 0) % 32 < NETWORK_IDS then
    return nil
  end
  return chain.data, chain.packets
end

-- Keys -----------------------------------------------------------------------------------------------

local KEYED = { push = true, request = true, response = true, interest = true }
local DECLARES = { d_keyexpr = "keyexpr", d_subscriber = "subscriber", d_queryable = "queryable", d_token = "token" }
local UNDECLARES = { u_keyexpr = "keyexpr", u_subscriber = "subscriber", u_queryable = "queryable", u_token = "token" }

-- Would a declaration have been heard, had there been one? With several links it may come on another one, later; so it may
-- where packets were captured out of order.
local function certain(party)
  local link = T.link
  return party.complete and not T.session.multilink and not T.session.lossy
    and not (links.is_disordered(link) or link.ahead or link.blind)
end

-- Says that a message refers to what was not heard. Where a datagram may be lost that is nobody's fault: only the next one
-- of the same lane and sender would tell.
local function unheard(kind, text)
  note(T.link.tcp and kind or "unordered", text)
end

local function unknown_alias(owner, scope)
  if T.first and certain(T.session.parties[owner]) then
    unheard("alias", string.format("alias %d is not declared", scope))
  end
end

-- Finds the full key of a message.
local function resolve()
  local m = T.m
  local keyed, own = m, m.M == 1
  if m.name == "declare" then
    keyed = m.body
    if not keyed then
      return
    end
    if keyed.name == "d_keyexpr" then
      -- It has no M: what it builds on are aliases of its sender.
      own = true
    elseif DECLARES[keyed.name] then
      own = keyed.M == 1
    else
      keyed = UNDECLARES[keyed.name] and keyed.ext and keyed.ext.wire_expr
      own = keyed and keyed.mapping == 1
    end
  elseif not KEYED[m.name] then
    return
  end
  local scope = keyed and keyed.key_scope
  if type(scope) ~= "number" then
    return
  end
  local suffix = keyed.key_suffix or ""
  local key, unknown = aliases.resolve(T.session, T.side, scope, suffix, own, T.place)
  m.keyexpr = key
  if unknown then
    unknown_alias(own and T.side or 1 - T.side, scope)
  elseif not key and T.first then
    note("limit", "a key that is too long")
  end
end

-- Requests and interests -----------------------------------------------------------------------------

-- The end under which requests of the speaker are kept, and whose it answers: in a group nobody can tell.
local function asks()
  return T.session.multicast and 0 or T.side
end

local function answers()
  return T.session.multicast and 0 or 1 - T.side
end

-- Opens an exchange, or finds the one that was opened here; returns the one that had its id as well.
local function ask(owner, kind, name)
  if not T.first then
    local found = exchanges.find(T.session.room, owner, kind, name, T.place)
    T.m.exchange = found and found.from == T.place and found or nil
    return nil
  end
  local exchange = {
    kind = kind, from = T.place, asked = T.b.number, asked_time = T.b.time, keyexpr = T.m.keyexpr, session = T.session,
  }
  T.m.exchange = exchange
  return exchanges.begin(T.session.room, owner, kind, name, exchange)
end

local function show_answers(exchange)
  if exchange and not T.first then
    for i = 1, #exchange do
      show(T.m.item, FIELDS.response_in, exchange[i])
    end
  end
end

local function request()
  local id = T.m.request_id
  local before = ask(asks(), "query", memory.name(id))
  if before and not T.session.multicast and certain(T.listener) then
    unheard("request", string.format("request id %d is in use since packet %d", id, before.asked))
  end
  local exchange = T.m.exchange
  show_answers(exchange)
  if exchange and not T.first then
    show(T.m.item, FIELDS.final_in, exchange.ended)
  end
end

local function show_request(exchange)
  local m = T.m
  m.exchange = exchange
  if exchange then
    local time = T.b.time - exchange.asked_time
    m.response_time = time
    if m.item then
      show(m.item, FIELDS.request_in, exchange.asked)
      local seconds = floor(time)
      show(m.item, FIELDS.response_time, NSTime.new(seconds, floor((time - seconds) * 1e9 + 0.5)))
    end
  elseif T.first and certain(T.listener) then
    unheard("request", string.format("no open request has the id %d", m.request_id))
  end
end

local function response()
  local exchange, is_open = exchanges.find(T.session.room, answers(), "query", memory.name(T.m.request_id), T.place)
  if exchange and T.first then
    exchanges.answer(exchange, T.b.number)
    if not is_open then
      -- A final that travels in another lane may overtake what it follows.
      -- In low latency nothing numbers datagrams, which the final may have overtaken.
      local say = T.m.priority_number and note or unheard
      say("request", "behind the RESPONSE_FINAL of packet " .. exchange.ended)
    end
  end
  show_request(exchange)
end

local function response_final()
  local exchange, is_open = exchanges.find(T.session.room, answers(), "query", memory.name(T.m.request_id), T.place)
  exchange = is_open and exchange or nil
  if exchange and T.first then
    exchanges.finish(exchange, T.place, T.b.number)
  end
  show_request(exchange)
end

local function interest()
  local m = T.m
  local name = memory.name(m.interest_id)
  if m.mode == FINAL then
    local exchange, is_open = exchanges.find(T.session.room, asks(), "interest", name, T.place)
    if is_open then
      m.exchange, m.keyexpr = exchange, exchange.keyexpr
      show(m.item, FIELDS.interest_in, exchange.asked)
      if T.first then
        exchanges.finish(exchange, T.place, T.b.number)
      end
    end
    return
  end
  ask(asks(), "interest", name)
  if T.first then
    m.exchange.future = m.mode >= 2
  end
  show_answers(m.exchange)
  if m.exchange and not T.first then
    show(m.item, FIELDS.final_in, m.exchange.complete)
  end
end

-- Declarations ---------------------------------------------------------------------------------------

local SEVERAL = {} -- stands for more than one open declaration without a number

-- The end under which declarations of the speaker are kept: in a group each sender has its own.
local function declares()
  return T.session.multicast and T.session.number + 1 or T.side
end

-- Returns what a declaration is known by: its id, or, where that is 0, as between routers, node and key.
local function known_as(id, key)
  if id ~= 0 then
    return memory.name(id)
  end
  local node = T.m.ext and T.m.ext.node_id
  return (node and tostring(node.node_id) or "0") .. " " .. tostring(key)
end

local function declared(kind, id)
  local m, room, owner = T.m, T.session.room, declares()
  local name = known_as(id, m.keyexpr)
  local known, is_open = exchanges.find(room, owner, kind, name, T.place)
  if is_open and (known.keyexpr == m.keyexpr) and known.from ~= T.place then
    -- The same again.
    m.exchange = known
    show(m.item, FIELDS.declared_in, known.asked)
    if T.first then
      exchanges.answer(known, T.b.number)
    end
    return
  end
  if T.first and is_open and certain(T.speaker) then
    unheard("declaration", string.format("%s %s was %q since packet %d", m.body.name:upper(), tostring(id),
      tostring(known.keyexpr), known.asked))
  end
  ask(owner, kind, name)
  if not T.first then
    if m.exchange then
      show(m.item, FIELDS.undeclared_in, m.exchange.ended)
    end
  elseif id == 0 then
    -- It may be taken back without its key; then it must be the only one without a number.
    local unnamed = T.speaker.unnamed
    unnamed[kind] = unnamed[kind] and SEVERAL or m.exchange
  end
end

-- Finds what is taken back, if that can be said, and tells whether there is anything of that id.
local function undeclared(kind, id)
  local m, room, owner = T.m, T.session.room, declares()
  local found, known
  if id ~= 0 or (m.keyexpr or "") ~= "" then
    local exchange, is_open = exchanges.find(room, owner, kind, known_as(id, m.keyexpr), T.place)
    found = is_open and exchange or nil
    known = found ~= nil
  elseif T.first then
    found = T.speaker.unnamed[kind]
    known = found ~= nil
    if found == SEVERAL then
      found = nil
    elseif found then
      memory.note(outcomes, T.place, found)
    end
  else
    found = outcomes.by_place[T.place]
    known = found ~= nil
  end
  m.exchange = found
  if found then
    show(m.item, FIELDS.declared_in, found.asked)
    if T.first then
      exchanges.finish(found, T.place, T.b.number)
      local unnamed = T.speaker.unnamed[kind]
      if unnamed and unnamed.from == found.from then
        T.speaker.unnamed[kind] = nil
      end
    end
  end
  return known
end

local function declare()
  local m, body = T.m, T.m.body
  if not body then
    return
  end
  if m.I == 1 then
    local owner, name = answers(), memory.name(m.interest_id)
    local asked, is_open = exchanges.find(T.session.room, owner, "interest", name, T.place)
    if is_open then
      m.interest = asked
      show(m.item, FIELDS.interest_in, asked.asked)
      if T.first then
        exchanges.answer(asked, T.b.number)
      end
    end
  end
  local kind = DECLARES[body.name]
  if kind == "keyexpr" then
    if m.keyexpr then
      local remark
      if T.first then
        remark = aliases.declare(T.session, T.side, body.key_id, m.keyexpr, T.place,
          not (T.link.tcp and certain(T.speaker)))
      else
        remark = has_remark("alias")
      end
      if not remark then
        declared(kind, body.key_id)
      elseif T.first then
        note("alias", remark)
      end
    end
  elseif kind then
    declared(kind, body.entity_id)
  elseif body.name == "d_final" then
    m.exchange = m.interest
    if m.interest and T.first then
      m.interest.complete = T.b.number
      if not m.interest.future then
        exchanges.finish(m.interest, T.place, T.b.number)
      end
    end
  elseif body.name == "u_keyexpr" then
    m.keyexpr = aliases.taken_back(T.session, T.side, body.key_id, T.place)
    if not m.keyexpr then
      unknown_alias(T.side, body.key_id)
    elseif T.first then
      aliases.undeclare(T.session, T.side, body.key_id, T.place)
    end
    undeclared(kind or "keyexpr", body.key_id)
  elseif UNDECLARES[body.name] then
    -- For those who are interested a node may take back what it never declared here; then it says the key.
    local named = m.keyexpr ~= nil and m.keyexpr ~= ""
    local known = undeclared(UNDECLARES[body.name], body.entity_id)
    if not named then
      m.keyexpr = m.exchange and m.exchange.keyexpr
    end
    if T.first and not (known or named) and certain(T.speaker) then
      unheard("declaration", string.format("%s of %s, which is not declared", body.name:upper(), tostring(body.entity_id)))
    end
  end
end

-- The tables -----------------------------------------------------------------------------------------

local EFFECTS = {
  init = init, -- who is there; the second one: what both agree on
  open = open, -- lease, first sequence number; from here on as agreed; may join a session of several links
  close = close, -- ends a session on UDP; TCP has an end of its own
  join = join, -- who sends to a group, and its next sequence numbers
  frame = frame, -- takes a sequence number, breaks a chain of fragments
  fragment = fragment, -- takes a sequence number; may complete a network message
  request = request, -- opens a query
  response = response, -- answers it
  response_final = response_final, -- ends it
  interest = interest, -- opens an interest, or ends it
  declare = declare, -- answers an interest, if it says so; and by its body
}

local CLAIMS = { init = true, join = true, frame = true, push = true, request = true, response = true }

-- Tells whether a message begins something that is a session for sure: a datagram in which anything is refused may be
-- something else, and nothing is offered in it.
local function claims(b, m)
  return b.link.tcp or (CLAIMS[m.name] and m.at == 0 and not m.within and Z.is_whole(b)) or false
end

-- Checks, or finds out, whether network messages travel in FRAMEs here.
local function check_place()
  local m, now = T.m, T.now
  if m.within then
    return
  end
  local bare = m.kind == "network"
  if not bare and m.name ~= "frame" and m.name ~= "fragment" then
    return
  end
  if now.lowlatency == nil then
    if T.first then
      links.change(T.link, T.place + 1, { lowlatency = bare })
      switch(T.place + 1)
    end
  elseif now.lowlatency ~= bare and T.first then
    ignore()
    note("place", m.name:upper() .. (bare and " outside of a FRAME" or " in a session with low latency"))
  end
end

-- Notices that another session begins where the end of a connection is not seen.
local function renew_if_new(link, m, place)
  local talk = link.talk
  if talk.over then
    return m.name ~= "close" -- which some say more than once
  end
  if (link.tcp and not link.blind) or talk.said == 0 or m.refused or m.version ~= VERSION then
    return false
  end
  if (m.name ~= "init" and m.name ~= "join") or not Z.is_whole(T.b) then
    return false -- nor does damage begin one
  end
  if m.name == "init" then
    -- One that has no answer yet is sent once more, or was captured twice.
    local repeated = talk.greeted == talk.said and (talk.asked[1] == m.zid or talk.asked[2] == m.zid)
    -- One that was captured behind its answer: its sender has not begun, but the other one has answered.
    local index = T.way.index
    local answer = talk.inits[3 - index]
    local late = answer and answer.ack and m.A == 0 and not talk.inits[index] and not talk.opened[index]
    if late then links.disorder(link) end
    return m.A == 0 and not repeated and not late
  end
  local known = links.latest(link).zid1
  return link.multicast and known and known ~= m.zid
end

local function show_ends(b, m, now)
  local index = T.way.index
  m.srczid = (index == 1 and now.zid1 or index == 2 and now.zid2) or nil
  m.dstzid = (index == 1 and now.zid2 or index == 2 and now.zid1) or nil
  if m.within then
    return
  end
  if m.srczid and b.srczid_told ~= m.srczid then
    b.srczid_told = m.srczid
    show(b.item, FIELDS.srczid, m.srczid)
  end
  if m.dstzid and b.dstzid_told ~= m.dstzid then
    b.dstzid_told = m.dstzid
    show(b.item, FIELDS.dstzid, m.dstzid)
  end
end

local function hear(b, m)
  if m.kind == "scouting" then
    Z.hear_scouting(b, m)
    show(b.item, FIELDS.srczid, m.srczid)
    show(b.item, FIELDS.dstzid, m.dstzid)
    return
  end
  local network = m.kind == "network"
  if not network and m.kind ~= "transport" then
    return
  end
  local way, place = b.way, b.place
  local link = way.link
  local first = not b.visited
  m.place = place
  T.b, T.m, T.way, T.link, T.place, T.first = b, m, way, link, place, first
  T.remarks = nil
  local within = m.within
  if within then
    m.ignored, m.reliable, m.priority_number = within.ignored, within.reliable, within.priority_number
  end
  local now
  if first then
    local talk = link.talk
    if not talk then
      talk = begin(link, place)
      if m.name ~= "init" and not link.multicast then
        talk.midway, midway = true, midway + 1
      end
    elseif renew_if_new(link, m, place) then
      talk = begin(link, place)
    end
    talk.said, talk.claimed = talk.said + 1, talk.claimed or claims(b, m)
    if m.name == "init" then
      talk.greeted = talk.greeted + 1
      if m.A == 0 and not m.refused then talk.asked[way.index] = m.zid end
    end
    if link.blind then
      links.missed(way, place, false)
    end
    T.talk = talk
    now = links.latest(link)
    now.session.latest, talk.latest = b.time, b.time
  else
    T.remarks = remarks.by_place[place]
    now = links.at(link, place)
    m.ignored = m.ignored or (T.remarks and T.remarks.ignored) or nil
  end
  local session = now.session
  if not session then
    return -- it was forgotten
  end
  T.now = now
  turn(session, now.flipped)
  check_place()
  resolve()
  local effect = EFFECTS[m.name]
  if m.refused then
    if first and within and within.name == "fragment" then
      T.speaker.complete = false -- it may have been a declaration; the numbers of the fragments could be read
    elseif first then
      -- What could not be read may have been anything: a declaration, a FRAME.
      doubt(T.speaker)
    end
  elseif effect and (not m.ignored or (T.remarks and T.remarks.by_number)) then
    effect()
  end
  if not first and T.remarks then
    for i = 1, #T.remarks do
      Z.note(m.item, T.remarks[i][1], T.remarks[i][2])
    end
  end
  if within and within.name == "fragment" and not m.refused and m.stop and m.stop < #b.raw then
    Z.note(m.item, "fragment", #b.raw - m.stop .. " bytes behind it, which receivers pass over")
  end
  show_ends(b, m, first and links.latest(link) or links.at(link, place + 1))
  local item = m.item
  if item then
    if m.priority_number and not within then
      show(item, FIELDS.priority, m.priority_number)
      show(item, FIELDS.reliability, m.reliable and 1 or 0)
    end
    show(item, FIELDS.keyexpr, m.keyexpr and Z.shown(m.keyexpr))
  end
end

Z.listen(hear)
end

-- rules -----------------------------------------------------------------------------------------------

do
-- What breaks the specification: an expert info of its own, `zenoh.expert.<id>`, for each requirement that a reader of
-- traffic can judge; the Python twin is scapy_layers.lint, with the same ids. Strict decoding (core) and the
-- conversation have their own expert infos for what they notice, which are not said again here. What the capture does not
-- tell is not judged, and what implementations are known to do otherwise, without harm, is normal traffic.
--
-- A message is judged by itself on every pass (FORMS), and by what was said before on the first one (TALK): that is
-- kept by its place.

local memory, links, exchanges = Z.memory, Z.links, Z.exchanges
local find, byte, sub, format, floor = string.find, string.byte, string.sub, string.format, math.floor

-- The requirements -----------------------------------------------------------------------------------

local REQUIREMENTS = {
  -- Scouting
  { "SCT-003", "SHOULD", "SCOUT travels to a multicast or broadcast destination" },
  { "SCT-004", "MUST", "only a node whose role is asked for answers" },
  { "SCT-007", "MUST NOT", "a SCOUT with the node's own ZenohID is not answered" },
  { "SCT-009", "SHOULD", "an unanswered SCOUT is repeated with growing gaps", "SEQUENCE" },
  { "SCT-011", "FACT", "bits 6 and 5 of SCOUT's header are not used" },
  { "SCT-015", "FACT", "a ZenohID is as long as its value needs" },
  { "SCT-018", "MUST", "a SCOUT carries version 0x09" },
  { "HLO-005", "FACT", "bit 6 of HELLO's header is zero" },
  { "HLO-007", "FACT", "a ZenohID is as long as its value needs" },
  { "HLO-008", "MUST", "bits 3:2 of HELLO's packed byte are zero" },
  { "HLO-010", "MUST", "HELLO carries version 0x09" },
  { "HLO-013", "FACT", "a locator reads proto/address?metadata" },
  { "HLO-014", "FACT", "an address is IPv4, IPv6 in brackets, or a host name" },
  { "HLO-015", "FACT", "metadata is key=value pairs parted by ;" },
  -- INIT
  { "INIT-001", "FACT", "InitSyn, InitAck, OpenSyn, OpenAck, in this order", "SEQUENCE" },
  { "INIT-014", "FACT", "the version is 0x09" },
  { "INIT-015", "FACT", "a ZenohID is as long as its value needs" },
  { "INIT-016", "FACT", "bits 3:2 of INIT's packed byte are zero" },
  { "INIT-021", "MUST", "bits 7:4 of the resolution byte are zero" },
  { "INIT-027", "FACT", "no batch is larger than the smaller of both offers" },
  { "INIT-029", "MUST", "OpenSyn returns the cookie bit for bit" },
  { "INIT-031", "FACT", "cookies differ from handshake to handshake" },
  { "INIT-032", "FACT", "QoS offered as Unit is answered as Unit, or not at all" },
  { "INIT-035", "FACT", "Shm is in InitAck only if InitSyn has it" },
  { "INIT-037", "FACT", "MultiLink is in InitAck only if InitSyn has it" },
  { "INIT-038", "FACT", "LowLatency is in InitAck only if InitSyn has it" },
  { "INIT-039", "FACT", "Compression is in InitAck only if InitSyn has it" },
  { "INIT-040", "FACT", "InitAck states no higher patch version than offered" },
  { "INIT-042", "FACT", "extensions of INIT have the encoding and the M of the table" },
  { "INIT-043", "FACT", "First and Drop stand only where both sides know patch 1" },
  { "INIT-045", "FACT", "another version is answered by CLOSE unsupported (ZN-INIT-003)" },
  { "INIT-047", "MUST NOT", "InitAck raises neither FSN nor RID" },
  { "INIT-048", "FACT", "InitAck states no larger batch size than proposed" },
  { "INIT-049", "FACT", "QoS is in InitAck only if InitSyn has it" },
  { "INIT-051", "FACT", "LowLatency and QoS lanes are not joined on one link" },
  { "EXT-103", "FACT", "an unknown mandatory extension in the handshake is answered by CLOSE unsupported" },
  -- OPEN
  { "OPEN-003", "FACT", "OPEN offers a lease" },
  { "OPEN-005", "MUST", "OpenSyn with another cookie is refused" },
  { "OPEN-007", "MUST", "the initial SN is inside the agreed range" },
  { "OPEN-009", "MUST", "an initial SN outside the agreed range is refused" },
  { "OPEN-018", "FACT", "QoS is in OPEN only when INIT agreed on it" },
  { "OPEN-020", "FACT", "Auth in OPEN belongs to Auth in INIT" },
  { "OPEN-021", "FACT", "MultiLink is a ZBuf in OpenSyn and a Unit in OpenAck" },
  { "OPEN-022", "FACT", "LowLatency is in OPEN only when INIT agreed on it" },
  { "OPEN-023", "FACT", "Compression is in OPEN only when INIT agreed on it" },
  { "OPEN-025", "FACT", "extensions of OPEN have the encoding and the M of the table" },
  -- Other messages of the transport
  { "MSG-006", "FACT", "INIT and OPEN exist on unicast only" },
  { "MSG-009", "FACT", "network messages flow only after session set-up (ZN-INIT-007)", "SEQUENCE" },
  { "OPEN-014", "FACT", "silence for the whole lease ends the session (ZN-KA-104)", "SEQUENCE" },
  { "KA-001", "FACT", "of KEEP_ALIVE's flags only Z may be set" },
  { "KA-101", "MUST", "a link carries a message every quarter of the smaller of both leases", "SEQUENCE" },
  { "KA-102", "MUST", "a link carries a message every quarter of the lease of its sender", "SEQUENCE" },
  { "CLS-001", "FACT", "bit 6 of CLOSE's header is not used" },
  { "CLS-004", "FACT", "CLOSE ends the link: its sender sends nothing behind it", "SEQUENCE" },
  { "CLS-101", "FACT", "the reason of CLOSE is one of the eight" },
  { "CLS-102", "MUST", "on CLOSE the receiver stops sending", "SEQUENCE" },
  { "CLS-106", "SHOULD", "the reason is the most specific one" },
  { "JOIN-001", "FACT", "reserved bits of JOIN are zero" },
  { "JOIN-002", "FACT", "JOIN carries version 0x09" },
  { "JOIN-003", "FACT", "a ZenohID is as long as its value needs" },
  { "JOIN-005", "FACT", "JOIN is repeated within its lease while the sender is there", "SEQUENCE" },
  { "OAM-004", "FACT", "extensions of OAM have the encoding and the M of the table" },
  { "FRM-001", "FACT", "bit 6 of FRAME's header is zero" },
  { "FRM-003", "FACT", "a FRAME holds one or more messages" },
  { "FRM-007", "FACT", "extensions of FRAME have the encoding and the M of the table" },
  { "FRM-008", "FACT", "a lane is 0 to 7: bits 7:3 are zero" },
  { "FRG-002", "FACT", "M is set on all but the last fragment" },
  { "FRG-005", "FACT", "First and Drop have the encoding and the M of the table" },
  { "FRG-104", "FACT", "the lane of FRAGMENT has the encoding and the M of the table" },
  -- Network messages
  { "NET-004", "FACT", "QoS has the encoding and the M of the table" },
  { "NET-009", "FACT", "BlockFirst needs patch 1" },
  { "NET-010", "FACT", "bits 7:6 of a QoS value are zero" },
  { "NET-013", "FACT", "Timestamp has the encoding and the M of the table" },
  { "OAM-006", "FACT", "extensions of OAM have the encoding and the M of the table" },
  { "RTE-010", "FACT", "NodeId has the encoding and the M of the table" },
  { "RTE-013", "MUST NOT", "a PUSH is not sent back to where it came from" },
  { "KEX-101", "FACT", "keys are chunks parted by slashes, without stray $ * # ?" },
  { "KEX-102", "FACT", "only canonical key expressions travel" },
  { "PUSH-002", "FACT", "ExprId 0 is the global scope, no alias" },
  { "PUT-004", "FACT", "Shm stands only where both ends agreed on shared memory" },
  { "DEL-001", "FACT", "bit 6 of DEL's header is not used" },
  { "REQ-101", "MUST", "request ids stay inside the agreed RID range" },
  { "REQ-102", "FACT", "extensions of REQUEST have the encoding and the M of the table" },
  { "REQ-103", "FACT", "RESPONSE_FINAL comes when the timeout passes", "SEQUENCE" },
  { "REQ-104", "FACT", "Budget caps the number of replies", "SEQUENCE" },
  { "QRY-002", "FACT", "consolidation is 0 to 3" },
  { "QRY-005", "FACT", "the marker 0x04 stands only where both ends agreed on shared memory" },
  { "RSP-006", "FACT", "ResponderId is as in the table, bits 3:0 are zero" },
  { "RPL-001", "FACT", "bit 6 of REPLY's header is not used" },
  { "RPL-002", "FACT", "consolidation is 0 to 3" },
  { "FIN-001", "FACT", "of RESPONSE_FINAL's flags only Z may be set" },
  { "FIN-002", "MUST", "the request id of RESPONSE_FINAL is that of a REQUEST", "SEQUENCE" },
  { "FIN-004", "MUST", "a REQUEST gets exactly one RESPONSE_FINAL (ZN-RTE-019)", "SEQUENCE" },
  { "FIN-006", "FACT", "extensions of RESPONSE_FINAL have the encoding and the M of the table" },
  { "DCL-001", "FACT", "bit 6 of DECLARE's header is not used" },
  { "DCL-002", "FACT", "the interest id is that of an INTEREST of the other end", "SEQUENCE" },
  { "DCL-003", "FACT", "extensions of DECLARE have the encoding and the M of the table" },
  { "DCL-105", "FACT", "QueryableInfo has the encoding and the M of the table" },
  { "INT-004", "FACT", "an interest is answered with the kinds it asks for" },
  { "INT-006", "FACT", "extensions of INTEREST have the encoding and the M of the table" },
  { "INT-105", "FACT", "a restricted interest is answered with what intersects its key" },
  { "INT-106", "FACT", "aggregate folds matches into the interest's own key" },
}

local SAID = {} -- by id of the expert info: what stands in front of what was seen
for _, one in ipairs(REQUIREMENTS) do
  local name, level, text, group = one[1], one[2], one[3], one[4]
  local id = name:lower():gsub("-", "_")
  local label = "ZN-" .. name .. " " .. text
  SAID[id] = label .. ": "
  Z.expert(id, label, group or "PROTOCOL", level == "SHOULD" and "NOTE" or "WARN")
end

-- What is kept ---------------------------------------------------------------------------------------

local MOST_TOLD = 65536 -- broken requirements that are said again when their packets are read again
local MOST = 4096 -- scouts, cookies, keys
local MOST_SAMPLES = 16384
local LONGEST = 1024 -- bytes of a cookie or a key of which all is remembered
local SLACK = 0.15 -- seconds that a busy machine may be late
local UNDER_WAY = 1 -- seconds in which a node can have sent something before it had read the CLOSE of the other end
local LATE = 0.5 -- seconds that an answer may be late
local VERSION = 9
local BITS_32, LARGEST_BATCH = 2, 65535 -- what holds when INIT does not say
local ROUTER, TO_SELF, LAST_REASON, LAST_CONSOLIDATION = 0, 7, 7, 3
local NEVER = math.huge

local told, scouts, scouting, cookies, judged, samples, mute

-- A table that forgets: two generations, the older one goes when the younger one is full.
local function recent()
  return { young = {}, old = {}, count = 0 }
end

local function recall(kept, name)
  local found = kept.young[name]
  if found == nil then found = kept.old[name] end
  return found
end

local function remember(kept, name, value)
  if kept.young[name] == nil then
    kept.count = kept.count + 1
    if kept.count > MOST then kept.young, kept.old, kept.count = {}, kept.young, 1 end
  end
  kept.young[name] = value
end

local function forget_all()
  told = memory.notes(MOST_TOLD)
  scouts, scouting, cookies, judged, samples = recent(), recent(), recent(), recent(), recent()
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

-- Says what a message breaks by itself: found again on every pass.
local function say(item, id, text)
  Z.note(item, id, SAID[id] .. text)
end

-- Says what a message breaks by what was said before: only found on the first pass, and not where packets were captured
-- out of order or lost.
local function broken(m, id, text)
  if mute then return end
  say(m.item, id, text)
  local list = told.by_place[m.place]
  if not list then
    list = {}
    memory.note(told, m.place, list)
  end
  list[#list + 1] = { id, text }
end

-- Numbers above 2^53 are no Lua numbers.
local function number(value)
  if type(value) == "number" then return value end
  return value and tonumber(tostring(value))
end

local function beyond(value, resolution)
  return resolution < 3 and value ~= nil and (type(value) ~= "number" or value >= 2 ^ (8 * 2 ^ resolution))
end

local function bits(resolution)
  return format("%d bit", 8 * 2 ^ resolution)
end

local function shown(key)
  if #key > 60 then key = sub(key, 1, 57) .. "..." end
  return "'" .. Z.shown(key) .. "'"
end

-- Bits and extensions --------------------------------------------------------------------------------

local function reserved(m, id, name)
  local value = m[name]
  if value and value ~= 0 then
    say(m.item, id, format("%s: bits %s at %s", m.label, type(value) == "number" and format("0x%x", value) or tostring(value),
      (name:gsub("reserved_?", ""))))
  end
end

-- Known extensions whose ENC and M a requirement states: one with the id but another header is a mistake.
local function all(id, last)
  local found = {}
  for index = 1, last do found[index] = id end
  return found
end

local TABLE = {
  transport_oam = { "oam_004" },
  init = all("init_042", 8),
  open = all("open_025", 7),
  frame = { "frm_007" },
  fragment = { "frg_104", "frg_005", "frg_005" },
  network_oam = all("oam_006", 2),
  push = { "net_004", "net_013", "rte_010" },
  request = { "net_004", "net_013", "req_102", "req_102", "req_102", "req_102" },
  response = { "net_004", "net_013", "rsp_006" },
  response_final = all("fin_006", 2),
  declare = all("dcl_003", 3),
  interest = all("int_006", 3),
  d_queryable = { "dcl_105" },
}

-- Judges the extension chain of a message.
local function chain(m)
  local ext = m.ext
  if ext.unknown_extension then
    local known = TABLE[m.name]
    for _, one in ipairs(known and m.extensions or {}) do
      local id = one.name == "unknown_extension" and known[one.header % 16]
      if id then
        say(one.item or m.item, id, format("%s extension 0x%x with header 0x%02x", m.label, one.header % 16, one.header))
      end
    end
  end
  local qos = ext.qos
  if qos then
    if qos.reserved6 and qos.reserved6 ~= 0 then reserved(qos, "net_010", "reserved6") end
    if qos.reserved3 and qos.reserved3 ~= 0 and m.name ~= "transport_oam" then reserved(qos, "frm_008", "reserved3") end
  end
end

-- Keys -----------------------------------------------------------------------------------------------

-- Returns why a chunk can stand in no key.
local function fault(chunk, key)
  if chunk == "*" or chunk == "**" then return nil end
  if chunk == "" then return key == "" and "empty, a key has at least one chunk" or "an empty chunk in " .. shown(key) end
  local rest = chunk:gsub("%$%*", "")
  if find(rest, "*", 1, true) then return "'*' in chunk " .. shown(chunk) .. ", where it stands neither alone nor behind a '$'" end
  if find(rest, "$", 1, true) then return "'$' in chunk " .. shown(chunk) .. " without a '*' behind it" end
  local stray = rest:match("[#?]")
  return stray and "'" .. stray .. "' in chunk " .. shown(chunk) .. ", no key has it" or nil
end

-- Returns the requirement a key breaks and how; false when it breaks none.
local function judge(key)
  if key ~= "" and not find(key, "[*$#?]") and not find(key, "//", 1, true) and byte(key) ~= 47 and byte(key, -1) ~= 47 then
    return false
  end
  local chunks, pending = {}, false
  for chunk in (key .. "/"):gmatch("([^/]*)/") do
    local why = fault(chunk, key)
    if why then return { "kex_101", why } end
    local count
    repeat chunk, count = chunk:gsub("%$%*%$%*", "$*") until count == 0
    if chunk == "$*" then chunk = "*" end
    -- One `**` at the end of each run of wildcards that has some.
    if chunk == "**" then
      pending = true
    else
      if pending and chunk ~= "*" then
        chunks[#chunks + 1], pending = "**", false
      end
      chunks[#chunks + 1] = chunk
    end
  end
  if pending then chunks[#chunks + 1] = "**" end
  local better = table.concat(chunks, "/")
  return better ~= key and { "kex_102", shown(key) .. " instead of " .. shown(better) }
end

local function check_key(m)
  local key = m.keyexpr
  if not key then return end
  local found = judged.young[key]
  if found == nil then
    found = judge(key)
    if #key <= LONGEST then remember(judged, key, found) end
  end
  if found then say(m.item, found[1], found[2]) end
end

-- What a message shows by itself -----------------------------------------------------------------------

local FORMS = {}

local function check_version(m, id)
  if m.version ~= VERSION then say(m.item, id, format("version 0x%02x", m.version)) end
end

local function check_zid(m, id)
  local zeros = m.zid and m.zid_len + 1 - floor((#m.zid + 1) / 2) or 0
  if zeros > 0 then say(m.item, id, format("a ZenohID with %d zero bytes at its end", zeros)) end
end

function FORMS.scout(m, b)
  reserved(m, "sct_011", "reserved_6")
  reserved(m, "sct_011", "reserved_5")
  check_version(m, "sct_018")
  check_zid(m, "sct_015")
  local target = tostring(b.pinfo.dst)
  if not links.is_group(b.pinfo.dst) and not find(target, "%.255$") then say(m.item, "sct_003", "to " .. target) end
end

local BY_HOST = { tcp = true, udp = true, tls = true, quic = true, ws = true }

local function is_host(address)
  local host, port = address:match("^(.*):(%d+)$")
  if not host or #port > 5 then return false end
  local inside = host:match("^%[([^%[%]]*)%]$")
  if not inside then return host ~= "" and not find(host, "[%[%]:/]") end
  local plain, zone = inside:match("^([^%%]*)%%(.*)$")
  return find(plain or inside, "^[%x:.]+$") ~= nil and (not zone or find(zone, "^[%w_.-]+$") ~= nil)
end

local function check_locator(m, locator)
  local proto, address, behind = locator:match("^([a-z0-9][a-z0-9+.-]*)/([^?#]+)(.*)$")
  local meta = behind and (behind == "" and "" or behind:match("^%?([^#]*)$"))
  local text = "locator " .. shown(locator)
  if not meta then say(m.item, "hlo_013", text) end
  local named, rest = locator:match("^([^/]*)/(.*)$")
  if BY_HOST[named] and not is_host(address or rest:match("^[^?]*")) then say(m.item, "hlo_014", text) end
  if not proto or not meta or meta == "" then return end
  for pair in (meta .. ";"):gmatch("([^;]*);") do
    if not find(pair, "^[^=&]+=[^&]*$") then
      say(m.item, "hlo_015", text)
      return
    end
  end
end

function FORMS.hello(m)
  reserved(m, "hlo_005", "reserved_6")
  reserved(m, "hlo_008", "reserved2")
  check_version(m, "hlo_010")
  check_zid(m, "hlo_007")
  for _, locator in ipairs(m.locators or {}) do check_locator(m, locator) end
end

function FORMS.init(m, b)
  if b.link.multicast then say(m.item, "msg_006", "INIT to a group") end
  check_version(m, "init_014")
  check_zid(m, "init_015")
  reserved(m, "init_016", "reserved2")
  reserved(m, "init_021", "reserved4")
end

function FORMS.open(m, b)
  if b.link.multicast then say(m.item, "msg_006", "OPEN to a group") end
  if m.lease == 0 then say(m.item, "open_003", "a lease of 0") end
  local wrong = m.ext and (m.A == 1 and m.ext.multi_link or m.A == 0 and m.ext.multi_link_ack)
  if wrong then say(m.item, "open_021", m.A == 1 and "a ZBuf in OpenAck" or "a Unit in OpenSyn") end
end

function FORMS.join(m)
  reserved(m, "join_001", "reserved2")
  reserved(m, "join_001", "reserved4")
  check_version(m, "join_002")
  check_zid(m, "join_003")
end

function FORMS.close(m)
  reserved(m, "cls_001", "reserved_6")
  if m.reason > LAST_REASON then say(m.item, "cls_101", format("reason 0x%02x", m.reason)) end
end

function FORMS.keep_alive(m)
  reserved(m, "ka_001", "reserved_6")
  reserved(m, "ka_001", "reserved_5")
end

function FORMS.frame(m, b)
  if m.reserved_6 ~= 0 then reserved(m, "frm_001", "reserved_6") end
  local raw, behind = b.raw, m.at + 2
  if m.ext then
    behind = m.extensions[#m.extensions].stop
  else
    while byte(raw, behind) >= 128 and behind < m.at + 10 do behind = behind + 1 end
  end
  local id = byte(raw, behind + 1)
  -- (An id of no message at all is refused.)
  if not id or id % 32 <= 7 then say(m.item, "frm_003", "a FRAME without a message") end
end

function FORMS.fragment(m)
  if m.M == 0 and m.ext and m.ext.drop then say(m.item, "frg_002", "Drop on a fragment that says it is the last one") end
end

function FORMS.push(m)
  check_key(m)
  local body = m.body
  if body and body.name == "del" then reserved(body, "del_001", "reserved_6") end
end

local function check_consolidation(body, id)
  local said = body.consolidation
  if said and number(said) > LAST_CONSOLIDATION then say(body.item, id, "consolidation " .. tostring(said)) end
end

function FORMS.request(m)
  check_key(m)
  if m.body and m.body.name == "query" then check_consolidation(m.body, "qry_002") end
end

function FORMS.response(m)
  -- Real nodes tell of a timeout with a RESPONSE without a key.
  if m.keyexpr ~= "" then check_key(m) end
  local responder = m.ext and m.ext.responder_id
  if responder then reserved(responder, "rsp_006", "reserved0") end
  local body = m.body
  if body and body.name == "reply" then
    reserved(body, "rpl_001", "reserved_6")
    check_consolidation(body, "rpl_002")
    if body.body and body.body.name == "del" then reserved(body.body, "del_001", "reserved_6") end
  end
end

function FORMS.response_final(m)
  reserved(m, "fin_001", "reserved_6")
  reserved(m, "fin_001", "reserved_5")
end

function FORMS.interest(m)
  if m.mode ~= 0 then check_key(m) end
end

local ENTITIES = { d_subscriber = "subscribers", d_queryable = "queryables", d_token = "tokens" }
local ASKED = { d_keyexpr = "keyexprs", d_subscriber = "subscribers", d_queryable = "queryables", d_token = "tokens" }

function FORMS.declare(m)
  if m.reserved_6 ~= 0 then reserved(m, "dcl_001", "reserved_6") end
  local body = m.body
  if not body then return end
  if ENTITIES[body.name] then
    -- (An alias may be a piece of a key.)
    check_key(m)
    if body.ext then chain(body) end
  elseif body.name == "d_keyexpr" and body.key_id == 0 then
    say(body.item, "push_002", "an alias of number 0")
  end
end

-- What a message shows by what was said before ---------------------------------------------------------

-- What rules remember of a link, for as long as one conversation on it.
local function notes_of(link)
  local notes = link.rules
  if not notes or notes.talk ~= link.talk then
    notes = { talk = link.talk, spoke = {}, limit = NEVER, most = NEVER, once = {}, lease = {}, roles = {} }
    link.rules = notes
  end
  return notes
end

-- Returns what is agreed, who speaks and who listens.
local function ends(b)
  local now = links.latest(b.link)
  local session, side = now.session, b.way.index - 1
  if now.flipped then side = 1 - side end
  return session, session.parties[side], session.parties[1 - side], side
end

-- Was all heard, of both ends, since the session began? Of datagrams nobody knows.
local function is_whole(b)
  local session, speaker, listener = ends(b)
  return b.link.tcp and not session.lossy and speaker.numbers.epoch == 0 and listener.numbers.epoch == 0
end

local acknowledged = Field.new("tcp.ack")

-- Has the speaker received something from the other end that is not in the capture?
local function knows_more(b)
  local found = { acknowledged() }
  local info = found[#found]
  return info == nil or info.value > (b.way.opposite.next or 1)
end

local function is_certain(b)
  return is_whole(b) and not knows_more(b)
end

-- Would a question of one end have been heard, had it been said? `what` is the message that asks.
local function would_be_known(b, session, party, what)
  if not party.complete or session.multilink or session.lossy then return false end
  return not (party.dropped and party.dropped[what]) and not knows_more(b)
end

local function has(message, ...)
  for index = 1, select("#", ...) do
    if message.ext[select(index, ...)] then return true end
  end
  return false
end

-- Returns what stands for a cookie, which may have 64 KiB.
local function abridged(cookie)
  return #cookie <= LONGEST and cookie or sub(cookie, 1, LONGEST) .. #cookie
end

-- What is worth remembering of INIT and OPEN.
local function memo(m)
  local ext = {}
  for name in pairs(m.ext or {}) do ext[name] = true end
  return {
    S = m.S, fsn = m.fsn or BITS_32, rid = m.rid or BITS_32, batch_size = m.batch_size or LARGEST_BATCH,
    patch = m.ext and m.ext.patch and number(m.ext.patch.patch) or 0,
    zid = m.zid, version = m.version, cookie = m.cookie and abridged(m.cookie), initial_sn = m.initial_sn, ext = ext,
    mandatory = m.refused ~= nil,
  }
end

local function is_readable(m)
  return not m.refused or m.refused.kind == "UnknownMandatoryExtension"
end

local STEPS = { "syn", "ack", "open_syn", "open_ack" }
local NAMES = { "InitSyn", "InitAck", "OpenSyn", "OpenAck" }

-- Judges the order of the handshake. A datagram without answer is sent again.
local function check_order(b, m, notes, step)
  if not notes.syn or not b.link.tcp then return end
  if (m.A == 1) == (b.way.index == notes.initiator) then
    broken(m, "init_001", NAMES[step] .. " from the side that sent " .. (step > 2 and "OpenSyn" or "InitSyn"))
  elseif notes[STEPS[step]] then
    broken(m, "init_001", "a second " .. NAMES[step] .. " on the link")
  elseif not notes[STEPS[step - 1]] and is_certain(b) then
    broken(m, "init_001", NAMES[step] .. " before what it answers")
  end
end

local ANSWERS = {
  { "init_049", "QoS", "qos", "qoslink" },
  { "init_035", "Shm", "shm" },
  { "init_037", "MultiLink", "multi_link" },
  { "init_038", "LowLatency", "low_latency" },
  { "init_039", "Compression", "compression" },
}

-- Judges what InitAck says to InitSyn.
local function check_answer(m, syn, ack)
  -- Without S real nodes read the defaults.
  if m.S == 1 then
    for _, name in ipairs({ "fsn", "rid" }) do
      if ack[name] > syn[name] then
        broken(m, "init_047", format("%s %s after a proposal of %s", name, bits(ack[name]), bits(syn[name])))
      end
    end
    if ack.batch_size > syn.batch_size then
      broken(m, "init_048", format("batch size %d after a proposal of %d", ack.batch_size, syn.batch_size))
    end
  end
  if not m.refused and not syn.mandatory then
    for _, one in ipairs(ANSWERS) do
      local id, name, first, second = one[1], one[2], one[3], one[4] or one[3]
      if has(ack, first, second) and not has(syn, first, second) then
        broken(m, id, name .. " in InitAck, nothing like it in InitSyn")
      end
    end
  end
  if syn.ext.qos and not syn.ext.qoslink and ack.ext.qoslink then broken(m, "init_032", "QoSLink in answer to QoS") end
  if ack.patch > syn.patch then
    broken(m, "init_040", format("patch %.0f after an offer of %.0f", ack.patch, syn.patch))
  end
  if ack.ext.low_latency and has(ack, "qos", "qoslink") then broken(m, "init_051", "InitAck accepts both") end
end

-- Judges that what cannot be agreed to is agreed to.
local function check_accepted(b, m, notes)
  if not notes.syn or b.way.index == notes.initiator then return end
  if (notes.open_syn or notes.syn).mandatory then broken(m, "ext_103", "accepted with " .. m.label) end
  if m.name == "init" and not notes.open_syn and notes.syn.version ~= VERSION then broken(m, "init_045", "accepted") end
end

local function both(syn, ack, ...)
  return has(syn, ...) and has(ack, ...)
end

local TALK = {}

function TALK.init(b, m)
  local notes, mine = notes_of(b.link), memo(m)
  check_order(b, m, notes, m.A == 1 and 2 or 1)
  if notes.open_ack then return end
  check_accepted(b, m, notes)
  if m.A == 1 and notes.syn and b.way.index ~= notes.initiator then check_answer(m, notes.syn, mine) end
  if m.cookie and m.cookie ~= "" and not notes.ack then
    local before, link = recall(cookies, mine.cookie), b.link
    -- A datagram may come twice, and is there twice where it was captured on two interfaces.
    if before and (link.tcp or link.cookie ~= mine.cookie) then
      broken(m, "init_031", "the cookie of packet " .. before .. " again")
    end
    link.cookie = mine.cookie
    remember(cookies, mine.cookie, b.number)
  end
  notes.roles[b.way.index] = m.whatami
  if m.A == 0 then
    notes.syn, notes.initiator = mine, b.way.index
    notes.ack, notes.open_syn, notes.open_ack, notes.opening = nil, nil, nil, true
    return
  end
  notes.ack = mine
  local syn = notes.syn
  if syn then
    notes.agreed = {
      qos = has(syn, "qos", "qoslink") and has(mine, "qos", "qoslink"),
      low_latency = both(syn, mine, "low_latency"),
      compression = both(syn, mine, "compression"),
      shm = both(syn, mine, "shm"),
      auth = has(syn, "auth") or has(mine, "auth"),
      batch_size = math.min(syn.batch_size, mine.batch_size),
    }
  end
end

local CONFIRMED = {
  { "open_018", "QoS", "qos" },
  { "open_022", "LowLatency", "low_latency" },
  { "open_023", "Compression", "compression" },
  { "open_020", "Auth", "auth" },
}

-- Begins to watch the time between batches and their size.
local function begin(notes)
  notes.live, notes.opening = true, false
  local one, other = notes.lease[1], notes.lease[2]
  if one and other and one > 0 and other > 0 then notes.limit = math.min(one, other) * 3 / 8 + SLACK end
  local agreed = notes.agreed
  if agreed and not agreed.low_latency and not agreed.compression then notes.most = agreed.batch_size end
  -- What the handshake said was judged; that it was heard is all that counts from here on.
  notes.syn, notes.ack, notes.open_syn = notes.syn and {}, notes.ack and {}, {}
end

function TALK.open(b, m)
  local notes, index, session = notes_of(b.link), b.way.index, ends(b)
  local syn, ack, asked = notes.syn, notes.ack, notes.open_syn
  local answers, from_initiator = m.A == 1, notes.initiator == index
  check_order(b, m, notes, answers and 4 or 3)
  if notes.open_ack then return end
  check_accepted(b, m, notes)
  if not m.refused and ack and ack.cookie and not answers and from_initiator and abridged(m.cookie) ~= ack.cookie then
    broken(m, "init_029", format("%d bytes that are not those of InitAck", #m.cookie))
  end
  if answers and not from_initiator and asked and ack and ack.cookie and asked.cookie and asked.cookie ~= ack.cookie then
    broken(m, "open_005", "accepted all the same")
  end
  local fsn = session.fsn
  if fsn and beyond(m.initial_sn, fsn) then broken(m, "open_007", tostring(m.initial_sn) .. " at " .. bits(fsn)) end
  if fsn and answers and asked and not from_initiator and beyond(asked.initial_sn, fsn) then
    broken(m, "open_009", tostring(asked.initial_sn) .. " at " .. bits(fsn) .. " was accepted")
  end
  local agreed = syn and notes.agreed
  if agreed and not m.refused then
    for _, one in ipairs(CONFIRMED) do
      if m.ext and m.ext[one[3]] and not agreed[one[3]] then broken(m, one[1], one[2] .. ", which INIT has not agreed on") end
    end
  end
  notes.lease[index] = number(m.lease) * (m.T == 1 and 1 or 0.001)
  if not answers then
    notes.open_syn = memo(m)
  else
    notes.open_ack = true
    if asked then begin(notes) end
  end
end

function TALK.close(b, m)
  local notes = notes_of(b.link)
  local syn, ack = notes.syn, notes.ack
  local answers = syn and ack and not notes.open_ack and b.way.index ~= notes.initiator
  if answers and notes.open_syn and syn.zid == ack.zid and m.reason ~= TO_SELF then
    broken(m, "cls_106", format("reason %d for a connection to itself", m.reason))
  end
  notes.closed = notes.closed or {}
  notes.closed[b.way.index] = b.time
end

function TALK.join(b, m)
  local notes = notes_of(b.link)
  if not b.link.multicast then return end
  notes.joined = b.time
  notes.join_limit = number(m.lease) * (m.T == 1 and 1 or 0.001) + SLACK
end

-- Judges how long one end was silent.
local function check_pace(b, m, notes, gap)
  if not is_whole(b) then return end
  local own, other = notes.lease[b.way.index], notes.lease[3 - b.way.index]
  for _, one in ipairs({ { "ka_102", own }, { "ka_101", math.min(own, other) } }) do
    if gap > one[2] * 3 / 8 + SLACK then
      local name = one[1] .. b.way.index
      if not notes.once[name] then
        notes.once[name] = true
        broken(m, one[1], format("%.2f s of silence at a lease of %.0f ms", gap, one[2] * 1000))
      end
      break
    end
  end
  local longest = math.max(own, other)
  if gap > longest * 9 / 8 + SLACK and not notes.once.expired then
    notes.once.expired = true
    broken(m, "open_014", format("the session goes on after %.2f s of silence at %.0f ms", gap, longest * 1000))
  end
end

local function check_behind_close(b, m, notes)
  if m.name == "close" or m.name == "join" or b.link.multicast then return end
  local index = b.way.index
  if notes.closed[index] and is_whole(b) then broken(m, "cls_004", m.label .. " behind the sender's own CLOSE") end
  local other = notes.closed[3 - index]
  if other and b.time - other > UNDER_WAY then
    broken(m, "cls_102", format("%s %.1f s after the other end's CLOSE", m.label, b.time - other))
  end
end

local HANDSHAKE = { init = true, open = true, close = true, join = true }

-- Judges a message that stands in no other by the time, by its batch, and by what the link has seen.
local function hear_outermost(b, m)
  local notes = notes_of(b.link)
  local index, time = b.way.index, b.time
  local before = notes.spoke[index]
  if before ~= time then
    notes.spoke[index] = time
    if before and time - before > notes.limit and not notes.closed then check_pace(b, m, notes, time - before) end
  end
  if #b.raw > notes.most and m.at == 0 and not notes.closed then
    broken(m, "init_027", format("a batch of %d bytes, %d are agreed", #b.raw, notes.most))
  end
  if notes.closed then
    check_behind_close(b, m, notes)
  elseif notes.opening and not HANDSHAKE[m.name] and is_certain(b) then
    broken(m, "msg_009", m.label .. " before OpenAck")
  end
  if notes.joined and m.name ~= "join" and time - notes.joined > notes.join_limit and not notes.once.join then
    notes.once.join = true
    broken(m, "join_005", format("%.2f s since the last JOIN, at a lease of %.0f ms", time - notes.joined,
      (notes.join_limit - SLACK) * 1000))
  end
end

function TALK.scout(b, m)
  remember(scouts, b.number, m.what)
  local pinfo = b.pinfo
  local who = table.concat({ tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), sub(b.raw, 1, 64) }, " ")
  local before = recall(scouting, who)
  local gap = before and b.time - before.time or 0
  if before and before.gap > 0 and gap < 0.75 * math.min(before.gap, 8) then
    broken(m, "sct_009", format("%.1f s after the last one, the gap before was %.1f s", gap, before.gap))
  end
  remember(scouting, who, { time = b.time, gap = gap })
end

function TALK.hello(b, m)
  local scout = m.exchange
  local what = scout and recall(scouts, scout.packet)
  if what and floor(what / 2 ^ m.whatami) % 2 == 0 then
    broken(m, "sct_004", format("role %d answers a SCOUT for 0x%x", m.whatami, what))
  end
  if scout and scout.zid and scout.zid == m.zid then broken(m, "sct_007", "HELLO to a SCOUT with the same ZenohID") end
end

function TALK.fragment(b, m)
  if m.ext and m.ext.drop and ends(b).patch == 0 then broken(m, "init_043", "Drop at patch 0") end
end

local function without_shm(b)
  local agreed = notes_of(b.link).agreed
  return agreed and not agreed.shm
end

local MARK = 18 -- bytes of a timestamp: 9 of time, the length of the id, 8 or more of it

-- Returns what makes a sample unique: its source and number, or its timestamp as it is in the bytes.
local function mark_of(b, body, ext)
  local source = ext and ext.source_info
  if source then
    return table.concat({ source.zid, tostring(source.eid), tostring(source.source_sn) }, " ")
  end
  return sub(b.raw, body.at + 2, body.at + 1 + MARK)
end

-- Judges that a sample does not go back to where it came from. Kept by session and end, so that no name is made for each
-- sample; two generations in all.
local function check_back(b, m, mark)
  local session, _, _, side = ends(b)
  local key, mine = m.keyexpr, side + 1
  local young, old = samples.young[session], samples.old[session]
  if (young and young[3 - mine][mark] == key) or (old and old[3 - mine][mark] == key) then
    if not ((young and young[mine][mark]) or (old and old[mine][mark])) then
      broken(m, "rte_013", "what the other end has sent goes back")
    end
    return
  end
  if samples.count > MOST_SAMPLES then
    samples.young, samples.old, samples.count = {}, samples.young, 0
    young = nil
  end
  if not young then
    young = { {}, {} }
    samples.young[session] = young
  end
  samples.count = samples.count + 1
  young[mine][mark] = key
end

function TALK.push(b, m)
  local body = m.body
  local ext = body.ext
  if ext and ext.shm and without_shm(b) then broken(m, "put_004", "Shm without an agreement on it") end
  if (body.T == 1 or (ext and ext.source_info)) and m.keyexpr and #m.keyexpr <= LONGEST and not b.link.multicast then
    check_back(b, m, mark_of(b, body, ext))
  end
end

function TALK.request(b, m)
  local session, _, _, side = ends(b)
  local query, exchange, ext = m.body, m.exchange, m.ext
  if session.rid and beyond(m.request_id, session.rid) then
    local notes = notes_of(b.link)
    if not notes.once["rid" .. side] then
      notes.once["rid" .. side] = true
      broken(m, "req_101", format("id %s at %s, and perhaps more", tostring(m.request_id), bits(session.rid)))
    end
  end
  if query.ext and query.ext.query_body_shm and without_shm(b) then
    broken(m, "qry_005", "the marker without an agreement on shared memory")
  end
  if exchange and ext then
    exchange.budget = ext.budget and number(ext.budget.budget)
    exchange.timeout = ext.timeout and number(ext.timeout.timeout)
  end
end

function TALK.response(b, m)
  local exchange, body = m.exchange, m.body
  local data = body.name == "reply" and body.body or body
  if data.ext and data.ext.shm and without_shm(b) then broken(m, "put_004", "Shm without an agreement on it") end
  local most = exchange and exchange.budget
  if most and most > 0 and exchange.answered > most then
    broken(m, "req_104", format("reply %d to a REQUEST with a budget of %.0f", exchange.answered, most))
  end
end

function TALK.response_final(b, m)
  local exchange = m.exchange
  if exchange then
    -- A node that only has a queryable may be late: the router between it and the asker is what watches the time.
    local limit, waited = exchange.timeout, b.time - exchange.asked_time
    if limit and notes_of(b.link).roles[b.way.index] == ROUTER and waited > limit / 1000 * 9 / 8 + LATE then
      broken(m, "req_103", format("after %.1f s, the timeout is %.0f ms", waited, limit))
    end
    return
  end
  local session, _, listener, side = ends(b)
  if not would_be_known(b, session, listener, "request") then return end
  local owner = session.multicast and 0 or 1 - side
  local before = exchanges.find(session.room, owner, "query", memory.name(m.request_id), m.place)
  if not before then
    broken(m, "fin_002", "no open request has the id " .. tostring(m.request_id))
  elseif not session.multicast then
    broken(m, "fin_004", "a second one, the first is in packet " .. tostring(before.ended))
  end
end

function TALK.interest(_, m)
  local exchange = m.exchange
  if exchange and m.mode ~= 0 then
    exchange.kinds = { keyexprs = m.keyexprs, subscribers = m.subscribers, queryables = m.queryables, tokens = m.tokens }
    exchange.aggregate = m.aggregate == 1
  end
end

local function wanted(kinds)
  local names = {}
  for _, name in ipairs({ "keyexprs", "subscribers", "queryables", "tokens" }) do
    if kinds[name] == 1 then names[#names + 1] = name end
  end
  return #names > 0 and table.concat(names, ", ") or "nothing"
end

-- Judges a declaration that says to answer an interest.
local function check_declared(m, asked)
  local body, key, interest = m.body, m.keyexpr, asked.keyexpr
  local kind = ASKED[body.name]
  if kind and asked.kinds and asked.kinds[kind] ~= 1 then
    broken(m, "int_004", body.label .. " for an interest in " .. wanted(asked.kinds))
  end
  if not interest or interest == "" or not key or key == "" or not ENTITIES[body.name] then return end
  local invalid = judge(interest) and judge(interest)[1] == "kex_101" or judge(key) and judge(key)[1] == "kex_101"
  if not invalid and Z.keys_intersect and not Z.keys_intersect(interest, key) then
    broken(m, "int_105", shown(key) .. " in answer to " .. shown(interest))
  end
  if asked.aggregate and key ~= interest and body.name ~= "d_token" then
    broken(m, "int_106", shown(key) .. " instead of " .. shown(interest))
  end
end

function TALK.declare(b, m)
  if m.I ~= 1 then return end
  if m.interest then
    check_declared(m, m.interest)
    return
  end
  -- With id 0 peers say unasked that all they had to declare at the beginning is told.
  local session, _, listener, side = ends(b)
  if m.interest_id == 0 or session.multicast or not notes_of(b.link).live then return end
  if not would_be_known(b, session, listener, "interest") then return end
  if not exchanges.find(session.room, 1 - side, "interest", memory.name(m.interest_id), m.place) then
    broken(m, "dcl_002", format("an answer to interest %s, which is not open", tostring(m.interest_id)))
  end
end

-- BlockFirst: rare, on any network message.
local function check_block_first(b, m)
  if ends(b).patch == 0 then broken(m, "net_009", "BlockFirst at patch 0") end
end

-- Every message --------------------------------------------------------------------------------------

local function hear(b, m)
  local ext = m.ext
  mute = b.again or links.is_disordered(b.link) or b.link.ahead
  if not m.refused then
    local form = FORMS[m.name]
    if form then form(m, b) end
    if ext then chain(m) end
  end
  if b.visited then
    local list = told.by_place[m.place]
    if list then
      for index = 1, #list do say(m.item, list[index][1], list[index][2]) end
    end
    return
  end
  if m.kind ~= "scouting" then
    if not m.within then hear_outermost(b, m) end
    if ext and ext.qos and ext.qos.F == 1 and not m.refused then check_block_first(b, m) end
  end
  local talk = TALK[m.name]
  if m.ignored and m.kind == "network" then
    -- Into what receivers should drop the conversation does not look; this one may take it all the same.
    local _, speaker = ends(b)
    speaker.dropped = speaker.dropped or {}
    speaker.dropped[m.name], talk = true, nil
  end
  if talk and (not m.refused or (HANDSHAKE[m.name] and is_readable(m))) then talk(b, m) end
end

Z.listen(hear)
end

-- payload ---------------------------------------------------------------------------------------------

do
-- What is inside: payloads go to Wireshark's own dissectors, by the user's table or by their encoding; attachments
-- that ROS 2 nodes (rmw_zenoh) write are read.

local byte, sub, find = string.byte, string.sub, string.find
local MOST_CACHED = 2048 -- keys whose place in the user's table is remembered
local LONGEST_CACHED = 256 -- bytes of such a key

-- Key expressions ------------------------------------------------------------------------------------

-- Two keys intersect when some key without wildcards is matched by both. Verbatim chunks (`@...`) match only
-- themselves, so what stands between them is compared piece by piece. In a piece the leftmost place for each run of
-- chunks between two `**` is the best one: there is no search through combinations.

local function split(text, separator)
  local parts, at = {}, 1
  while true do
    local first, last = find(text, separator, at, true)
    if not first then
      parts[#parts + 1] = sub(text, at)
      return parts
    end
    parts[#parts + 1] = sub(text, at, first - 1)
    at = last + 1
  end
end

local function taken_apart(key)
  local apart = { verbatim = {}, between = { {} } }
  for _, chunk in ipairs(split(key, "/")) do
    if sub(chunk, 1, 1) == "@" then
      apart.verbatim[#apart.verbatim + 1] = chunk
      apart.between[#apart.between + 1] = {}
    else
      local piece = apart.between[#apart.between]
      piece[#piece + 1] = chunk
      piece.any = piece.any or chunk == "**"
    end
  end
  return apart
end

-- Tells whether a chunk without wildcards is the parts of another in order, with anything at each `$*`.
local function chunk_matches(pattern, text)
  local parts = split(pattern, "$*")
  local first, last = parts[1], parts[#parts]
  local stop = #text - #last
  if #first > stop or sub(text, 1, #first) ~= first or sub(text, stop + 1) ~= last then
    return false
  end
  local at = #first + 1
  for index = 2, #parts - 1 do
    local start, behind = find(text, parts[index], at, true)
    if not start or behind > stop then
      return false
    end
    at = behind + 1
  end
  return true
end

local function agree(a, b)
  local size = math.min(#a, #b)
  return sub(a, 1, size) == sub(b, 1, size)
end

local function agree_backwards(a, b)
  local size = math.min(#a, #b)
  return size == 0 or sub(a, -size) == sub(b, -size)
end

local function chunks_intersect(a, b)
  if a == b or a == "*" or b == "*" then
    return true
  end
  if not find(a, "$*", 1, true) then
    return find(b, "$*", 1, true) ~= nil and chunk_matches(b, a)
  end
  if not find(b, "$*", 1, true) then
    return chunk_matches(a, b)
  end
  -- Between what both begin and end with, each takes all that the other has.
  local left, right = split(a, "$*"), split(b, "$*")
  return agree(left[1], right[1]) and agree_backwards(left[#left], right[#right])
end

-- Lays chunks from..to of one list over those of another from a place on.
local function lies_over(run, from, to, chunks, at)
  for index = from, to do
    local other = chunks[at + index - from]
    if not other or not chunks_intersect(run[index], other) then
      return false
    end
  end
  return true
end

-- `a` has `**`, `b` has none.
local function fits(a, b)
  local runs, from = {}, 1
  for index = 1, #a + 1 do
    if index > #a or a[index] == "**" then
      runs[#runs + 1] = { from, index - 1 }
      from = index + 1
    end
  end
  local head, tail = runs[1], runs[#runs]
  local tail_size = tail[2] - tail[1] + 1
  local at, stop = head[2] + 1, #b - tail_size
  if at - 1 > stop or not lies_over(a, head[1], head[2], b, 1) or not lies_over(a, tail[1], tail[2], b, stop + 1) then
    return false
  end
  for number = 2, #runs - 1 do
    local run = runs[number]
    local size = run[2] - run[1] + 1
    while at + size - 1 <= stop and not lies_over(a, run[1], run[2], b, at) do
      at = at + 1
    end
    if at + size - 1 > stop then
      return false
    end
    at = at + size
  end
  return true
end

local function pieces_intersect(a, b)
  if not a.any and not b.any then
    return #a == #b and lies_over(a, 1, #a, b, 1)
  end
  if not b.any then
    return fits(a, b)
  end
  if not a.any then
    return fits(b, a)
  end
  -- In front of the first `**` and behind the last, both must agree as far as both have something.
  local index = 1
  while a[index] ~= "**" and b[index] ~= "**" do
    if not chunks_intersect(a[index], b[index]) then
      return false
    end
    index = index + 1
  end
  index = 0
  while a[#a - index] ~= "**" and b[#b - index] ~= "**" do
    if not chunks_intersect(a[#a - index], b[#b - index]) then
      return false
    end
    index = index + 1
  end
  return true
end

local function intersects(left, right)
  if #left.verbatim ~= #right.verbatim then
    return false
  end
  for index, chunk in ipairs(left.verbatim) do
    if chunk ~= right.verbatim[index] then
      return false
    end
  end
  for index, piece in ipairs(left.between) do
    if not pieces_intersect(piece, right.between[index]) then
      return false
    end
  end
  return true
end

-- Tells whether two key expressions intersect.
function Z.keys_intersect(a, b)
  return a == b or intersects(taken_apart(a), taken_apart(b))
end

-- Returns why a text is no key expression, nil when it is one.
local function fault_of_key(text)
  for _, chunk in ipairs(split(text, "/")) do
    local rest = string.gsub(chunk, "%$%*", "")
    if chunk == "" then
      return "an empty chunk"
    end
    if chunk ~= "*" and chunk ~= "**" and find(rest, "[%*%$#?]") then
      return "'" .. chunk .. "' is no chunk"
    end
  end
  return nil
end

-- Dissectors -----------------------------------------------------------------------------------------

-- What an encoding is for Wireshark, where it is not listed there under its own name.
local ALIASES = {
  ["text/json"] = "application/json",
  ["text/xml"] = "application/xml",
  ["zenoh/string"] = "text/plain",
  ["text/json5"] = "text/plain",
  ["application/yaml"] = "text/plain",
  ["application/openmetrics-text"] = "text/plain",
  ["application/sql"] = "text/plain",
  ["application/json-seq"] = "text/plain",
  ["application/jsonpath"] = "text/plain",
  ["application/jwt"] = "text/plain",
  ["application/yang"] = "text/plain",
}

-- Dissectors by name, where there is no media type.
local NAMED = {
  ["application/protobuf"] = "protobuf",
  ["application/cdr"] = "cdr",
}

-- Payloads need not be what their encoding says. Where that can be told before, no dissector has to fail.

local function begins_with(text)
  return function(data) return sub(data, 1, #text) == text end
end

local DEEPEST = 64 -- arrays and maps inside of each other

-- Returns the argument behind the first byte of a CBOR item, and the place behind it; -1 for an indefinite length.
local function cbor_argument(data, at, low)
  if low < 24 then
    return low, at + 1
  end
  local size = low < 28 and 2 ^ (low - 24)
  if not size then
    return low == 31 and -1 or nil, at + 1
  end
  if at + size > #data then
    return nil
  end
  local value = 0.0 -- integers of Lua 5.3 would wrap
  for index = at + 1, at + size do
    value = value * 256 + byte(data, index)
  end
  return value, at + 1 + size
end

-- Tells whether bytes begin with a well-formed CBOR item.
local function is_cbor(data)
  local at, open = 1, {} -- items that are missing in each array and map that is open; -1 when a break ends it
  repeat
    local first = byte(data, at)
    if not first then
      return false
    end
    local major, value = (first - first % 32) / 32, nil
    local left = open[#open]
    if first == 255 then
      if left ~= -1 then
        return false
      end
      open[#open], at = nil, at + 1
    else
      value, at = cbor_argument(data, at, first % 32)
      if not value or (value == -1 and (major < 2 or major > 5)) then
        return false
      end
      if left and left > 0 then
        open[#open] = left - 1
      end
      if major == 6 then
        open[#open + 1] = 1 -- a tag, and what it is about
      elseif value == -1 then
        open[#open + 1] = -1
      elseif major == 2 or major == 3 then
        at = at + value
      elseif major == 4 or major == 5 then
        open[#open + 1] = value * (major - 3)
      end
    end
    if at > #data + 1 or #open > DEEPEST then
      return false
    end
    while open[#open] == 0 do
      open[#open] = nil
    end
  until #open == 0
  return true
end

-- Tells whether bytes are fields of Protocol Buffers, to the last one.
local function is_protobuf(data)
  local at = 0
  while at < #data do
    local tag, _, behind = Z.vle(data, at, #data)
    local kind = tag and tag % 8
    if not tag or tag < 8 then
      return false
    end
    at = behind
    if kind == 0 or kind == 2 then
      local value, high
      value, high, behind = Z.vle(data, at, #data)
      if not value or (kind == 2 and high > 0) then
        return false
      end
      at = kind == 2 and behind + value or behind
    elseif kind == 1 or kind == 5 then
      at = at + (kind == 1 and 8 or 4)
    elseif kind ~= 3 and kind ~= 4 then
      return false
    end
  end
  return at == #data
end

-- Tells whether bytes begin as XML does: with a tag, behind blanks, or with the mark of another encoding of its text.
local function is_xml(data)
  return find(data, "^\239?\187?\191?%s*<") ~= nil or find(data, "^\254\255") ~= nil or find(data, "^\255\254") ~= nil
end

local CHECKS = {
  ["image/png"] = begins_with("\137PNG"),
  ["image/jpeg"] = begins_with("\255\216"),
  ["image/gif"] = begins_with("GIF8"),
  ["application/cbor"] = is_cbor,
  ["application/protobuf"] = is_protobuf,
}
Z.payload_checks = CHECKS

local function dissector_of(name)
  local found, dissector = pcall(Dissector.get, name)
  return found and dissector or nil
end

-- What hands a payload on. `call(tvb, pinfo, tree)` may raise an error.
local function by_name(name)
  local dissector = dissector_of(name)
  return dissector and { call = function(tvb, pinfo, tree) dissector:call(tvb, pinfo, tree) end }
end

local function by_media_type(name)
  local dissectors = Z.table_of("media_type")
  local found, dissector = pcall(function() return dissectors:get_dissector(name) end)
  if not found or not dissector then
    return nil
  end
  return {
    name = name,
    check = CHECKS[name] or (find(name, "[/+]xml$") and is_xml) or nil,
    call = function(tvb, pinfo, tree) dissectors:try(name, tvb, pinfo, tree) end,
  }
end

local function protobuf(message)
  local dissector = dissector_of("protobuf")
  return dissector and {
    name = "application/protobuf",
    check = is_protobuf,
    call = function(tvb, pinfo, tree)
      -- How that dissector is told the type of a message.
      pinfo.private["pb_msg_type"] = message and "message," .. message or nil
      local done, why = pcall(dissector.call, dissector, tvb, pinfo, tree)
      pinfo.private["pb_msg_type"] = nil
      if not done then
        error(why, 0)
      end
    end,
  }
end

-- Returns what takes payloads of a media type, nil when nothing does.
local function of_media_type(name, schema)
  if NAMED[name] == "protobuf" then
    return protobuf(schema and string.match(schema, "^[%a_][%w_%.]*$"))
  end
  if NAMED[name] then
    return by_name(NAMED[name]) or by_media_type(name)
  end
  local found = by_media_type(name) or (ALIASES[name] and by_media_type(ALIASES[name]))
  if found then
    return found
  end
  if sub(name, -5) == "+json" then
    return by_media_type("application/json")
  end
  if sub(name, -4) == "+xml" then
    return by_media_type("application/xml")
  end
  return sub(name, 1, 5) == "text/" and by_media_type("text/plain") or nil
end

local CUSTOM = 65535
local encoded = {} -- what takes a payload, by the number of its encoding; false for nothing

local function of_encoding(number, schema)
  if number == CUSTOM then
    -- Names of one's own are not cached: there is no end of them.
    local name = schema and string.match(schema, "^%w+/[%w%-%+%.]+")
    return name and of_media_type(string.lower(name)) or nil
  end
  local name = Z.encodings[number]
  if not name or number == 0 then
    return nil -- bytes: could be anything
  end
  if NAMED[name] == "protobuf" then
    return of_media_type(name, schema)
  end
  if encoded[number] == nil then
    encoded[number] = of_media_type(name) or false
  end
  return encoded[number] or nil
end

-- The user's table -----------------------------------------------------------------------------------

local rules = {}
local cached, cached_count = {}, 0

local function target_of(name)
  if name == "none" then
    return {}
  end
  local dissector, message = string.match(name, "^(protobuf):([%a_][%w_%.]*)$")
  if dissector then
    return protobuf(message)
  end
  if find(name, "/", 1, true) then
    return of_media_type(string.lower(name))
  end
  return name ~= "zenoh" and by_name(name) or nil
end

-- Takes entries `KEY=DISSECTOR` with semicolons between them. Returns a sentence for each that cannot be used.
function Z.set_payload_table(text)
  rules, cached, cached_count = {}, {}, 0
  local faults = {}
  for entry in string.gmatch(text, "[^;]+") do
    entry = string.match(entry, "^%s*(.-)%s*$")
    local key, name = string.match(entry, "^(.-)%s*=%s*(.+)$")
    local fault = key and fault_of_key(key)
    if entry ~= "" and not key then
      faults[#faults + 1] = "'" .. entry .. "' is not KEY=DISSECTOR"
    elseif fault then
      faults[#faults + 1] = "'" .. key .. "' is no key expression: " .. fault
    elseif key then
      local target = target_of(name)
      if target then
        rules[#rules + 1] = { key = taken_apart(key), target = target }
      else
        faults[#faults + 1] = "there is no dissector and no media type '" .. name .. "'"
      end
    end
  end
  return faults
end

local function of_key(key)
  if #rules == 0 or not key then
    return nil
  end
  local known = cached[key]
  if known ~= nil then
    return known or nil
  end
  local apart, target = taken_apart(key), false
  for _, rule in ipairs(rules) do
    if intersects(rule.key, apart) then
      target = rule.target
      break
    end
  end
  if #key <= LONGEST_CACHED then
    if cached_count >= MOST_CACHED then
      cached, cached_count = {}, 0
    end
    cached[key], cached_count = target, cached_count + 1
  end
  return target or nil
end

-- Handing on -----------------------------------------------------------------------------------------

-- Payloads of one packet that are handed on. Wireshark counts every dissector that a packet went through,
-- next to each other or not, and gives the packet up at 500; some call others.
local MOST_HANDED_ON = 128

local inside = false -- a payload is no place for payloads: a key table may name anything

-- What dissectors of payloads may look at: pinfo.private["zenoh.keyexpr"] and so on.
local function tell(pinfo, key, encoding, schema)
  local private = pinfo.private
  private["zenoh.keyexpr"], private["zenoh.encoding"], private["zenoh.schema"] = key, encoding, schema
end

-- Counts what is handed on in a packet, whatever it came in; false when that is enough. What is private to a packet
-- begins anew each time it is read.
local function counted(pinfo)
  local count = tonumber(pinfo.private["zenoh.payloads"]) or 0
  if count >= MOST_HANDED_ON then
    return false
  end
  pinfo.private["zenoh.payloads"] = string.format("%d", count + 1)
  return true
end

local function dissect(b, item, target, at, size)
  local pinfo = b.pinfo
  -- No dissector of a payload may ask the stream for more.
  local length, offset = pinfo.desegment_len, pinfo.desegment_offset
  inside = true
  -- Bytes that are not what they should be raise an error there, and are shown as such.
  pcall(target.call, b.range(at, size):tvb(), pinfo, item)
  inside = false
  Z.payload_shown = true
  pinfo.desegment_len, pinfo.desegment_offset = length, offset
  for _, column in ipairs({ "protocol", "info" }) do
    pcall(function() pinfo.cols[column]:clear_fence() end)
  end
  pinfo.cols.protocol:set("Zenoh")
end

-- `value` is what has a payload: PUT, ERR or the body of a QUERY.
local function show_payload(b, item, key, value, stop)
  local data = value.data
  if type(data) ~= "string" or data == "" then
    return
  end
  local target = of_key(key) or of_encoding(value.encoding or 0, value.schema)
  if not target or not target.call then
    return
  end
  if target.check and not target.check(data) then
    item:add(b.range(stop - #data, #data), "[Not " .. target.name .. ", so no dissector has it]")
    return
  end
  if not counted(b.pinfo) then
    item:add(b.range(stop - #data, #data), "[No dissector has more than " .. MOST_HANDED_ON .. " payloads of a packet]")
    return
  end
  tell(b.pinfo, key, Z.encodings[value.encoding or 0], value.schema)
  dissect(b, item, target, stop - #data, #data)
  tell(b.pinfo, nil, nil, nil)
end

-- Returns where the body of an extension ends: behind the header stands its length.
local function end_of_body(b, extension)
  local length, _, at = Z.vle(b.raw, extension.at + 1, #b.raw)
  return at + length
end

-- ROS 2 ----------------------------------------------------------------------------------------------

local F = {
  sequence_number = Z.field("ros2.sequence_number", "int64", "sequence_number"),
  source_timestamp = Z.field("ros2.source_timestamp", "absolute_time", "source_timestamp"),
  source_gid = Z.field("ros2.source_gid", "bytes", "source_gid"),
}
local GID_BYTES = 16
local BARE = { "", "", "" }
local NAMES = { "\15sequence_number", "\16source_timestamp", "\10source_gid" }

-- Returns where the three values are in an attachment, nil when it is another one.
local function places(raw, names)
  local at, found = 0, {}
  for index, name in ipairs(names) do
    if sub(raw, at + 1, at + #name) ~= name then
      return nil
    end
    at = at + #name
    found[index] = at
    at = at + (index < 3 and 8 or 1 + GID_BYTES)
  end
  return at == #raw and byte(raw, found[3] + 1) == GID_BYTES and found or nil
end

-- Nanoseconds of 64 bits, low byte first, as seconds and the rest; numbers do not hold them in one.
local function time_at(raw, at)
  local digits, negative = { byte(raw, at + 1, at + 8) }, byte(raw, at + 8) >= 128
  if negative then
    local carry = 1
    for index = 1, 8 do
      local digit = 255 - digits[index] + carry
      carry = digit > 255 and 1 or 0
      digits[index] = digit % 256
    end
  end
  local seconds, rest = 0, 0
  for index = 8, 1, -1 do
    local value = rest * 256 + digits[index]
    rest = value % 1000000000
    seconds = seconds * 256 + (value - rest) / 1000000000
  end
  if negative then
    return -seconds, -rest
  end
  return seconds, rest
end

-- Returns what an attachment of rmw_zenoh says: places of the three values in it.
function Z.ros2_places(raw)
  return places(raw, BARE) or places(raw, NAMES)
end

local function show_attachment(b, item, attachment)
  local raw = attachment.attachment
  local found = type(raw) == "string" and Z.ros2_places(raw)
  if not found then
    return
  end
  local at = end_of_body(b, attachment) - #raw
  local sub_item = item:add(b.range(at, #raw), "ROS 2 (rmw_zenoh)")
  sub_item:add_le(F.sequence_number, b.range(at + found[1], 8))
  local seconds, nanoseconds = time_at(raw, found[2])
  sub_item:add(F.source_timestamp, b.range(at + found[2], 8), NSTime.new(seconds, nanoseconds))
  sub_item:add(F.source_gid, b.range(at + found[3] + 1, GID_BYTES))
end

-- Messages -------------------------------------------------------------------------------------------

local CARRIES = { push = true, request = true, response = true }

local function hear(b, m)
  if inside then
    return
  end
  local value = m.body
  while value and value.name == "reply" do
    value = value.body
  end
  if not value or value.refused then
    return
  end
  local item, extensions = value.item or m.item, value.ext
  if not item then
    return
  end
  if extensions and extensions.attachment then
    show_attachment(b, item, extensions.attachment)
  end
  if not Z.settings.payload then
    return
  end
  if value.name == "query" then
    local body = extensions and extensions.query_body
    if body and type(body.data) == "string" then
      show_payload(b, item, m.keyexpr, body, end_of_body(b, body))
    end
  elseif value.data then
    show_payload(b, item, m.keyexpr, value, value.stop)
  end
end

Z.listen(hear, function(name) return CARRIES[name] end)
end

-- statistics ------------------------------------------------------------------------------------------

do
-- A capture in numbers: `tshark -z zenoh,messages|keys|sessions|requests[,FILTER]`, and Tools > Zenoh in Wireshark.
--
-- What a packet says is noted while it is dissected and counted when Wireshark taps it: once for each look at a
-- capture, however often its packets are dissected, and only those that pass the filter.

local floor, log, exp, min, max = math.floor, math.log, math.exp, math.min, math.max
local MOST_ROWS = 10000 -- of a table that are told apart
local MOST_SHOWN = 100
local MOST_ASKED = 100000 -- requests that wait for their answers
local LONGEST_TEXT = 64 -- characters of a key that are shown
local STEP = log(1.02) -- response times are counted in steps of two percent

-- What the packet in work says -------------------------------------------------------------------------

local taps = 0
local said = { count = 0 }

local function count_taps(more)
  taps = taps + more
  Z.choose_listeners()
end

local function forget()
  said = { count = 0 }
end

Z.on_init[#Z.on_init + 1] = forget

local function hear(b, m)
  if said.number ~= b.number or said.visited ~= b.visited then
    said = { count = 0, number = b.number, visited = b.visited }
  end
  local count = said.count
  said[count + 1], said[count + 2], said.count = b, m, count + 2
end

Z.listen(hear, function() return taps > 0 end)

-- Text -------------------------------------------------------------------------------------------------

local function width_of(text)
  local _, behind = string.gsub(text, "[\128-\191]", "")
  return #text - behind
end

-- A key may be anything: what does not show is replaced, what is long is cut in the middle.
local function shown(text)
  if text == "" then
    return "(no key)"
  end
  text = string.gsub(Z.shown(text), "[%c]", "?")
  if width_of(text) <= LONGEST_TEXT then
    return text
  end
  local half = floor(LONGEST_TEXT / 2) - 2
  local first = string.gsub(string.sub(text, 1, half), "[\192-\255][\128-\191]*$", "")
  local last = string.gsub(string.sub(text, -half), "^[\128-\191]+", "")
  return first .. "..." .. last
end

local function whole(number)
  return string.format("%.0f", number)
end

local function decimal(number)
  return number and string.format("%.3f", number) or "-"
end

local function milliseconds(seconds)
  return seconds and string.format("%.3f", seconds * 1000) or "-"
end

-- Returns a table as text. The first row has the titles; those that begin with "<" head columns of text.
local function aligned(title, rows, remarks)
  local widths, total = {}, -2
  for _, row in ipairs(rows) do
    for index, cell in ipairs(row) do
      widths[index] = max(widths[index] or 0, width_of((string.gsub(cell, "^<", ""))))
    end
  end
  for _, width in ipairs(widths) do
    total = total + width + 2
  end
  local ruler = string.rep("=", max(total, #title))
  local lines = { ruler, title, "" }
  local titles = rows[1]
  for number, row in ipairs(rows) do
    local cells = {}
    for index, cell in ipairs(row) do
      local text = number == 1 and string.gsub(cell, "^<", "") or cell
      local gap = string.rep(" ", widths[index] - width_of(text))
      cells[index] = string.sub(titles[index], 1, 1) == "<" and text .. gap or gap .. text
    end
    lines[#lines + 1] = (string.gsub(table.concat(cells, "  "), "%s+$", ""))
    if number == 1 then
      lines[#lines + 1] = string.rep("-", total)
    end
  end
  for _, remark in ipairs(remarks) do
    lines[#lines + 1] = remark
  end
  lines[#lines + 1] = ruler
  return table.concat(lines, "\n") .. "\n"
end

-- Rows that are told apart, up to a bound ---------------------------------------------------------------

local function new_rows(make)
  return { make = make, by_name = {}, list = {}, left_out = 0 }
end

-- Returns the row of a name; nil when there are too many, which is counted.
local function row_of(rows, name)
  local row = rows.by_name[name]
  if not row then
    if #rows.list >= MOST_ROWS then
      rows.left_out = rows.left_out + 1
      return nil
    end
    row = rows.make()
    row.name, row.order = name, #rows.list
    rows.by_name[name] = row
    rows.list[#rows.list + 1] = row
  end
  return row
end

-- Returns the rows that weigh most, and a remark for what is not among them.
local function top(rows, weight)
  local sorted = {}
  for index, row in ipairs(rows.list) do
    sorted[index] = row
  end
  table.sort(sorted, function(one, other)
    local left, right = weight(one), weight(other)
    if left ~= right then
      return left > right
    end
    return one.order < other.order
  end)
  local remarks = {}
  if #sorted > MOST_SHOWN then
    remarks[1] = whole(#sorted - MOST_SHOWN) .. " more rows are left out."
  end
  if rows.left_out > 0 then
    remarks[#remarks + 1] = whole(rows.left_out) .. " messages are in none of these: too many different ones."
  end
  for index = #sorted, MOST_SHOWN + 1, -1 do
    sorted[index] = nil
  end
  return sorted, remarks
end

-- Messages ---------------------------------------------------------------------------------------------

local function size_of(m)
  return m.at and m.stop and m.stop - m.at or 0
end

local function label_of(m)
  if m.name == "init" or m.name == "open" then
    return m.label .. (m.A == 1 and "_ACK" or "_SYN")
  end
  return m.label
end

local function messages()
  local rows = new_rows(function() return { count = 0, bytes = 0 } end)
  local counts = {}

  function counts.take(_, m)
    local inner = m
    while inner do
      local row = row_of(rows, label_of(inner))
      if row then
        row.count, row.bytes = row.count + 1, row.bytes + size_of(inner)
      end
      inner = inner.body
    end
  end

  function counts.text()
    local sorted, remarks = top(rows, function(row) return row.count end)
    local lines = { { "<Message", "Count", "Bytes" } }
    for index, row in ipairs(sorted) do
      lines[index + 1] = { row.name, whole(row.count), whole(row.bytes) }
    end
    remarks[#remarks + 1] = "Bytes of a message are those of what it carries, too."
    return aligned("Zenoh messages", lines, remarks)
  end

  return counts
end

-- Keys -------------------------------------------------------------------------------------------------

-- What carries a value: PUT, DEL, QUERY, ERR, also inside of a REPLY; and the bytes of it.
local function content_of(m)
  local value = m.body
  local inside_reply = value and value.name == "reply"
  if inside_reply then
    value = value.body
  end
  if not value then
    return nil
  end
  local data = value.data
  local body = value.ext and value.ext.query_body
  if body then
    data = body.data
  end
  return inside_reply and "reply" or value.name, type(data) == "string" and #data or 0
end

local COUNTED = { put = "puts", del = "deletes", query = "queries", reply = "replies", err = "errors" }

local function keys()
  local rows = new_rows(function()
    return { weight = 0, puts = 0, deletes = 0, queries = 0, replies = 0, errors = 0, bytes = 0 }
  end)
  local counts = {}

  function counts.take(_, m)
    if m.ignored or (m.name ~= "push" and m.name ~= "request" and m.name ~= "response") then
      return -- what receivers drop was said before
    end
    local kind, bytes = content_of(m)
    local counted = COUNTED[kind]
    local row = counted and m.keyexpr and row_of(rows, m.keyexpr)
    if row then
      row.weight, row[counted], row.bytes = row.weight + 1, row[counted] + 1, row.bytes + bytes
    end
  end

  function counts.text(duration)
    local sorted, remarks = top(rows, function(row) return row.weight end)
    local lines = { { "<Key expression", "Puts", "Deletes", "Per second", "Queries", "Replies", "Errors", "Bytes" } }
    for index, row in ipairs(sorted) do
      local published = row.puts + row.deletes
      lines[index + 1] = {
        shown(row.name), whole(row.puts), whole(row.deletes), duration > 0 and decimal(published / duration) or "-",
        whole(row.queries), whole(row.replies), whole(row.errors), whole(row.bytes),
      }
    end
    remarks[#remarks + 1] = "Bytes of payloads. What a router forwards counts on each of its links."
    return aligned("Zenoh keys", lines, remarks)
  end

  return counts
end

-- Sessions ---------------------------------------------------------------------------------------------

local function locator_of(link, address, port)
  local text = tostring(address)
  if string.find(text, ":", 1, true) then
    text = "[" .. text .. "]"
  end
  return (link.carrier or link.tcp and "tcp" or "udp") .. "/" .. text .. ":" .. tostring(port)
end

local function of_party(party)
  if not party.zid then
    return "-"
  end
  local role = party.whatami and Z.enums.WhatAmI[party.whatami]
  return party.zid .. (role and " " .. role or "")
end

-- What a session turned out to be, and whether its sides are the other way round there.
local function united(session)
  local turned = false
  while session.into do
    session, turned = session.into, turned ~= session.turned
  end
  return session, turned
end

local function sessions()
  local rows = new_rows(function() return { messages = 0, bytes = 0, links = {}, [0] = {}, [1] = {} } end)
  local begun -- when the first packet was seen
  local counts = {}

  function counts.take(b, m, pinfo)
    if m.kind == "scouting" then
      return
    end
    begun = begun or b.time
    -- Behind the message: with it the link may turn out to be one of another session.
    local now = Z.links.at(b.link, m.place + 1)
    if not now.session then
      return -- it was forgotten
    end
    -- What is another link of that session may still turn out to be none.
    local side, row = b.way.index - 1, row_of(rows, now.own or now.session)
    if not row then
      return
    end
    local party, other = row[side], row[1 - side]
    if not row.start then
      row.start, row.opened_by = b.time, side
      party.locator = locator_of(b.link, pinfo.src, pinfo.src_port)
      other.locator = locator_of(b.link, pinfo.dst, pinfo.dst_port)
    end
    row.links[b.link.from] = true
    row.finish, row.messages = b.time, row.messages + 1
    -- What a FRAME carries comes as messages of its own.
    if m.kind == "transport" or not m.within then
      row.bytes = row.bytes + size_of(m)
    end
    if m.name == "init" or m.name == "join" then
      party.zid, party.whatami = m.zid, m.whatami
    elseif not party.zid then
      party.zid = m.srczid or b.srczid
    end
    if m.name == "close" then
      row.closed_by, row.closed = side, "CLOSE " .. (Z.enums.CloseReason[m.reason] or tostring(m.reason))
    end
  end

  local function add(row, more)
    row.messages, row.bytes = row.messages + more.messages, row.bytes + more.bytes
    for link in pairs(more.links) do
      row.links[link] = true
    end
    if more.start < row.start then
      row.start, row.opened_by = more.start, more.opened_by
      row[0].locator, row[1].locator = more[0].locator, more[1].locator
    end
    row.finish = max(row.finish, more.finish)
    for side = 0, 1 do
      row[side].whatami = row[side].whatami or more[side].whatami
    end
  end

  -- What was counted before a link turned out to be one of another session is that of the other session.
  local function unite()
    local list = rows.list
    rows.list = {}
    for _, row in ipairs(list) do
      local session, turned = united(row.name)
      local known = session ~= row.name and rows.by_name[session]
      if turned then
        row[0], row[1], row.opened_by = row[1], row[0], 1 - row.opened_by
      end
      if known then
        add(known, row)
      else
        rows.list[#rows.list + 1] = row
      end
      if session ~= row.name then
        rows.by_name[row.name] = nil
        row.name = session
        rows.by_name[session] = known or row
      end
    end
  end

  function counts.text()
    unite()
    local sorted, remarks = top(rows, function(row) return -row.start end)
    local lines = {
      { "<Zid", "<Zid", "<Locator", "<Locator", "Links", "Start", "End", "Messages", "Bytes", "<Ended" },
    }
    for index, row in ipairs(sorted) do
      local opener, other = row[row.opened_by], row[1 - row.opened_by]
      local links = 0
      for _ in pairs(row.links) do
        links = links + 1
      end
      local ended = "not by CLOSE"
      if row.closed then
        ended = row.closed .. (row.closed_by == row.opened_by and ", from the left" or ", from the right")
      end
      lines[index + 1] = {
        of_party(opener), of_party(other), opener.locator, other.locator, whole(links),
        decimal(row.start - begun), decimal(row.finish - begun), whole(row.messages), whole(row.bytes), ended,
      }
    end
    remarks[#remarks + 1] = "Seconds from the first message. The end that was heard first stands on the left; locators are those of the first link."
    return aligned("Zenoh sessions", lines, remarks)
  end

  return counts
end

-- Requests ---------------------------------------------------------------------------------------------

local function new_spread()
  return { count = 0, sum = 0, buckets = {} }
end

local function add_to(spread, seconds)
  seconds = max(seconds, 0)
  spread.count, spread.sum = spread.count + 1, spread.sum + seconds
  spread.least, spread.most = min(spread.least or seconds, seconds), max(spread.most or seconds, seconds)
  local bucket = floor(log(max(seconds, 1e-9)) / STEP + 0.5)
  spread.buckets[bucket] = (spread.buckets[bucket] or 0) + 1
end

-- Returns the value that a share of all values does not exceed, to about one percent.
local function percentile(spread, share)
  local numbers = {}
  for bucket in pairs(spread.buckets) do
    numbers[#numbers + 1] = bucket
  end
  table.sort(numbers)
  local wanted, seen = spread.count * share, 0
  for _, bucket in ipairs(numbers) do
    seen = seen + spread.buckets[bucket]
    if seen >= wanted then
      return min(max(exp(bucket * STEP), spread.least), spread.most)
    end
  end
  return nil
end

local function requests()
  local rows = new_rows(function()
    return { asked = 0, replies = 0, errors = 0, finals = 0, to_reply = new_spread(), to_final = new_spread() }
  end)
  local asked, asked_count, strays, disordered = {}, 0, 0, false
  local counts = {}

  -- Of an answer: what was asked, also on another link of the session.
  local function answered(m)
    return m.exchange and asked[m.exchange.from]
  end

  function counts.take(b, m)
    disordered = disordered or b.link.disordered
    if m.ignored then
      return
    elseif m.name == "request" then
      local row = row_of(rows, m.keyexpr or "?")
      if row then
        row.asked = row.asked + 1
        if m.exchange and asked_count < MOST_ASKED then
          asked_count = asked_count + 1
          asked[m.exchange.from] = { row = row, time = b.time }
        end
      end
    elseif m.name == "response" then
      local exchange = answered(m)
      if exchange then
        local row = exchange.row
        local counted = m.body and m.body.name == "err" and "errors" or "replies"
        row[counted] = row[counted] + 1
        if not exchange.replied then
          exchange.replied = true
          add_to(row.to_reply, b.time - exchange.time)
        end
      else
        strays = strays + 1
      end
    elseif m.name == "response_final" then
      local exchange = answered(m)
      if exchange then
        exchange.row.finals = exchange.row.finals + 1
        add_to(exchange.row.to_final, b.time - exchange.time)
        asked[m.exchange.from], asked_count = nil, asked_count - 1
      else
        strays = strays + 1
      end
    end
  end

  local function times(spread)
    if spread.count == 0 then
      return "-", "-", "-", "-"
    end
    return milliseconds(spread.least), milliseconds(spread.sum / spread.count), milliseconds(spread.most),
      milliseconds(percentile(spread, 0.95))
  end

  function counts.text()
    local sorted, remarks = top(rows, function(row) return row.asked end)
    local lines = {
      { "<Key expression", "Queries", "Replies", "Errors", "Open", "First: min", "avg", "max", "95 %",
        "Final: min", "avg", "max", "95 %" },
    }
    for index, row in ipairs(sorted) do
      local line = { shown(row.name), whole(row.asked), whole(row.replies), whole(row.errors), whole(row.asked - row.finals) }
      for _, spread in ipairs({ row.to_reply, row.to_final }) do
        line[#line + 1], line[#line + 2], line[#line + 3], line[#line + 4] = times(spread)
      end
      lines[index + 1] = line
    end
    if disordered then
      remarks[#remarks + 1] = "Packets were captured out of order, or are missing: answers in front of their queries are not counted."
    end
    if strays > 0 then
      remarks[#remarks + 1] = whole(strays) .. " answers to queries that this capture does not have."
    end
    remarks[#remarks + 1] = "Milliseconds from the query to its first answer and to its end; 95 % took no longer (to 1 %)."
    return aligned("Zenoh requests", lines, remarks)
  end

  return counts
end

-- Taps -------------------------------------------------------------------------------------------------

local TABLES = {
  { name = "messages", title = "Messages", make = messages },
  { name = "keys", title = "Keys", make = keys },
  { name = "sessions", title = "Sessions", make = sessions },
  { name = "requests", title = "Requests", make = requests },
}

local has_windows = gui_enabled and gui_enabled()

-- A filter that is none ends tshark, as with its own statistics: without them nobody wants the rest.
local function refuse(entry, why)
  local text = "Couldn't register zenoh," .. entry.name .. " tap: " .. string.match(tostring(why), "([^\n]*)%s*$")
  if has_windows then
    Z.complain(text)
    return
  end
  io.stderr:write("tshark: " .. text .. "\n")
  os.exit(1)
end

-- Counts until `remove` is called; `show(text)` gets the table whenever Wireshark wants to see it.
local function listen(entry, filter, show)
  local made, tap = pcall(Listener.new, "frame", filter)
  if not made then
    refuse(entry, tap)
    return function() end
  end
  local counts, first, last = entry.make(), nil, nil
  count_taps(1)

  function tap.packet(pinfo)
    local time = pinfo.abs_ts
    first, last = min(first or time, time), max(last or time, time)
    if said.number ~= pinfo.number then
      return
    end
    for index = 1, said.count, 2 do
      counts.take(said[index], said[index + 1], pinfo)
    end
  end

  function tap.draw()
    show(counts.text(first and last - first or 0))
  end

  function tap.reset()
    counts, first, last = entry.make(), nil, nil
    forget()
  end

  return function()
    count_taps(-1)
    tap:remove()
  end
end

local function open_window(entry, filter)
  local window = TextWindow.new("Zenoh " .. string.lower(entry.title) .. (filter and ": " .. filter or ""))
  window:set_atclose(listen(entry, filter, function(text) window:set(text) end))
  -- The capture may have been read already.
  retap_packets()
end

local function on_command_line(entry)
  return function(argument)
    -- "zenoh,keys" or "zenoh,keys,FILTER"
    local filter = string.match(argument or "", "^zenoh,%w+,(.+)$")
    if has_windows then
      open_window(entry, filter)
    else
      listen(entry, filter, print)
    end
  end
end

local function on_menu(entry)
  return function() open_window(entry, nil) end
end

for _, entry in ipairs(TABLES) do
  if register_stat_cmd_arg then
    pcall(register_stat_cmd_arg, "zenoh," .. entry.name, on_command_line(entry))
  end
  if register_menu and has_windows then
    pcall(register_menu, "Zenoh/" .. entry.title, on_menu(entry), MENU_TOOLS_UNSORTED)
  end
end
end

-- heuristic -------------------------------------------------------------------------------------------

do
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
end

-- tail ------------------------------------------------------------------------------------------------

do
-- The Info column, and all of it into Wireshark.

local append_text = TreeItem.append_text
local MOST_CLAUSES, MOST_CHARACTERS = 4, 160
local MOST_OF_LABEL = 200 -- Wireshark cuts labels of more than 239 bytes, in the middle of a character too
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
  return Z.shortened(Z.shown(table.concat(parts, " ")), MOST_CHARACTERS)
end

local info = Z.info

local function hear(b, m)
  if m.shown and m.keyexpr then append_text(m.shown, ": " .. Z.shortened(Z.shown(m.keyexpr), MOST_OF_LABEL)) end
  if not info.shown then return end
  info.said = info.said + 1
  if info.said <= MOST_CLAUSES then
    info.text = info.text .. (info.said > 1 and ", " or "") .. clause(m)
  elseif info.said == MOST_CLAUSES + 1 then
    info.text = info.text .. ", ..."
  end
  -- Set as a whole: dissectors of payloads write there as well.
  if info.said <= MOST_CLAUSES + 1 or Z.payload_shown then b.pinfo.cols.info = info.front .. info.text end
  Z.payload_shown = false
end

Z.listen(hear, function(name) return name ~= "frame" end)

-- Each packet leaves some 10 kB behind. Collected at once it is asked for again while it is in the caches of the
-- processor, and lies in one place; of its own accord Lua waits until as much again is in use as was before, and spreads
-- it over all the memory that tshark takes meanwhile, so that a packet would take longer and longer.
-- From Lua 5.4 on the same number means a hundred times the work, so that each packet would go through all that is in use;
-- left to itself, that one stays as quick.
if _VERSION < "Lua 5.4" then
  collectgarbage("setpause", 100)
  collectgarbage("setstepmul", 400)
end

Z.proto.fields = Z.registered
Z.proto.experts = Z.experts

function Z.proto.init()
  for index = 1, #Z.on_init do Z.on_init[index]() end
end

function Z.proto.dissector(tvb, pinfo, tree)
  -- What an ICMP error quotes was said before, and not by this packet.
  if pinfo.in_error_pkt then return 0 end
  if pinfo.port_type == PT_UDP then return Z.entry.datagram(tvb, pinfo, tree) end
  return pinfo.visited and Z.entry.piece(pinfo, tree) or Z.entry.stream(tvb, pinfo, tree)
end

Z.apply_preferences()
Z.register_heuristics()
end
