-- Finds the place in a stream where batches begin, when its start or a piece of it is not in the capture. The same as
-- `resync.py`, step by step: what is changed here has to be changed there, which also says why it is so.

local byte, sub, floor = string.byte, string.sub, math.floor
local looks = Z.looks
local seek = {}
Z.seek = seek

-- How much evidence is enough, in bits.
seek.EXPECTED = { bits = 28, content = 8, whole_bits = 24, whole_content = 3 }
seek.KNOWN = { bits = 18, content = 3, whole_bits = 24, whole_content = 3 }
seek.MOST_PACKETS = 2048 -- that are looked through
seek.MOST = 262144 -- bytes of a batch that is waited for, and of a direction that are looked through

local PLENTY = 64 -- bits of evidence until which a chain is followed
local TRIFLE = 3 -- bytes of KEEP_ALIVE and CLOSE, which prove nothing
local ASKED = 4096 -- bytes more than there are that may be asked about
local UNPACKED = 524288 -- bytes more than there are that batches may unpack to
local MAX_BATCH = 65535 -- bytes that one may
local WORK = 1 -- batches that are looked at for each byte
local PATIENCE = 256 -- chains that may be refused
local BOUNDARY = 6 -- bits, for a chain that begins with a packet
local AHEAD = 20 -- bytes at the end in which places may show themselves later
local LENGTH_BITS = { [2] = 16, [4] = 32, ws = 20 }

-- A heap of pairs: how many bytes have to be there, and which chain waits for them.

local function before(one, other)
  return one[1] < other[1] or (one[1] == other[1] and one[2] < other[2])
end

local function push(heap, entry)
  local at = #heap + 1
  heap[at] = entry
  while at > 1 do
    local above = floor(at / 2)
    if not before(entry, heap[above]) then break end
    heap[at], heap[above], at = heap[above], entry, above
  end
end

