-- A capture in numbers: `tshark -z zenoh,messages|keys|sessions|requests[,FILTER]`, and Tools > Zenoh in Wireshark.
--
-- What a packet says is noted while it is dissected and counted when Wireshark taps it: once for each look at a
-- capture, however often its packets are dissected, and only those that pass the filter.

local floor, log, exp, min, max = math.floor, math.log, math.exp, math.min, math.max
local MOST_ROWS = 10000 -- of a table that are told apart
local MOST_SHOWN = 100
local MOST_ASKED = 100000 -- requests that wait for their answers
local LONGEST_TEXT = 64 -- characters of a key that are shown
local STEP = log(1.02) -- response times are counted in steps of two percent

-- What the packet in work says -------------------------------------------------------------------------

local taps = 0
local said = { count = 0 }

local function count_taps(more)
  taps = taps + more
  Z.choose_listeners()
end

local function forget()
  said = { count = 0 }
end

Z.on_init[#Z.on_init + 1] = forget

local function hear(b, m)
  if said.number ~= b.number or said.visited ~= b.visited then
    said = { count = 0, number = b.number, visited = b.visited }
  end
  local count = said.count
  said[count + 1], said[count + 2], said.count = b, m, count + 2
end

Z.listen(hear, function() return taps > 0 end)

-- Text -------------------------------------------------------------------------------------------------

local function width_of(text)
  local _, behind = string.gsub(text, "[\128-\191]", "")
  return #text - behind
end

-- A key may be anything: what does not show is replaced, what is long is cut in the middle.
local function shown(text)
  if text == "" then
    return "(no key)"
  end
  text = string.gsub(Z.shown(text), "[%c]", "?")
  if width_of(text) <= LONGEST_TEXT then
    return text
  end
  local half = floor(LONGEST_TEXT / 2) - 2
  local first = string.gsub(string.sub(text, 1, half), "[\192-\255][\128-\191]*$", "")
  local last = string.gsub(string.sub(text, -half), "^[\128-\191]+", "")
  return first .. "..." .. last
end

local function whole(number)
  return string.format("%.0f", number)
end

local function decimal(number)
  return number and string.format("%.3f", number) or "-"
end

local function milliseconds(seconds)
  return seconds and string.format("%.3f", seconds * 1000) or "-"
end

-- Returns a table as text. The first row has the titles; those that begin with "<" head columns of text.
local function aligned(title, rows, remarks)
  local widths, total = {}, -2
  for _, row in ipairs(rows) do
    for index, cell in ipairs(row) do
      widths[index] = max(widths[index] or 0, width_of((string.gsub(cell, "^<", ""))))
    end
  end
  for _, width in ipairs(widths) do
    total = total + width + 2
  end
  local ruler = string.rep("=", max(total, #title))
  local lines = { ruler, title, "" }
  local titles = rows[1]
  for number, row in ipairs(rows) do
    local cells = {}
    for index, cell in ipairs(row) do
      local text = number == 1 and string.gsub(cell, "^<", "") or cell
      local gap = string.rep(" ", widths[index] - width_of(text))
      cells[index] = string.sub(titles[index], 1, 1) == "<" and text .. gap or gap .. text
    end
    lines[#lines + 1] = (string.gsub(table.concat(cells, "  "), "%s+$", ""))
    if number == 1 then
      lines[#lines + 1] = string.rep("-", total)
    end
  end
  for _, remark in ipairs(remarks) do
    lines[#lines + 1] = remark
  end
  lines[#lines + 1] = ruler
  return table.concat(lines, "\n") .. "\n"
end

-- Rows that are told apart, up to a bound ---------------------------------------------------------------

local function new_rows(make)
  return { make = make, by_name = {}, list = {}, left_out = 0 }
end

-- Returns the row of a name; nil when there are too many, which is counted.
local function row_of(rows, name)
  local row = rows.by_name[name]
  if not row then
    if #rows.list >= MOST_ROWS then
      rows.left_out = rows.left_out + 1
      return nil
    end
    row = rows.make()
    row.name, row.order = name, #rows.list
    rows.by_name[name] = row
    rows.list[#rows.list + 1] = row
  end
  return row
end

-- Returns the rows that weigh most, and a remark for what is not among them.
local function top(rows, weight)
  local sorted = {}
  for index, row in ipairs(rows.list) do
    sorted[index] = row
  end
  table.sort(sorted, function(one, other)
    local left, right = weight(one), weight(other)
    if left ~= right then
      return left > right
    end
    return one.order < other.order
  end)
  local remarks = {}
  if #sorted > MOST_SHOWN then
    remarks[1] = whole(#sorted - MOST_SHOWN) .. " more rows are left out."
  end
  if rows.left_out > 0 then
    remarks[#remarks + 1] = whole(rows.left_out) .. " messages are in none of these: too many different ones."
  end
  for index = #sorted, MOST_SHOWN + 1, -1 do
    sorted[index] = nil
  end
  return sorted, remarks
end

-- Messages ---------------------------------------------------------------------------------------------

local function size_of(m)
  return m.at and m.stop and m.stop - m.at or 0
end

local function label_of(m)
  if m.name == "init" or m.name == "open" then
    return m.label .. (m.A == 1 and "_ACK" or "_SYN")
  end
  return m.label
end

local function messages()
  local rows = new_rows(function() return { count = 0, bytes = 0 } end)
  local counts = {}

  function counts.take(_, m)
    local inner = m
    while inner do
      local row = row_of(rows, label_of(inner))
      if row then
        row.count, row.bytes = row.count + 1, row.bytes + size_of(inner)
      end
      inner = inner.body
    end
  end

  function counts.text()
    local sorted, remarks = top(rows, function(row) return row.count end)
    local lines = { { "<Message", "Count", "Bytes" } }
    for index, row in ipairs(sorted) do
      lines[index + 1] = { row.name, whole(row.count), whole(row.bytes) }
    end
    remarks[#remarks + 1] = "Bytes of a message are those of what it carries, too."
    return aligned("Zenoh messages", lines, remarks)
  end

  return counts
end

-- Keys -------------------------------------------------------------------------------------------------

-- What carries a value: PUT, DEL, QUERY, ERR, also inside of a REPLY; and the bytes of it.
local function content_of(m)
  local value = m.body
  local inside_reply = value and value.name == "reply"
  if inside_reply then
    value = value.body
  end
  if not value then
    return nil
  end
  local data = value.data
  local body = value.ext and value.ext.query_body
  if body then
    data = body.data
  end
  return inside_reply and "reply" or value.name, type(data) == "string" and #data or 0
end

local COUNTED = { put = "puts", del = "deletes", query = "queries", reply = "replies", err = "errors" }

local function keys()
  local rows = new_rows(function()
    return { weight = 0, puts = 0, deletes = 0, queries = 0, replies = 0, errors = 0, bytes = 0 }
  end)
  local counts = {}

  function counts.take(_, m)
    if m.ignored or (m.name ~= "push" and m.name ~= "request" and m.name ~= "response") then
      return -- what receivers drop was said before
    end
    local kind, bytes = content_of(m)
    local counted = COUNTED[kind]
    local row = counted and m.keyexpr and row_of(rows, m.keyexpr)
    if row then
      row.weight, row[counted], row.bytes = row.weight + 1, row[counted] + 1, row.bytes + bytes
    end
  end

  function counts.text(duration)
    local sorted, remarks = top(rows, function(row) return row.weight end)
    local lines = { { "<Key expression", "Puts", "Deletes", "Per second", "Queries", "Replies", "Errors", "Bytes" } }
    for index, row in ipairs(sorted) do
      local published = row.puts + row.deletes
      lines[index + 1] = {
        shown(row.name), whole(row.puts), whole(row.deletes), duration > 0 and decimal(published / duration) or "-",
        whole(row.queries), whole(row.replies), whole(row.errors), whole(row.bytes),
      }
    end
    remarks[#remarks + 1] = "Bytes of payloads. What a router forwards counts on each of its links."
    return aligned("Zenoh keys", lines, remarks)
  end

  return counts
end

-- Sessions ---------------------------------------------------------------------------------------------

local function locator_of(link, address, port)
  local text = tostring(address)
  if string.find(text, ":", 1, true) then
    text = "[" .. text .. "]"
  end
  return (link.carrier or link.tcp and "tcp" or "udp") .. "/" .. text .. ":" .. tostring(port)
end

local function of_party(party)
  if not party.zid then
    return "-"
  end
  local role = party.whatami and Z.enums.WhatAmI[party.whatami]
  return party.zid .. (role and " " .. role or "")
end

-- What a session turned out to be, and whether its sides are the other way round there.
local function united(session)
  local turned = false
  while session.into do
    session, turned = session.into, turned ~= session.turned
  end
  return session, turned
end

local function sessions()
  local rows = new_rows(function() return { messages = 0, bytes = 0, links = {}, [0] = {}, [1] = {} } end)
  local begun -- when the first packet was seen
  local counts = {}

  function counts.take(b, m, pinfo)
    if m.kind == "scouting" then
      return
    end
    begun = begun or b.time
    -- Behind the message: with it the link may turn out to be one of another session.
    local now = Z.links.at(b.link, m.place + 1)
    if not now.session then
      return -- it was forgotten
    end
    -- What is another link of that session may still turn out to be none.
    local side, row = b.way.index - 1, row_of(rows, now.own or now.session)
    if not row then
      return
    end
    local party, other = row[side], row[1 - side]
    if not row.start then
      row.start, row.opened_by = b.time, side
      party.locator = locator_of(b.link, pinfo.src, pinfo.src_port)
      other.locator = locator_of(b.link, pinfo.dst, pinfo.dst_port)
    end
    row.links[b.link.from] = true
    row.finish, row.messages = b.time, row.messages + 1
    -- What a FRAME carries comes as messages of its own.
    if m.kind == "transport" or not m.within then
      row.bytes = row.bytes + size_of(m)
    end
    if m.name == "init" or m.name == "join" then
      party.zid, party.whatami = m.zid, m.whatami
    elseif not party.zid then
      party.zid = m.srczid or b.srczid
    end
    if m.name == "close" then
      row.closed_by, row.closed = side, "CLOSE " .. (Z.enums.CloseReason[m.reason] or tostring(m.reason))
    end
  end

  local function add(row, more)
    row.messages, row.bytes = row.messages + more.messages, row.bytes + more.bytes
    for link in pairs(more.links) do
      row.links[link] = true
    end
    if more.start < row.start then
      row.start, row.opened_by = more.start, more.opened_by
      row[0].locator, row[1].locator = more[0].locator, more[1].locator
    end
    row.finish = max(row.finish, more.finish)
    for side = 0, 1 do
      row[side].whatami = row[side].whatami or more[side].whatami
    end
  end

  -- What was counted before a link turned out to be one of another session is that of the other session.
  local function unite()
    local list = rows.list
    rows.list = {}
    for _, row in ipairs(list) do
      local session, turned = united(row.name)
      local known = session ~= row.name and rows.by_name[session]
      if turned then
        row[0], row[1], row.opened_by = row[1], row[0], 1 - row.opened_by
      end
      if known then
        add(known, row)
      else
        rows.list[#rows.list + 1] = row
      end
      if session ~= row.name then
        rows.by_name[row.name] = nil
        row.name = session
        rows.by_name[session] = known or row
      end
    end
  end

  function counts.text()
    unite()
    local sorted, remarks = top(rows, function(row) return -row.start end)
    local lines = {
      { "<Zid", "<Zid", "<Locator", "<Locator", "Links", "Start", "End", "Messages", "Bytes", "<Ended" },
    }
    for index, row in ipairs(sorted) do
      local opener, other = row[row.opened_by], row[1 - row.opened_by]
      local links = 0
      for _ in pairs(row.links) do
        links = links + 1
      end
      local ended = "not by CLOSE"
      if row.closed then
        ended = row.closed .. (row.closed_by == row.opened_by and ", from the left" or ", from the right")
      end
      lines[index + 1] = {
        of_party(opener), of_party(other), opener.locator, other.locator, whole(links),
        decimal(row.start - begun), decimal(row.finish - begun), whole(row.messages), whole(row.bytes), ended,
      }
    end
    remarks[#remarks + 1] = "Seconds from the first message. The end that was heard first stands on the left; locators are those of the first link."
    return aligned("Zenoh sessions", lines, remarks)
  end

  return counts
end

-- Requests ---------------------------------------------------------------------------------------------

local function new_spread()
  return { count = 0, sum = 0, buckets = {} }
end

local function add_to(spread, seconds)
  seconds = max(seconds, 0)
  spread.count, spread.sum = spread.count + 1, spread.sum + seconds
  spread.least, spread.most = min(spread.least or seconds, seconds), max(spread.most or seconds, seconds)
  local bucket = floor(log(max(seconds, 1e-9)) / STEP + 0.5)
  spread.buckets[bucket] = (spread.buckets[bucket] or 0) + 1
end

-- Returns the value that a share of all values does not exceed, to about one percent.
local function percentile(spread, share)
  local numbers = {}
  for bucket in pairs(spread.buckets) do
    numbers[#numbers + 1] = bucket
  end
  table.sort(numbers)
  local wanted, seen = spread.count * share, 0
  for _, bucket in ipairs(numbers) do
    seen = seen + spread.buckets[bucket]
    if seen >= wanted then
      return min(max(exp(bucket * STEP), spread.least), spread.most)
    end
  end
  return nil
end

local function requests()
  local rows = new_rows(function()
    return { asked = 0, replies = 0, errors = 0, finals = 0, to_reply = new_spread(), to_final = new_spread() }
  end)
  local asked, asked_count, strays, disordered = {}, 0, 0, false
  local counts = {}

  -- Of an answer: what was asked, also on another link of the session.
  local function answered(m)
    return m.exchange and asked[m.exchange.from]
  end

  function counts.take(b, m)
    disordered = disordered or b.link.disordered
    if m.ignored then
      return
    elseif m.name == "request" then
      local row = row_of(rows, m.keyexpr or "?")
      if row then
        row.asked = row.asked + 1
        if m.exchange and asked_count < MOST_ASKED then
          asked_count = asked_count + 1
          asked[m.exchange.from] = { row = row, time = b.time }
        end
      end
    elseif m.name == "response" then
      local exchange = answered(m)
      if exchange then
        local row = exchange.row
        local counted = m.body and m.body.name == "err" and "errors" or "replies"
        row[counted] = row[counted] + 1
        if not exchange.replied then
          exchange.replied = true
          add_to(row.to_reply, b.time - exchange.time)
        end
      else
        strays = strays + 1
      end
    elseif m.name == "response_final" then
      local exchange = answered(m)
      if exchange then
        exchange.row.finals = exchange.row.finals + 1
        add_to(exchange.row.to_final, b.time - exchange.time)
        asked[m.exchange.from], asked_count = nil, asked_count - 1
      else
        strays = strays + 1
      end
    end
  end

  local function times(spread)
    if spread.count == 0 then
      return "-", "-", "-", "-"
    end
    return milliseconds(spread.least), milliseconds(spread.sum / spread.count), milliseconds(spread.most),
      milliseconds(percentile(spread, 0.95))
  end

  function counts.text()
    local sorted, remarks = top(rows, function(row) return row.asked end)
    local lines = {
      { "<Key expression", "Queries", "Replies", "Errors", "Open", "First: min", "avg", "max", "95 %",
        "Final: min", "avg", "max", "95 %" },
    }
    for index, row in ipairs(sorted) do
      local line = { shown(row.name), whole(row.asked), whole(row.replies), whole(row.errors), whole(row.asked - row.finals) }
      for _, spread in ipairs({ row.to_reply, row.to_final }) do
        line[#line + 1], line[#line + 2], line[#line + 3], line[#line + 4] = times(spread)
      end
      lines[index + 1] = line
    end
    if disordered then
      remarks[#remarks + 1] = "Packets were captured out of order, or are missing: answers in front of their queries are not counted."
    end
    if strays > 0 then
      remarks[#remarks + 1] = whole(strays) .. " answers to queries that this capture does not have."
    end
    remarks[#remarks + 1] = "Milliseconds from the query to its first answer and to its end; 95 % took no longer (to 1 %)."
    return aligned("Zenoh requests", lines, remarks)
  end

  return counts
end

-- Taps -------------------------------------------------------------------------------------------------

local TABLES = {
  { name = "messages", title = "Messages", make = messages },
  { name = "keys", title = "Keys", make = keys },
  { name = "sessions", title = "Sessions", make = sessions },
  { name = "requests", title = "Requests", make = requests },
}

local has_windows = gui_enabled and gui_enabled()

-- A filter that is none ends tshark, as with its own statistics: without them nobody wants the rest.
local function refuse(entry, why)
  local text = "Couldn't register zenoh," .. entry.name .. " tap: " .. string.match(tostring(why), "([^\n]*)%s*$")
  if has_windows then
    Z.complain(text)
    return
  end
  io.stderr:write("tshark: " .. text .. "\n")
  os.exit(1)
end

-- Counts until `remove` is called; `show(text)` gets the table whenever Wireshark wants to see it.
local function listen(entry, filter, show)
  local made, tap = pcall(Listener.new, "frame", filter)
  if not made then
    refuse(entry, tap)
    return function() end
  end
  local counts, first, last = entry.make(), nil, nil
  count_taps(1)

  function tap.packet(pinfo)
    local time = pinfo.abs_ts
    first, last = min(first or time, time), max(last or time, time)
    if said.number ~= pinfo.number then
      return
    end
    for index = 1, said.count, 2 do
      counts.take(said[index], said[index + 1], pinfo)
    end
  end

  function tap.draw()
    show(counts.text(first and last - first or 0))
  end

  function tap.reset()
    counts, first, last = entry.make(), nil, nil
    forget()
  end

  return function()
    count_taps(-1)
    tap:remove()
  end
end

local function open_window(entry, filter)
  local window = TextWindow.new("Zenoh " .. string.lower(entry.title) .. (filter and ": " .. filter or ""))
  window:set_atclose(listen(entry, filter, function(text) window:set(text) end))
  -- The capture may have been read already.
  retap_packets()
end

local function on_command_line(entry)
  return function(argument)
    -- "zenoh,keys" or "zenoh,keys,FILTER"
    local filter = string.match(argument or "", "^zenoh,%w+,(.+)$")
    if has_windows then
      open_window(entry, filter)
    else
      listen(entry, filter, print)
    end
  end
end

local function on_menu(entry)
  return function() open_window(entry, nil) end
end

for _, entry in ipairs(TABLES) do
  if register_stat_cmd_arg then
    pcall(register_stat_cmd_arg, "zenoh," .. entry.name, on_command_line(entry))
  end
  if register_menu and has_windows then
    pcall(register_menu, "Zenoh/" .. entry.title, on_menu(entry), MENU_TOOLS_UNSORTED)
  end
end
