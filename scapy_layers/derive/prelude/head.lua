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
