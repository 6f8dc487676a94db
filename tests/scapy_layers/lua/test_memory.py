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
    assert found == b"10 true true nil"


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
