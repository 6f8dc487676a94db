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
