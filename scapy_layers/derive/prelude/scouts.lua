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
