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
