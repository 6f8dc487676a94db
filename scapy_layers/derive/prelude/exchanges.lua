-- What belongs together: aliases and their keys, requests and responses, declarations, interests.

local memory = Z.memory

local concat, format, gmatch, match, rep = table.concat, string.format, string.gmatch, string.match, string.rep

local MIB = 1048576
local MOST_ALIASES = 64 * MIB -- bytes
local MOST_EXCHANGES = 64 * MIB -- bytes
local RECORD = 1024 -- bytes that a record costs besides its key while it is open
local ANSWER = 16
local MOST_ANSWERS = 64 -- answers that one exchange lists
local LONGEST = 65536 -- bytes of a key; a longer one cannot be said without an alias

-- What is over ---------------------------------------------------------------------------------------

-- Returns functions that make a string of a record and a record of the string: numbers by name, `from` the first of
-- them, the packets it lists, its key.
local function strings(names)
  local pattern = "^" .. rep("(%S+) ", #names) .. "(%S*) (.?)(.*)$"
  local function freeze(record)
    local parts = {}
    for index = 1, #names do
      local value = record[names[index]]
      parts[index] = value and format("%.17g", value) or "-"
    end
    parts[#names + 1] = concat(record, ",")
    parts[#names + 2] = record.keyexpr and "=" .. record.keyexpr or ""
    return concat(parts, " ")
  end
  local function thaw(text)
    local parts, record = { match(text, pattern) }, {}
    for index = 1, #names do
      record[names[index]] = tonumber(parts[index])
    end
    for packet in gmatch(parts[#names + 1], "[^,]+") do
      record[#record + 1] = tonumber(packet)
    end
    record.keyexpr = parts[#names + 2] == "=" and parts[#names + 3] or nil
    return record
  end
  return freeze, thaw
end

-- Aliases --------------------------------------------------------------------------------------------

local aliases = {}
Z.aliases = aliases
local known_aliases, known_exchanges

local function forget_all()
  known_aliases = memory.store(MOST_ALIASES, strings({ "from", "to" }))
  known_exchanges = memory.store(MOST_EXCHANGES,
    strings({ "from", "to", "asked", "asked_time", "ended", "complete", "answered", "budget", "timeout" }))
end
forget_all()
Z.on_init[#Z.on_init + 1] = forget_all

-- Takes D_KEYEXPR of one end. An alias that is in use stays as it is, as in real nodes: then returns a remark. With `lossy`
-- what took it back may not have been heard.
function aliases.declare(session, side, number, key, place, lossy)
  local known = memory.find(known_aliases, session.aliases[side], number, place)
  if known and not known.to then
    if known.keyexpr == key then return nil end
    if not lossy then
      return string.format("alias %d is in use for %q, which stays", number, known.keyexpr)
    end
  end
  memory.keep(known_aliases, session.aliases[side], number,
    { from = place + 1, keyexpr = key, session = session, cost = RECORD + #key })
end

-- Takes U_KEYEXPR of one end. The other end may have used the alias in messages that are under way.
function aliases.undeclare(session, side, number, place)
  local known = memory.find(known_aliases, session.aliases[side], number, place)
  if known and not known.to then
    known.to = place
    memory.retire(known_aliases, known)
  end
end

-- Returns the key an alias stands for at a place; for its owner only until it is taken back.
local function key_of(session, owner, number, place, own)
  local known = memory.find(known_aliases, session.aliases[owner], number, place)
  if known and not (own and known.to and known.to < place) then
    return known.keyexpr
  end
end

-- Returns the key that is taken back at a place.
function aliases.taken_back(session, side, number, place)
  return key_of(session, side, number, place, true)
end

-- Returns the full key that one end means, or nil and whether the alias is not known (else the key is too long).
function aliases.resolve(session, side, scope, suffix, own, place)
  if scope == 0 then
    return suffix
  end
  local key = key_of(session, own and side or 1 - side, scope, place, own)
  if not key then
    return nil, true
  end
  if #key + #suffix > LONGEST then
    return nil, false
  end
  return key .. suffix
end

-- Takes note that a session has ended. What its ends have left open is over, though messages may be under way.
function aliases.leave(session)
  memory.retire_all(known_aliases, session.aliases[0])
  memory.retire_all(known_aliases, session.aliases[1])
end

-- Exchanges ------------------------------------------------------------------------------------------

local exchanges = {}
Z.exchanges = exchanges

-- What is open of one kind, of one end.
function exchanges.room()
  return { [0] = {}, [1] = {} }
end

local function of_kind(room, owner, kind)
  local mine = room[owner]
  if not mine then
    mine = {}
    room[owner] = mine
  end
  local group = mine[kind]
  if not group then
    group = {}
    mine[kind] = group
  end
  return group
end

-- Opens an exchange: a table that lists the packets of its first answers. Returns
-- the one that was open under the same name and is now replaced.
function exchanges.begin(room, owner, kind, name, exchange)
  local group = of_kind(room, owner, kind)
  local before = memory.find(known_exchanges, group, name, exchange.from)
  if before and before.to then
    before = nil
  end
  if before then
    memory.retire(known_exchanges, before)
  end
  exchange.cost = RECORD + #(exchange.keyexpr or "")
  exchange.answered = 0
  memory.keep(known_exchanges, group, name, exchange)
  return before
end

-- Returns what was last opened under a name at or before a place, and whether it is still open there.
function exchanges.find(room, owner, kind, name, place)
  local mine = room[owner]
  local found = mine and mine[kind] and memory.find(known_exchanges, mine[kind], name, place)
  return found, found ~= nil and (found.to == nil or place <= found.to)
end

function exchanges.answer(exchange, packet)
  exchange.answered = exchange.answered + 1
  local count, cost = #exchange, 0
  if count < MOST_ANSWERS and exchange[count] ~= packet then
    exchange[count + 1] = packet
    cost = ANSWER
  end
  memory.charge(known_exchanges, exchange, cost)
end

-- Takes note that the session of a room has ended. What it was interested in stays at hand: of that more is known than is
-- kept of what is over.
function exchanges.leave(room)
  for _, mine in pairs(room) do
    for kind, group in pairs(mine) do
      if kind ~= "interest" then
        memory.retire_all(known_exchanges, group)
      end
    end
  end
end

-- Ends an exchange: at later places it is not open.
function exchanges.finish(exchange, place, packet)
  exchange.to, exchange.ended = place, packet
  memory.retire(known_exchanges, exchange)
end
