-- Sequence numbers of one sender: a count for each lane (priority and reliability), modulo the resolution.
-- Spec: Sequence Numbers. Only while packets are read for the first time; what is wrong is remembered by place.

local lanes = {}
Z.lanes = lanes

local MASKS = { [0] = 127, [1] = 16383, [2] = 268435455 } -- nodes use what 1, 2 and 4 VLE bytes hold
local LARGE = 4294967295 -- where nodes begin again when 64 bits are agreed, and they count with 32
local REORDER = 64 -- sequence numbers by which the links of one session may overtake each other

-- Returns the largest number of a resolution; "large" for 64 bits, which nodes fill in different ways.
function lanes.mask(resolution)
  return MASKS[resolution] or "large"
end

-- May a number come right after another? When the resolution is not known, each one is thought of.
local function follows(sn, before, mask)
  if mask and mask ~= "large" then
    return sn == (before + 1) % (mask + 1)
  end
  if sn == before + 1 then
    return true
  end
  if sn ~= 0 then
    return false
  end
  return before == LARGE or (not mask and (before == MASKS[0] or before == MASKS[1] or before == MASKS[2]))
end
lanes.follows = follows

local function follows_next(sn, before, mask)
  local skipped = before + 1
  if mask and mask ~= "large" then
    return sn == (before + 2) % (mask + 1)
  end
  return follows(sn, skipped, mask) or (follows(0, before, mask) and sn == 1)
end
lanes.follows_next = follows_next

-- How far a number is ahead of another, and behind it: one of them is nil.
local function distance(sn, before, mask)
  if mask and mask ~= "large" then
    local step = (sn - before) % (mask + 1)
    if step <= (mask - 1) / 2 then
      return step
    end
    return nil, mask + 1 - step
  end
  if sn >= before then
    return sn - before
  end
  return nil, before - sn
end

function lanes.numbers()
  return { epoch = 0, first_epoch = 0, positions = {} }
end

-- Notes which number each lane begins with, said by OPEN (one for all) or JOIN (by lane).
function lanes.start(numbers, default, by_lane)
  numbers.default, numbers.first, numbers.first_epoch = default, by_lane, numbers.epoch
end

-- Notes that messages were not seen: the next number of every lane is taken as it is.
function lanes.doubt(numbers)
  numbers.epoch = numbers.epoch + 1
end

-- Is a number that with which a lane begins, and was nothing in front of it not seen?
function lanes.is_first(numbers, lane, sn)
  return numbers.first_epoch == numbers.epoch and sn ~= nil and sn == (numbers.first and numbers.first[lane] or numbers.default)
end

-- Did a lane have a number already, or leave it behind?
function lanes.was_there(numbers, lane, sn)
  local at = numbers.positions[lane]
  return at ~= nil and not at.missing[sn] and not follows(sn, at.last, numbers.mask)
end

function lanes.name(lane)
  local priority = (lane - lane % 2) / 2
  return tostring(Z.enums.Priority[priority] or priority) .. (lane % 2 == 1 and " reliable" or " best effort")
end

local function missing(lane, count, before, sn)
  local kind = lane % 2 == 1 and "gap" or "loss"
  return kind, string.format("%.0f sequence numbers missing between %.0f and %.0f on %s", count, before, sn,
    lanes.name(lane))
end

-- Returns where a lane stands before its first number: unknown, unless its start was seen.
local function begin(numbers, lane, sn)
  local first = numbers.first and numbers.first[lane] or numbers.default
  local mask = numbers.mask
  local known = first and mask and numbers.first_epoch == numbers.epoch and type(first) == "number"
  local at = { last = sn, epoch = -1, ends = true, begins = true, missing = {}, count = 0 }
  if known then
    at.epoch = numbers.epoch
    at.last = first - 1
    if first == 0 then
      at.last = mask == "large" and LARGE or mask
    end
  end
  numbers.positions[lane] = at
  return at
