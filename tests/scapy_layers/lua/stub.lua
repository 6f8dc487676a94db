-- What zenoh.lua uses of Wireshark's Lua API, in plain Lua: trees are recorded, nothing is drawn.
-- Strict where Wireshark is: ranges out of bounds, unknown functions and values of the wrong type are errors.

local stub = { protos = {}, tables = {}, values = {}, listeners = {} }

local function class(name)
  local methods = {}
  local meta = { __name = name, __index = function(self, key)
    local value = methods[key]
    if value == nil then error("no " .. name .. "." .. tostring(key), 2) end
    return value
  end }
  return methods, meta
end

base = { NONE = 0, DEC = 1, HEX = 2, DEC_HEX = 4, LOCAL = 1000, UTC = 1001, DOTS = 8, UNICODE = 9, ASCII = 0 }
expert = {
  group = { PROTOCOL = 1, SEQUENCE = 2, MALFORMED = 3, RESPONSE_CODE = 4, UNDECODED = 5, REQUEST_CODE = 6, ASSUMPTION = 7 },
  severity = { CHAT = 1, NOTE = 2, WARN = 3, ERROR = 4, COMMENT = 5 },
}
framenum = { NONE = 0, REQUEST = 1, RESPONSE = 2, ACK = 3, DUP_ACK = 4 }
DESEGMENT_ONE_MORE_SEGMENT = 0x0fffffff
ENC_BIG_ENDIAN, ENC_LITTLE_ENDIAN, ENC_UTF_8 = 0, 0x80000000, 2
MENU_TOOLS_UNSORTED = 1
function gui_enabled() return false end
function report_failure(text) error(text) end
function register_stat_cmd_arg() end
function register_menu() end
function retap_packets() end
function get_version() return "stub" end
function set_plugin_info() end

-- Numbers of 64 bits

local wide_meta = { __name = "UInt64" }
UInt64 = { new = function(lo, hi)
  lo, hi = lo or 0, hi or 0
  assert(lo >= 0 and lo < 4294967296 and lo == math.floor(lo), "low half")
  assert(hi >= 0 and hi < 4294967296 and hi == math.floor(hi), "high half")
  return setmetatable({ lo = lo, hi = hi }, wide_meta)
end }
wide_meta.__index = {
  tonumber = function(self) return self.lo + self.hi * 4294967296 end,
  lower = function(self) return self.lo end,
  higher = function(self) return self.hi end,
}
wide_meta.__tostring = function(self) return string.format("%.0f", self.lo + self.hi * 4294967296) end
wide_meta.__eq = function(one, other) return one.lo == other.lo and one.hi == other.hi end
function stub.halves(value) return value.lo, value.hi end

-- Bytes

local bytes_methods, bytes_meta = class("ByteArray")
local tvb_methods, tvb_meta = class("Tvb")
local range_methods, range_meta = class("TvbRange")

Tvb, TvbRange = tvb_methods, range_methods

local function new_tvb(raw, offset)
  return setmetatable({ data = raw, from = offset or 0 }, tvb_meta)
end
stub.new_tvb = new_tvb

ByteArray = { new = function(raw, separator)
  assert(separator == true, "raw bytes expected")
  return setmetatable({ data = raw }, bytes_meta)
end }
function bytes_methods:tvb(name) assert(name) return new_tvb(self.data) end
function bytes_methods:len() return #self.data end

local function new_range(raw, offset, size)
  if offset < 0 or size < 0 or offset + size > #raw then error("Range is out of bounds", 3) end
  return setmetatable({ data = raw, start = offset, size = size }, range_meta)
end