local function pop(heap)
  local top, last = heap[1], heap[#heap]
  heap[#heap] = nil
  local size, at = #heap, 1
  if size == 0 then return top end
  heap[1] = last
  while true do
    local below = 2 * at
    if below > size then break end
    if below < size and before(heap[below + 1], heap[below]) then below = below + 1 end
    if not before(heap[below], last) then break end
    heap[at], heap[below], at = heap[below], last, below
  end
  return top
end

local function bit_length(number)
  local bits = 0
  while number >= 1 do
    number, bits = number / 2, bits + 1
  end
  return bits
end

-- Chains -------------------------------------------------------------------------------------------

-- Takes note of the head of the batch that a chain goes on with.
local function meet(chain, head, size)
  chain.head, chain.counted = head, false
  if size > chain.longest then chain.longest = size end
  local lane, sn = head.lane, head.sn
  if not sn then return end
  local last = chain.numbers[lane]
  if last and (sn - last == 1 or sn - last == 2) then
    local bits = head.bits + head.sn_bits
    chain.content, chain.bits = chain.content + bits, chain.bits + bits
    chain.counted, chain.telling = true, true
  end
  chain.numbers[lane] = sn
end

-- Goes on behind the batch whose head was met.
local function complete(chain, behind, length_bits)
  local head = chain.head
  if not chain.counted then chain.content, chain.bits = chain.content + head.bits, chain.bits + head.bits end
  if not head.fragment then chain.telling = true end
  chain.bits, chain.next, chain.head = chain.bits + length_bits, behind, nil
end

-- Does a packet begin at a place?
local function begins(search, at)
  return at == 0 or search.boundaries[at] ~= nil
end

local function is_enough(search, chain)
  local proof = search.proof
  return chain.next > chain.at and chain.bits >= proof.bits and chain.content >= proof.content and chain.longest > TRIFLE
    and (chain.telling or (chain.begins and search.boundaries[chain.next] ~= nil))
end

local function is_whole(search, chain, raw)
  local proof = search.proof
  return chain.begins and chain.next == #raw and chain.bits >= proof.whole_bits and chain.content >= proof.whole_content
    -- Who only listens says nothing but KEEP_ALIVE, and CLOSE.
    and (chain.longest > TRIFLE or chain.at == 0)
end

-- Judges the head of a batch, which is behind a mask in WebSocket.
local function head_of(raw, start, stop, size, mask)
  if mask then raw, start, stop = mask(sub(raw, start + 1, stop), 0), 0, stop - start end
  local bits, lane, sn, sn_bits, fragment, opens = looks.at(raw, start, stop, size)
  return bits > 0 and { bits = bits, lane = lane, sn = sn, sn_bits = sn_bits, fragment = fragment, opens = opens } or nil
end

-- Goes from batch to batch until one is not complete, or the chain breaks or is good enough.
local function follow(search, chain, raw)
  local there, place = #raw, looks.place[search.framing]
  while chain.bits < PLENTY or not is_enough(search, chain) do
    if search.steps > WORK * there + ASKED then return end
    search.steps = search.steps + 1
    local need = chain.next + 1
    local start, behind, mask = place(raw, chain.next)
    if start == false then return end
    if start then
      local size = behind - start
      if size == 0 or size > seek.MOST then return end
      need = behind
      if not chain.head then
        need = start + math.min(looks.HEAD, size)
        local head = head_of(raw, start, math.min(need, there), size, mask)
        if need <= there or (head and not head.opens) then
          if not head or (head.opens and not begins(search, chain.next)) then return end
          meet(chain, head, size)
          need = behind
        end
      end
    end
    if not start or need > there then
      push(search.waiting, { math.max(need, there + 1), chain.at })
      search.chains[chain.at] = chain
      break
    end
    -- How many places of this kind there are that the length could have led to by chance.
    local targets = search.boundaries[behind] and search.packets or there
    complete(chain, behind, math.max(search.length_bits - bit_length(targets), 0))
    if not chain.proved and is_enough(search, chain) then chain.proved = behind end
    search.passed[behind] = true
  end
  if chain.bits > PLENTY then chain.bits = PLENTY end
  if is_enough(search, chain) or is_whole(search, chain, raw) then search.good[#search.good + 1] = chain end
end

local function start_at(search, at, raw)
  local first = begins(search, at)
  follow(search, {
    at = at, next = at, begins = first, bits = first and BOUNDARY or 0, content = 0, longest = 0, numbers = {},
    telling = false, counted = false, head = nil,
  }, raw)
end

-- Does strict decoding take it, compressed or not?
function seek.is_batch(raw)
  if Z.strict(raw, "batch") then return true end
  local inside = byte(raw, 1) <= 1 and Z.links.decompressed(raw)
  return inside and Z.strict(inside, "batch") or false
end

local is_batch = seek.is_batch

-- Returns where the first batch of a chain ends that is not plausible, or may not be asked about any more.
local function refused(search, chain, raw)
  local at, place = chain.at, looks.place[search.framing]
  while at < (chain.proved or chain.next) do -- what comes behind may be refused for its own sake
    local start, behind, mask = place(raw, at)
    at = behind
    local batch = sub(raw, start + 1, behind)
    batch = mask and mask(batch, 0) or batch
    search.asked = search.asked + #batch
    if byte(batch, 1) == 1 then search.unpacked = search.unpacked + Z.lz4_weight(sub(batch, 2), MAX_BATCH) end
    if search.asked > #raw + ASKED or search.unpacked > #raw + UNPACKED or not is_batch(batch) then return at end
  end
end

-- A search in a buffer that grows at its end; `framing`: bytes of the lengths; `ends`: where packets ended in it so far.
function seek.new(framing, proof, ends)
  local boundaries = {}
  for _, place in ipairs(ends) do boundaries[place] = true end
  return {
    framing = framing, proof = proof, length_bits = LENGTH_BITS[framing], boundaries = boundaries, packets = #ends, tried = 0,
    passed = {}, again = {}, asked = 0, unpacked = 0, steps = 0, refusals = 0, waiting = {}, chains = {}, good = {},
  }
end

-- Looks at what is new: returns where the first batch begins, and the evidence for that; nil as long as there is not enough.
function seek.look(search, raw)
  search.packets = search.packets + 1
  search.boundaries[#raw] = true
  if search.refusals > PATIENCE then return nil end
  local waiting, chains = search.waiting, search.chains
  while waiting[1] and waiting[1][1] <= #raw do
    local at = pop(waiting)[2]
    local chain = chains[at]
    chains[at] = nil
    if chain then follow(search, chain, raw) end
  end
  local passed = search.passed
  looks.candidates(raw, search.framing, search.tried, function(at)
    if not passed[at] then
      passed[at] = true
      start_at(search, at, raw)
    end
  end)
  search.tried = math.max(search.tried, #raw - AHEAD)
  local best
  local good, index = search.good, 1
  while good[index] do -- grows
    local chain = good[index]
    if not best or chain.bits > best.bits or (chain.bits == best.bits and chain.at < best.at) then
      local behind = refused(search, chain, raw)
      if not behind then
        best = chain
      else
        search.refusals = search.refusals + 1
        chains[chain.at] = nil
        if not search.again[behind] and not chains[behind] and search.refusals <= PATIENCE then
          search.again[behind] = true
          start_at(search, behind, raw)
        end
      end
    end
    index = index + 1
  end
  search.good = {}
  if best then return best.at, best.bits end
end
