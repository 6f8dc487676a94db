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
