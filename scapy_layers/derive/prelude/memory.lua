-- What holds from a place of the capture on. Packets are read again in any order (a click, a second pass) and must say
-- the same as when they were first read, so nothing is overwritten: what changes is kept with the place where it begins.

local memory = {}
Z.memory = memory

local floor = math.floor

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

-- Returns the record that holds at a place; nil if there is none yet.
function memory.at(history, place)
  if not history then
    return nil
  end
  local low, high = history.first, history.last
  local found = history[high]
  if not found or found.from <= place then
    return found
  end
  found, high = nil, high - 1
  while low <= high do
    local middle = floor((low + high) / 2)
    local record = history[middle]
    if record.from <= place then
      found, low = record, middle + 1
    else
      high = middle - 1
    end
  end
  return found
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
function memory.store(most)
  return { most = most, held = 0, forgotten = 0, open = memory.ring(), over = memory.ring() }
end

local function forget(store, record)
  memory.unlink(record)
  memory.remove_first(record.group[record.name])
  if record.group[record.name].first > record.group[record.name].last then
    record.group[record.name] = nil
  end
  store.held = store.held - record.cost
  store.forgotten = store.forgotten + 1
  record.gone = true
  if not record.is_over then
    record.session.lossy = true
  end
end

local function make_room(store)
  while store.held > store.most do
    local oldest = store.over.after
    if oldest == store.over then
      oldest = store.open.after
    end
    forget(store, oldest)
  end
end

-- Adds a record that has `from`, `session` and `cost` in bytes.
function memory.keep(store, group, name, record)
  local history = group[name]
  if not history then
    history = memory.history()
    group[name] = history
  end
  memory.append(history, record)
  record.group, record.name = group, name
  memory.link(store.open, record)
  store.held = store.held + record.cost
  make_room(store)
end

-- Takes note that a record is over. Of one history only the last may be open.
function memory.retire(store, record)
  if not record.is_over and not record.gone then
    record.is_over = true
    memory.unlink(record)
    memory.link(store.over, record)
  end
end

-- Takes note that a record has grown.
function memory.charge(store, record, cost)
  if record.gone then
    return
  end
  record.cost = record.cost + cost
  store.held = store.held + cost
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
