-- What holds from a place of the capture on. Packets are read again in any order (a click, a second pass) and must say
-- the same as when they were first read, so nothing is overwritten: what changes is kept with the place where it begins.

local memory = {}
Z.memory = memory

local floor, type = math.floor, type

-- A history: records with `from`, ascending. The oldest may be removed.
function memory.append(history, record)
  local last = history.last + 1
  history.last = last
  history[last] = record
end

function memory.history()
  return { first = 1, last = 0 }
end

function memory.remove_first(history)
  history[history.first] = nil
  history.first = history.first + 1
end

local function from_of(record)
  return type(record) == "string" and tonumber(record:match("^%S+")) or record.from
end

-- Returns the record that holds at a place, and its index; nil if there is none yet.
function memory.at(history, place)
  if not history then
    return nil
  end
  local low, high = history.first, history.last
  local last = history[high]
  if not last or from_of(last) <= place then
    return last, high
  end
  local index
  high = high - 1
  while low <= high do
    local middle = floor((low + high) / 2)
    if from_of(history[middle]) <= place then
      index, low = middle, middle + 1
    else
      high = middle - 1
    end
  end
  return history[index], index
end

-- A ring of records, each in one ring at most.
function memory.ring()
  local ring = {}
  ring.after, ring.before = ring, ring
  return ring
end

function memory.unlink(record)
  record.before.after, record.after.before = record.after, record.before
end

function memory.link(ring, record)
  record.before, record.after = ring.before, ring
  ring.before.after, ring.before = record, record
end

-- A store of records, in histories by group (a table) and name. When they cost more than `most` bytes, those that are
-- over go first, then those that are open, the oldest first; a session that loses an open one is `lossy`.
--
-- What is over is most of it, and is looked at again only when its packets are. With `freeze`, which makes a string of
-- a record that begins with `from` and a space, and `thaw`, which makes a record of the string, it is kept as a string:
-- a quarter of the bytes, and nothing that the collector has to look into.
function memory.store(most, freeze, thaw)
  return {
    most = most, held = 0, forgotten = 0, freeze = freeze, thaw = thaw,
    open = memory.ring(),
    over = { first = 1, last = 0 }, -- group and name of one after another
  }
end

local FROZEN = 200 -- bytes that a string costs besides its own, with its place in the group and among those that are over

local function cost_of(record)
  return type(record) == "string" and FROZEN + #record or record.cost
end

local function forget_first(store, group, name)
  local history = group[name]
  local record = history
  if type(history) ~= "string" then
    record = history[history.first]
    memory.remove_first(history)
  end
  if record == history or history.first > history.last then
    group[name] = nil
  end
  store.held = store.held - cost_of(record)
  store.forgotten = store.forgotten + 1
  return record
end

local function make_room(store)
  local over = store.over
  while store.held > store.most do
    if over.first < over.last then
      forget_first(store, over[over.first], over[over.first + 1])
      over[over.first], over[over.first + 1] = nil, nil
      over.first = over.first + 2
    else
      local record = store.open.after
      memory.unlink(record)
      forget_first(store, record.group, record.name)
      record.gone, record.session.lossy = true, true
    end
  end
end

-- Adds a record that has `from`, `session` and `cost` in bytes.
function memory.keep(store, group, name, record)
  local history = group[name]
  if type(history) ~= "table" then
    history = { first = 1, last = history and 1 or 0, history }
    group[name] = history
  end
  memory.append(history, record)
  record.group, record.name = group, name
  memory.link(store.open, record)
  store.held = store.held + record.cost
  make_room(store)
end

-- Takes note that a record is over, or that one that is has changed. Of one history only the last may be open.
function memory.retire(store, record)
  if record.is_over then
    memory.charge(store, record, 0)
    return
  elseif record.gone then
    return
  end
  record.is_over = true
  memory.unlink(record)
  local group, name, over = record.group, record.name, store.over
  over[over.last + 1], over[over.last + 2] = group, name
  over.last = over.last + 2
  if store.freeze then
    local history, frozen = group[name], store.freeze(record)
    store.held = store.held - record.cost + cost_of(frozen)
    if history.first == history.last then
      group[name] = frozen
    else
      history[history.last] = frozen
    end
  end
end

-- Takes note that every record of a group is over.
function memory.retire_all(store, group)
  for _, history in pairs(group) do
    local record = type(history) == "table" and history[history.last]
    if type(record) == "table" then
      memory.retire(store, record)
    end
  end
end

local function thawed(store, frozen, group, name)
  local record = store.thaw(frozen)
  record.is_over, record.group, record.name = true, group, name
  return record
end

-- Returns the record that holds at a place; nil if there is none yet.
function memory.find(store, group, name, place)
  local history = group[name]
  if type(history) ~= "table" then
    return history and from_of(history) <= place and thawed(store, history, group, name) or nil
  end
  -- Nearly always, and for each message.
  local last = history[history.last]
  if type(last) == "table" and last.from <= place then
    return last
  end
  local found = memory.at(history, place)
  if type(found) == "string" then
    return thawed(store, found, group, name)
  end
  return found
end

-- Takes note that a record has grown by so many bytes, or else changed.
function memory.charge(store, record, cost)
  if record.gone then
    return
  end
  if record.is_over and store.freeze then
    local group, name = record.group, record.name
    local before, index = group[name], nil
    if type(before) == "table" then
      before, index = memory.at(before, record.from)
    end
    if not before or from_of(before) ~= record.from then
      return -- it was forgotten
    end
    local frozen = store.freeze(record)
    store.held = store.held - cost_of(before) + cost_of(frozen)
    if index then
      group[name][index] = frozen
    else
      group[name] = frozen
    end
  else
    record.cost = record.cost + cost
    store.held = store.held + cost
  end
  make_room(store)
end

-- A number as a name in a table: above 2^53 it is no Lua number, and equal ones are different objects.
function memory.name(number)
  if type(number) == "number" then
    return number
  end
  return "u" .. tostring(number)
end

-- Notes by place, as many as `most`; the oldest go.
function memory.notes(most)
  return { most = most, first = 1, last = 0, places = {}, by_place = {} }
end

function memory.note(notes, place, note)
  notes.last = notes.last + 1
  notes.places[notes.last] = place
  notes.by_place[place] = note
  if notes.last - notes.first >= notes.most then
    notes.by_place[notes.places[notes.first]] = nil
    notes.places[notes.first] = nil
    notes.first = notes.first + 1
  end
end
