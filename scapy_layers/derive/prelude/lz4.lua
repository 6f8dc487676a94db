-- LZ4 blocks as batches with compression carry them. Spec: Compression.

local MIN_MATCH = 4 -- bytes that the shortest copy of earlier output has
local FULL = 15 -- value of a length nibble behind which further bytes are added, as long as they are 255
local RUN = 2048 -- bytes that are moved at a time: every Lua takes so many arguments

local byte, char, floor, min = string.byte, string.char, math.floor, math.min
local unpack = table.unpack or unpack

-- Returns a length that starts with a nibble, and the position behind it; nothing when the block ends inside it.
local function length(block, size, at)
  if size < FULL then
    return size, at
  end
  while true do
    local more = byte(block, at)
    if not more then
      return nil
    end
    size, at = size + more, at + 1
    if more ~= 255 then
      return size, at
    end
  end
end

-- Returns about how many bytes `Z.lz4` has to write, also of a block that it refuses; it takes no time.
function Z.lz4_weight(block, most)
  local size, at, stop = 0, 1, #block
  while at <= stop and size < most do
    local token = byte(block, at)
    local literals, copied
    literals, at = length(block, floor(token / 16), at + 1)
    if not literals then break end
    size = size + literals
    copied, at = length(block, token % 16, at + literals + 2)
    if not copied then break end
    size = size + copied + MIN_MATCH
  end
  return min(size, most)
end

local function text(out, count)
  local pieces = {}
  for from = 1, count, RUN do
    pieces[#pieces + 1] = char(unpack(out, from, min(from + RUN - 1, count)))
  end
  return table.concat(pieces)
end

-- Returns what a block without a size header holds. When it is refused, nil and why: the text, then kind, field and
-- place as strict decoding names them (it is cut, copies from before its start, or holds more than `most` bytes).
-- Takes time linear in block and output.
function Z.lz4(block, most)
  local out, count, at, stop = {}, 0, 1, #block
  while at <= stop do
    local start, token = at, byte(block, at)
    local literals, matched = floor(token / 16), token % 16
    literals, at = length(block, literals, at + 1)
    if not literals then
      return nil, "a length goes on behind the end of the block", "Truncated", "length", stop
    end
    if literals > stop - at + 1 then
      return nil, literals .. " bytes, " .. stop - at + 1 .. " left", "Truncated", "literals", start - 1
    end
    if count + literals > most then
      return nil, "more than " .. most .. " bytes of output", "Overlong", "block", start - 1
    end
    for from = at, at + literals - 1, RUN do
      local bytes = { byte(block, from, min(from + RUN, at + literals) - 1) }
      for i = 1, #bytes do
        out[count + i] = bytes[i]
      end
      count = count + #bytes
    end
    at = at + literals
    if at > stop then
      return text(out, count)
    end
    local low, high = byte(block, at, at + 1)
    if not high then
      return nil, "the offset has two bytes", "Truncated", "match", at - 1
    end
    local back = low + 256 * high
    if back == 0 or back > count then
      return nil, "an offset of " .. back .. " behind " .. count .. " bytes of output", "BadValue", "match", at - 1
    end
    matched, at = length(block, matched, at + 2)
    if not matched then
      return nil, "a length goes on behind the end of the block", "Truncated", "length", stop
    end
    matched = matched + MIN_MATCH
    if count + matched > most then
      return nil, "more than " .. most .. " bytes of output", "Overlong", "block", start - 1
    end
    for i = count + 1, count + matched do
      out[i] = out[i - back]
    end
    count = count + matched
  end
  return nil, "a block ends with literals", "Truncated", "token", stop
end
