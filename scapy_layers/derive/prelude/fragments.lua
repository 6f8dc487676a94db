-- FRAGMENTs back into messages, one chain a lane, within bounds. Spec: Fragmentation.

local memory, lanes = Z.memory, Z.lanes
local fragments = {}
Z.fragments = fragments

local MIB = 1048576
local LONGEST = 64 * MIB -- bytes of one message; nodes permit 1 GiB
local MOST = 128 * MIB -- bytes of all unfinished messages
-- Bytes of finished messages that are kept for when their packets are read again: in a window in any order, elsewhere
-- never or in order, so that they can be put together again.
local MOST_KEPT = (gui_enabled() and 64 or 8) * MIB
local MOST_CHAINS = 32 * MIB -- bytes of what is known of chains besides
local PIECE = 64 -- bytes that a piece costs besides its data: an empty one is not free
local CHAIN = 512

local open, held, chains, kept, anew

local function forget_all()
  open, held = memory.ring(), 0
  chains = memory.store(MOST_CHAINS)
  kept = { ring = memory.ring(), held = 0 }
  anew = { ring = memory.ring(), held = 0 }
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

-- Ends a chain; what it was to be put together from is let go.
local function close(chain, place)
  memory.unlink(chain.open)
  held = held - chain.held
  chain.to, chain.parts, chain.lane.chain = place, nil, nil
  memory.retire(chains, chain)
end

local function keep(chain, data)
  chain.data = data
  chain.kept = { chain = chain }
  memory.link(kept.ring, chain.kept)
  kept.held = kept.held + #data
  while kept.held > MOST_KEPT do
    local oldest = kept.ring.after.chain
    memory.unlink(oldest.kept)
    kept.held = kept.held - #oldest.data
    oldest.data, oldest.kept = nil, nil
  end
end

local function begin(lane, session, place, packet)
  local chain = {
    from = place, session = session, cost = CHAIN, lane = lane,
    first = packet, packets = {}, parts = {}, held = 0, size = 0,
  }
  chain.open = { chain = chain }
  memory.link(open, chain.open)
  lane.chain = chain
  memory.keep(chains, lane, "chains", chain)
  return chain
end

local function lost(lane, place, why)
  local count, missed = #lane.chain.packets, lane.chain.missed
  close(lane.chain, place - 1)
  return not missed and string.format("a message of %d fragments is lost: %s", count, why)
end

-- Takes note that something was not captured: messages that have begun may lack what is there.
function fragments.miss(party)
  for _, lane in pairs(party.lanes) do
    if lane.chain then lane.chain.missed = true end
  end
end

-- Takes note of a FRAME on a lane: returns a remark when an unfinished message there is lost.
function fragments.interrupt(lane, sn, place)
  local why = lane.chain and lost(lane, place, "a FRAME of the same lane")
  lane.ended, lane.in_fragments = sn, false
  return why
end

local function broken_by(lane, m, first, patch, mask)
  local chain = lane.chain
  if not chain then
    return nil
  elseif first and patch ~= 0 then
    return "a new one begins"
  elseif not lanes.follows(m.sn, chain.last, mask) then
    return string.format("sequence number %s after %s", tostring(m.sn), tostring(chain.last))
  elseif patch and patch > 0 and chain.size == 0 then
    -- As real nodes do: a first fragment without a byte does not count as one.
    return "its first fragment is empty"
  end
end

-- May a fragment that does not say so begin a message?
local function may_begin(lane, sn, mask, opens)
  if lane.ended == nil then
    return opens
  end
  -- Real nodes take one number more than they send for a message in fragments.
  return lanes.follows(sn, lane.ended, mask) or (lane.in_fragments and lanes.follows_next(sn, lane.ended, mask))
end

local function finish(lane, sn)
  lane.ended, lane.in_fragments = sn, true
end

-- Takes the next fragment of a lane, when it is read for the first time.
--   patch: agreed version; below 1 First and Drop do not count, when nil they count where they stand
--   complete: all of the sender was heard so far, so the beginning of the message as well
--   opens: it is the first on its lane that its sender has said
-- Returns the bytes of the message when it is complete; a remark about fragments that make none and its kind.
function fragments.take(lane, session, m, place, packet, patch, mask, complete, opens)
  local sn, more = m.sn, m.M == 1
  if type(sn) ~= "number" then
    return nil
  end
  local marks = patch == nil or patch >= 1
  local first, drop = m.ext ~= nil and m.ext.first ~= nil, m.ext ~= nil and m.ext.drop ~= nil
  local why = broken_by(lane, m, first, patch, mask)
  local remark = why and lost(lane, place, why)
  if marks and drop then
    -- The sender gave it up. To say so is its duty, no fault.
    if lane.chain then
      close(lane.chain, place)
    end
    finish(lane, sn)
    return nil, remark, "fragment"
  end
  local chain = lane.chain
  if not chain then
    local named = marks and first
    if not named and ((patch or 0) > 0 or not may_begin(lane, sn, mask, opens)) then
      -- Can nothing be between it and what ended?
      local sure = complete or (lane.ended ~= nil and lanes.follows(sn, lane.ended, mask))
      if not more then
        finish(lane, sn)
      end
      return nil, remark or (sure and "a fragment of a message that never began" or nil), "fragment"
    end
    chain = begin(lane, session, place, packet)
  end
  local data = m.data or ""
  chain.last, chain.size = sn, chain.size + #data
  chain.parts[#chain.parts + 1] = data
  chain.packets[#chain.packets + 1] = packet
  chain.held = chain.held + #data + PIECE
  held = held + #data + PIECE
  memory.charge(chains, chain, 16)
  if chain.held > LONGEST then
    close(chain, place)
    return nil, string.format("a message of more than %d bytes is thrown away", LONGEST), "limit"
  end
  while held > MOST do
    local oldest = open.after.chain
    close(oldest, place)
  end
  if more then
    return nil, remark, "fragment"
  end
  local whole = table.concat(chain.parts)
  chain.complete = packet
  close(chain, place)
  finish(lane, sn)
  keep(chain, whole)
  return whole, remark, "fragment"
end

local function give_up(again)
  memory.unlink(again)
  anew.held = anew.held - again.held
  again.chain.again = nil
end

-- Takes a fragment of a finished message that is not kept any more, when it is read again: all of them, one after the
-- other as in a second pass, make it once more.
function fragments.again(chain, place, data)
  local again = chain.again
  if place == chain.from then
    if again then
      give_up(again)
    end
    again = { chain = chain, held = 0 }
    memory.link(anew.ring, again)
    chain.again = again
  elseif not again or place <= again.place then
    return
  end
  again.place = place
  again[#again + 1] = data
  again.held, anew.held = again.held + #data + PIECE, anew.held + #data + PIECE
  if place == chain.to then
    local whole = #again == #chain.packets and table.concat(again)
    give_up(again)
    if whole then
      keep(chain, whole)
    end
  end
  while anew.held > MOST do
    give_up(anew.ring.after)
  end
end

-- Returns the chain that a fragment of a lane belongs to.
function fragments.at(lane, place)
  local chain = memory.at(lane.chains, place)
  if chain and (not chain.to or place <= chain.to) then
    return chain
  end
end
