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
