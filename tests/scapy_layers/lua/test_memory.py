"""The parts of ``zenoh.lua`` that know nothing of Wireshark: LZ4, and what is remembered within bounds."""

from __future__ import annotations

from random import Random

import pytest

from scapy_layers.derive.lua import PRELUDE
from scapy_layers.errors import WireError
from scapy_layers.lz4 import decompress
from tests.scapy_layers.lua.parts import VERSIONS, Runtime, part, runtime

REAL = bytes.fromhex("ff0025dbadee187d0003742f7801c801410100ae60414141414141")
"""A FRAME with a PUT of 200 times A on t/x, as a real node sent it."""

MOST = 0xFFFF


def expected(block: bytes) -> tuple[object, ...]:
    """Returns what the block holds, or kind, field and place of what is refused."""
    try:
        return (decompress(block, MOST),)
    except WireError as error:
        return type(error).__name__.encode(), error.field.encode(), error.offset


def blocks() -> list[bytes]:
    """Real ones, long ones, and any bytes."""
    random = Random(4)
    found = [REAL, b"", b"\0", b"\xf0" + b"\xff" * 20 + b"\x07" + bytes(15 + 255 * 20 + 7)]
    found += [b"\x1fa\1\0" + b"\xff" * size + b"\0\0" for size in (0, 200, 256, 257, 300)]
    for _ in range(300):
        damaged = bytearray(REAL)
        for _ in range(random.randrange(4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        found += [bytes(damaged), bytes(damaged[: random.randrange(len(damaged))]), random.randbytes(30)]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_block_gives_what_the_layers_give(version: str) -> None:
    lua = runtime(version)
    part(lua, "lz4", "Z = {}")
    lua.execute("function unpack_block(block) whole, why, kind, field, at = Z.lz4(block, 65535) end")
    for block in blocks():
        lua.execute("unpack_block(...)", block)
        found = (
            lua.execute("return whole"),
            *(lua.execute(f"return {name}") for name in ("kind", "field", "at")),
        )
        whole, *refused = found
        assert ((whole,) if whole is not None else tuple(refused)) == expected(block), block.hex()


def conversation(version: str) -> Runtime:
    """Returns Lua with what remembers exchanges, in which there is room for some ten."""
    lua = runtime(version)
    part(lua, "memory", "Z = { on_init = {} }")
    source = (PRELUDE / "exchanges.lua").read_text(encoding="utf-8")
    assert "MOST_EXCHANGES = 64 * MIB" in source
    lua.execute(source.replace("MOST_EXCHANGES = 64 * MIB", "MOST_EXCHANGES = 10 * 1024"))
    return lua


BEGIN = """
local function begin(room, session, name, place)
  local exchange = { from = place, asked = place, session = session }
  Z.exchanges.begin(room, 0, "query", name, exchange)
  return exchange
end
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_over_goes_before_what_is_open(version: str) -> None:
    found = conversation(version).execute(
        BEGIN
        + """
        local room, session = Z.exchanges.room(), {}
        local open = begin(room, session, 1, 1)
        for place = 2, 1000 do
          Z.exchanges.finish(begin(room, session, place, 10 * place), 10 * place + 5, 0)
        end
        local kept = 0
        for name in pairs(room[0].query) do kept = kept + 1 end
        local found, is_open = Z.exchanges.find(room, 0, "query", 1, 20000)
        return table.concat({ kept, tostring(found == open), tostring(is_open), tostring(session.lossy) }, " ")
        """
    )
    # 1,024 bytes the one that is open, 200 and its text each one that is over.
    assert found == b"37 true true nil"


@pytest.mark.parametrize("version", VERSIONS)
def test_open_ones_go_oldest_first_and_their_session_is_lossy(version: str) -> None:
    found = conversation(version).execute(
        BEGIN
        + """
        local room, session = Z.exchanges.room(), {}
        for name = 1, 50 do begin(room, session, name, name) end
        local kept = {}
        for name = 1, 50 do
          if Z.exchanges.find(room, 0, "query", name, 1000) then kept[#kept + 1] = name end
        end
        return table.concat(kept, " ") .. " " .. tostring(session.lossy)
        """
    )
    assert found == b"41 42 43 44 45 46 47 48 49 50 true"


@pytest.mark.parametrize("version", VERSIONS)
def test_name_that_is_used_again_is_found_as_it_was_at_each_place(version: str) -> None:
    found = conversation(version).execute(
        BEGIN
        + """
        local room, session, kept = Z.exchanges.room(), {}, {}
        for turn = 1, 5 do
          Z.exchanges.finish(begin(room, session, 7, 10 * turn), 10 * turn + 5, 0)
        end
        for place = 9, 57, 3 do
          local found, is_open = Z.exchanges.find(room, 0, "query", 7, place)
          kept[#kept + 1] = (found and found.asked or 0) .. (is_open and "+" or "-")
        end
        return table.concat(kept, " ")
        """
    )
    expected = []
    for place in range(9, 58, 3):
        turn = min(place // 10, 5)
        is_open = turn > 0 and place <= 10 * turn + 5
        expected.append(f"{10 * turn}{'+' if is_open else '-'}")
    assert found.decode() == " ".join(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_over_is_found_as_it_was(version: str) -> None:
    found = conversation(version).execute(
        BEGIN
        + """
        local room, session, kept = Z.exchanges.room(), {}, {}
        local exchange = begin(room, session, 7, 2 ^ 52)
        exchange.asked_time, exchange.budget, exchange.keyexpr = 1700000000.123456, 3, "a b\\0\\n\\255- ="
        for packet = 1, 3 do Z.exchanges.answer(exchange, packet) end
        Z.exchanges.finish(exchange, 2 ^ 52 + 1, 9)
        local again = Z.exchanges.find(room, 0, "query", 7, 2 ^ 52 + 5)
        local kind = type(room[0].query[7])
        Z.exchanges.answer(again, 10)
        again = Z.exchanges.find(room, 0, "query", 7, 2 ^ 52)
        for _, name in ipairs({ "from", "to", "asked", "asked_time", "ended", "complete", "answered", "budget",
            "timeout" }) do
          kept[#kept + 1] = tostring(again[name] == exchange[name])
        end
        return table.concat(kept, " ") .. " " .. table.concat(again, ",") .. " " .. kind .. " "
          .. tostring(again.keyexpr == exchange.keyexpr) .. tostring(again.answered == 4)
        """
    )
    # One more answer than when it ended.
    assert found == b"true true true true true true false true true 1,2,3,10 string truetrue"


@pytest.mark.parametrize("version", VERSIONS)
def test_session_that_ends_is_over_but_known(version: str) -> None:
    found = conversation(version).execute(
        BEGIN
        + """
        local room, session = Z.exchanges.room(), { aliases = { [0] = {}, [1] = {} } }
        begin(room, session, 7, 10)
        Z.aliases.declare(session, 0, 1, "k", 5)
        Z.exchanges.leave(room)
        Z.aliases.leave(session)
        local kinds = type(room[0].query[7]) .. " " .. type(session.aliases[0][1])
        -- Messages that were under way.
        local found, is_open = Z.exchanges.find(room, 0, "query", 7, 20)
        local key = Z.aliases.resolve(session, 0, 1, "/x", true, 20)
        Z.aliases.undeclare(session, 0, 1, 21)
        Z.exchanges.finish(found, 22, 4)
        local _, is_still = Z.exchanges.find(room, 0, "query", 7, 23)
        local known = Z.aliases.resolve(session, 0, 1, "/x", true, 23)
        return table.concat({ kinds, tostring(is_open), key, tostring(is_still), tostring(known) }, " ")
        """
    )
    assert found == b"string string true k/x false nil"


@pytest.mark.parametrize("version", VERSIONS)
def test_exchange_at_hand_ends_behind_its_session(version: str) -> None:
    """Who holds on to an exchange may end it when it was put away already, whatever had its name before."""
    found = conversation(version).execute(
        BEGIN
        + """
        local room, session, kept = Z.exchanges.room(), {}, {}
        Z.exchanges.finish(begin(room, session, 7, 10), 15, 0)
        local at_hand = begin(room, session, 7, 20)
        Z.exchanges.leave(room)
        Z.exchanges.finish(at_hand, 25, 0)
        for place = 5, 30, 5 do
          local found, is_open = Z.exchanges.find(room, 0, "query", 7, place)
          kept[#kept + 1] = (found and found.asked or 0) .. (is_open and "+" or "-")
        end
        return table.concat(kept, " ")
        """
    )
    assert found == b"0- 10+ 10+ 20+ 20+ 20-"


@pytest.mark.parametrize("version", VERSIONS)
def test_strings_hold_what_records_hold(version: str) -> None:
    """Anything that happens to records is found again alike in a store that keeps them and in one that freezes them."""
    lua = runtime(version)
    part(lua, "memory", "Z = {}")
    found = lua.execute(
        """
        local memory, seed = Z.memory, 7
        local function any(count)
          seed = (seed * 16807) % 2147483647
          return seed % count + 1
        end
        local function freeze(record) return record.from .. " " .. record.text end
        local function thaw(text)
          local from, behind = text:match("^(%d+) (.*)$")
          return { from = tonumber(from), text = behind }
        end
        local stores = { memory.store(1e9), memory.store(1e9, freeze, thaw) }
        local groups, session = { {}, {} }, {}
        for place = 1, 20000 do
          local name, action, at = any(50), any(4), any(place)
          local texts = {}
          for index, store in ipairs(stores) do
            local group = groups[index]
            local known = memory.find(store, group, name, place)
            if action == 1 then
              if known then memory.retire(store, known) end
              memory.keep(store, group, name, { from = place, text = "t" .. place, session = session, cost = 9 })
            elseif action == 2 and known then
              memory.retire(store, known)
            elseif action == 3 and known then
              known.text = known.text .. "+"
              memory.charge(store, known, 1)
            elseif action == 4 then
              known = memory.find(store, group, name, at)
            end
            texts[index] = known and known.from .. known.text or "none"
          end
          if texts[1] ~= texts[2] then return place .. " " .. texts[1] .. " " .. texts[2] end
        end
        -- What both are told to hold is given back to the last byte.
        for _, store in ipairs(stores) do
          store.most = 0
          memory.keep(store, {}, 1, { from = 1, text = "", session = {}, cost = 1 })
        end
        return stores[1].held .. " " .. stores[2].held .. " " .. tostring(next(groups[1])) .. tostring(next(groups[2]))
        """
    )
    assert found == b"0 0 nilnil"


@pytest.mark.parametrize("version", VERSIONS)
def test_notes_are_as_many_as_there_may_be(version: str) -> None:
    lua = runtime(version)
    part(lua, "memory", "Z = {}")
    found = lua.execute(
        """
        local notes, kept = Z.memory.notes(3), {}
        for place = 1, 10 do Z.memory.note(notes, place, place) end
        for place in pairs(notes.by_place) do kept[#kept + 1] = place end
        table.sort(kept)
        return table.concat(kept, " ")
        """
    )
    assert found == b"8 9 10"


def finished(version: str) -> Runtime:
    """Returns Lua with what puts fragments together, which keeps no message that is whole."""
    lua = runtime(version)
    part(lua, "memory", "Z = { on_init = {} }")
    part(lua, "lanes", "")
    part(lua, "fragments", "function gui_enabled() return false end")
    lua.execute(
        """
        lane, other = { chains = Z.memory.history() }, { chains = Z.memory.history() }
        function take(lane, sn, more, place, data, first)
          local m = { sn = sn, M = more and 1 or 0, data = data, ext = { first = first and {} or nil } }
          return Z.fragments.take(lane, {}, m, place, place, 1, 127, true, true)
        end
        function again(lane, place, data)
          local chain = Z.fragments.at(lane, place)
          if not chain.data then Z.fragments.again(chain, place, data) end
          return chain.data
        end
        take(lane, 1, true, 1, "a", true)
        take(other, 5, true, 2, "x", true)
        take(lane, 2, true, 3, "", false)
        take(other, 6, false, 4, "y", false)
        take(lane, 3, false, 5, "c", false)
        function push_out()
          last = (last or 5) + 1
          take(lane, last - 2, false, last, string.rep("z", 9 * 1048576), true)
        end
        push_out()
        """
    )
    return lua


@pytest.mark.parametrize("version", VERSIONS)
def test_fragments_that_are_read_again_in_order_make_their_message_again(version: str) -> None:
    lua = finished(version)
    assert lua.execute("return Z.fragments.at(lane, 1).data") is None
    for expected in (b"ac", b"ac"):  # once more, with what the pass before it left
        made = [
            lua.execute("return again(...)", lua.execute(f"return {lane}"), place, data)
            for lane, place, data in (
                ("lane", 1, b"a"),
                ("other", 2, b"x"),
                ("lane", 3, b""),
                ("other", 4, b"y"),
                ("lane", 5, b"c"),
            )
        ]
        assert made[3:] == [b"xy", expected]
        lua.execute("push_out()")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("places", [(5,), (3, 5), (1, 5), (1, 5, 3), (1, 1, 5), (1, 3, 3)])
def test_fragments_that_are_read_again_in_part_make_no_message(version: str, places: tuple[int, ...]) -> None:
    lua = finished(version)
    lane = lua.execute("return lane")
    data = {1: b"a", 3: b"", 5: b"c"}
    assert [lua.execute("return again(...)", lane, place, data[place]) for place in places] == [None] * len(
        places
    )
