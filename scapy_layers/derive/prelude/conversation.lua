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
