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
