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