tvb_meta.__call = function(self, offset, size)
  offset = offset or 0
  return new_range(self.data, offset, size or #self.data - offset)
end
function tvb_methods:range(offset, size) return self(offset, size) end
function tvb_methods:len() return #self.data end
function tvb_methods:reported_len() return #self.data end
function tvb_methods:captured_len() return #self.data end
function tvb_methods:reported_length_remaining() return #self.data end
function tvb_methods:offset() return self.from end
function tvb_methods:raw(offset, size)
  offset = offset or 0
  size = size or #self.data - offset
  return self.data:sub(offset + 1, offset + size)
end

range_meta.__call = function(self, offset, size)
  offset = offset or 0
  size = size or self.size - offset
  if offset < 0 or size < 0 or offset + size > self.size then error("Range is out of bounds", 2) end
  return new_range(self.data, self.start + offset, size)
end
function range_methods:range(offset, size) return self(offset, size) end
function range_methods:len() return self.size end
function range_methods:offset() return self.start end
function range_methods:raw() return self.data:sub(self.start + 1, self.start + self.size) end
function range_methods:tvb() return new_tvb(self:raw()) end
function range_methods:le_uint()
  local value = 0
  for index = self.size, 1, -1 do value = value * 256 + self.data:byte(self.start + index) end
  return value
end
function range_methods:uint()
  local value = 0
  for index = 1, self.size do value = value * 256 + self.data:byte(self.start + index) end
  return value
end

-- Fields and trees

local kinds = { "none", "uint8", "uint16", "uint24", "uint32", "uint64", "int8", "int16", "int32", "int64", "string", "bytes",
  "framenum", "bool", "double", "float", "relative_time", "absolute_time" }
ProtoField = {}
for _, kind in ipairs(kinds) do
  ProtoField[kind] = function(name, label, display, values, mask)
    assert(type(name) == "string" and type(label) == "string", "name and label of a field")
    assert(mask == nil or kind:find("int") or kind == "bool", "a mask of " .. kind)
    return { field = name, kind = kind, label = label, values = values, mask = mask }
  end
end
ProtoExpert = { new = function(name, label, group, severity)
  assert(name and label and group and severity, "an expert info: " .. tostring(name))
  return { expert = name, group = group, severity = severity }
end }

local item_methods, item_meta = class("TreeItem")
TreeItem = item_methods

local function read_value(field, range, little)
  local raw = range:raw()
  if field.kind == "bytes" then return raw end
  if field.kind == "none" then return nil end
  if field.kind == "string" then return raw end
  if field.kind:find("int") or field.kind == "bool" then
    assert(#raw >= 1 and #raw <= 8, "an integer of " .. #raw .. " bytes")
    local value = little and range:le_uint() or range:uint()
    if field.mask then
      local mask, shift = field.mask, 0
      while mask % 2 == 0 do mask, shift = mask / 2, shift + 1 end
      value = math.floor(value / 2 ^ shift) % (mask + 1)
    end
    if field.kind == "uint64" then return UInt64.new(value % 4294967296, math.floor(value / 4294967296)) end
    return value
  end
  error("cannot read " .. field.kind)
end

local function check(field, value)
  if field.kind == "uint64" or field.kind == "int64" then
    assert(getmetatable(value) == wide_meta, field.field .. ": UInt64 expected, got " .. type(value))
  elseif field.kind:find("int") or field.kind == "framenum" or field.kind == "double" then
    assert(type(value) == "number", field.field .. ": number expected, got " .. type(value))
  elseif field.kind == "string" then
    assert(type(value) == "string", field.field .. ": string expected, got " .. type(value))
    assert(not value:find("\0", 1, true), field.field .. ": NUL in a string")
  end
  return value
end

local function add(self, little, what, ...)
  local arguments = { ... }
  local item = setmetatable({ children = {}, experts = {} }, item_meta)
  self.children[#self.children + 1] = item
  local position = 1
  if type(what) == "table" and rawget(what, "proto") then
    item.name = what.proto
  elseif type(what) == "table" and rawget(what, "field") then
    assert(what.registered, "not registered: " .. what.field)
    item.field, item.name = what, what.field
  else
    -- Text only: a range, or nothing but text.
    position = 0
  end
  local range = position == 0 and what or arguments[position]
  if getmetatable(range) == range_meta then
    item.from, item.size = range.start, range.size
    position = position + 1
  elseif position == 0 then
    item.text = what
    position = 1
  end
  local value = arguments[position]
  if item.field then
    if value ~= nil then
      item.value = check(item.field, value)
    elseif item.from then
      item.value = read_value(item.field, range, little)
    end
  elseif value ~= nil then
    item.text = value
  end
  return item
end
-- Which fields somebody asks for: all, or those named in stub.referenced.
function item_methods.referenced(self, field)
  return stub.referenced == nil or stub.referenced[field.field] == true
end
function item_methods.add(self, ...) return add(self, false, ...) end
function item_methods.add_le(self, ...) return add(self, true, ...) end
function item_methods.set_len(self, size) assert(size >= 0) self.size = size return self end
function item_methods.set_text(self, text) self.text = text return self end
function item_methods.append_text(self, text) self.text = (self.text or "") .. text return self end
function item_methods.prepend_text(self, text) self.text = text .. (self.text or "") return self end
function item_methods.set_generated(self) self.generated = true return self end
function item_methods.set_hidden(self) self.hidden = true return self end
function item_methods.add_proto_expert_info(self, info, text)
  assert(info and info.registered, "an expert info that is not registered")
  self.experts[#self.experts + 1] = { info.expert, text or "" }
  return self
end
item_methods.text, item_methods.from, item_methods.size, item_methods.value = false, false, false, false
item_methods.name, item_methods.field, item_methods.generated, item_methods.hidden = false, false, false, false
function stub.new_tree() return setmetatable({ children = {}, experts = {} }, item_meta) end

-- Protocols

function Proto(name, title)
  assert(not stub.protos[name], "there cannot be two protocols with the same name")
  local proto = { proto = name, title = title, prefs = {}, heuristics = {} }
  stub.protos[name] = proto
  function proto.register_heuristic(self, where, check_it) self.heuristics[where] = check_it end
  return setmetatable(proto, { __newindex = function(self, key, value)
    if key == "fields" or key == "experts" then
      for _, one in ipairs(value) do one.registered = true end
    end
    rawset(self, key, value)
  end })
end
Pref = {}
for _, kind in ipairs({ "bool", "uint", "string", "enum", "range", "statictext" }) do
  Pref[kind] = function(label, default) return default end
end

-- A field of another dissector: what a test puts into stub.values.
Field = { new = function(name)
  return function()
    local value = stub.values[name]
    if value == nil then return nil end
    return setmetatable({ value = value, offset = 0, len = 20, name = name }, { __call = function() return value end })
  end
end }

DissectorTable = { get = function(name)
  local known = stub.tables[name]
  if not known then
    known = { name = name, add = function(self, key, proto) self[key] = proto end, remove = function(self, key) self[key] = nil end,
      add_for_decode_as = function() end, get_dissector = function() return nil end, try = function() return 0 end,
      set = function(self, key, proto) self[key] = proto end, remove_all = function() end }
    stub.tables[name] = known
  end
  return known
end, list = function() return {} end, heuristic_list = function() return {} end }
Dissector = { get = function() return nil end, list = function() return {} end }
Listener = { new = function() local tap = {} stub.listeners[#stub.listeners + 1] = tap return tap end }
NSTime = { new = function(seconds, nanoseconds) return seconds + (nanoseconds or 0) / 1e9 end }
TextWindow = { new = function() error("no windows here") end }

-- Packets

local column = { set = function() end, append = function() end, clear = function() end, fence = function() end,
  clear_fence = function() end, prepend = function() end }
local columns_meta = { __index = function() return column end, __newindex = function(self, key, value) rawset(self, "last_" .. key, value) end }
function stub.new_packet(number, port_type, source, sport, target, dport, visited)
  return { number = number, visited = visited, rel_ts = number / 1000, abs_ts = 1700000000 + number / 1000, port_type = port_type,
    src = source, dst = target, net_src = source, net_dst = target, src_port = sport, dst_port = dport,
    match_uint = dport, can_desegment = 2, desegment_len = 0, desegment_offset = 0, private = {}, conversation = nil,
    cols = setmetatable({}, columns_meta), len = 100, caplen = 100 }
end

return stub