end

-- Tells of numbers that are still missing although the lane went on by more than the reordering there can be.
local function overdue(lane, at, mask)
  local late, first = 0, nil
  for sn in pairs(at.missing) do
    local ahead = distance(at.last, sn, mask)
    if not ahead or ahead > REORDER then
      late = late + 1
      if not first or (distance(first, sn, mask) or 0) > 0 then
        first = sn
      end
      at.missing[sn] = nil
      at.count = at.count - 1
    end
  end
  if late > 0 then
    return true, missing(lane, late, first - 1, at.last)
  end
  return true
end

local function jump(numbers, lane, at, sn, reorder)
  local mask = numbers.mask
  local ahead, behind = distance(sn, at.last, mask)
  if ahead == 0 then
    return false, "duplicate", string.format("sequence number %.0f again on %s", sn, lanes.name(lane))
  end
  if ahead then
    local before = at.last
    at.last = sn
    if not reorder or ahead > REORDER then
      return true, missing(lane, ahead - 1, before, sn)
    end
    for past = 1, ahead - 1 do
      local skipped = before + past
      if mask and mask ~= "large" then
        skipped = skipped % (mask + 1)
      end
      if not at.missing[skipped] then
        at.missing[skipped] = true
        at.count = at.count + 1
      end
    end
    return overdue(lane, at, mask)
  end
  if at.missing[sn] then
    at.missing[sn] = nil
    at.count = at.count - 1
    return true
  end
  if not mask and behind > 63 then
    -- So far back only if a small resolution wrapped where nobody saw it.
    at.last = sn
    return true
  end
  return false, "old", string.format("sequence number %.0f behind %.0f on %s", sn, at.last, lanes.name(lane))
end

-- Judges the number of the next FRAME or FRAGMENT of a lane.
--   fragment: a piece of a message; begins, ends: it says that it begins with one, it ends with one or gives one up
--   reorder: messages may overtake each other unharmed, on several links
--   lossy: messages may be lost on the way; inside: it says that it does not begin with one
-- Returns whether receivers take it, and what is wrong: the kind of remark and its text.
function lanes.take(numbers, lane, sn, fragment, begins, ends, reorder, lossy, inside)
  local mask = numbers.mask
  if mask and mask ~= "large" and (type(sn) ~= "number" or sn > mask) then
    return false, "range", "sequence number " .. tostring(sn) .. ", the agreed resolution ends at " .. mask
  end
  if type(sn) ~= "number" then
    -- Above 2^53: only a resolution of 64 bits has such numbers, and they are not counted here.
    numbers.positions[lane] = nil
    numbers.default, numbers.first = nil, nil
    return true
  end
  local at = numbers.positions[lane] or begin(numbers, lane, sn)
  local was_fragment, was_end = at.fragment, at.ends
  at.fragment, at.begins, at.ends = fragment, begins, ends
  if at.epoch ~= numbers.epoch then
    at.last, at.epoch = sn, numbers.epoch
    at.missing, at.count = {}, 0
    return true
  end
  -- Real nodes take one number more than they send for a message in fragments, finished or given up.
  local in_vain
  if lossy then
    -- Where a message in fragments has to begin or to end, and does not, that was lost.
    in_vain = was_fragment and was_end and not inside
  else
    in_vain = was_fragment and (was_end or begins)
  end
  if follows(sn, at.last, mask) or (in_vain and follows_next(sn, at.last, mask)) then
    if sn == 0 and not mask and at.last > 0 then
      -- It wrapped, which tells the resolution.
      numbers.mask = at.last <= MASKS[0] and MASKS[0] or at.last <= MASKS[1] and MASKS[1]
        or at.last <= MASKS[2] and MASKS[2] or "large"
    end
    at.last = sn
    if at.count > 0 then
      return overdue(lane, at, numbers.mask)
    end
    return true
  end
  return jump(numbers, lane, at, sn, reorder)
end
