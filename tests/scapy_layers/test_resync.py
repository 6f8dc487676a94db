"""The search for batches, in the layers and in zenoh.lua: the same places, found with the same bytes, at bounded cost."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from scapy_layers import lz4
from scapy_layers.conversation import is_batch
from scapy_layers.framing import HEAD, Framing, looks
from scapy_layers.primitives import write_vle
from scapy_layers.resync import EXPECTED, KNOWN, Found, Proof, Seeker
from tests.scapy_layers.lua.parts import VERSIONS, Runtime, part, runtime
from tests.scapy_layers.packets import INIT_ACK, OPEN_ACK, prefixed, put

LIMIT = 1 << 18
PROOFS = {"EXPECTED": EXPECTED, "KNOWN": KNOWN}
PREFIXES = {2: Framing.SHORT, 4: Framing.LONG}


def load(version: str) -> Runtime:
    """Loads what searches in zenoh.lua; what is a batch Python decides."""
    lua = runtime(version)
    lua.execute("Z = { links = { decompressed = function() return nil end } }")
    for name in ("lz4", "looks", "seek"):
        part(lua, name, "")
    lua.execute("return function(strict) Z.strict = strict end")(lambda raw, _kind: is_batch(bytes(raw)))
    return lua


@pytest.fixture(params=VERSIONS, scope="module")
def lua(request: pytest.FixtureRequest) -> Runtime:
    return load(request.param)


# What is searched ---------------------------------------------------------------------------------


def fragment(sn: int, data: bytes, lane: int | None = None) -> bytes:
    head = b"\x66" if lane is None else b"\xe6"
    return head + write_vle(sn) + (b"" if lane is None else bytes([0x31, lane])) + data


def transfer(chance: random.Random, size: int) -> list[bytes]:
    sn, lane = chance.choice((0, 120, 16_380, 200_000_000)), chance.choice((None, 5))
    step = chance.choice((1, 2, 3))
    return [fragment(sn + index * step, chance.randbytes(size), lane) for index in range(4)]


def stream(seed: int) -> tuple[bytes, list[int], int]:
    """Returns bytes, where packets end in them, and bytes of the lengths."""
    chance = random.Random(seed)
    prefix = chance.choice((2, 2, 4))
    batches: list[bytes] = []
    for _ in range(chance.randrange(1, 4)):
        batches += chance.choice(
            (
                [b"\x04"],
                [b"\x03\0"],
                [b"\0\x04"],
                [OPEN_ACK],
                [INIT_ACK],
                [put(sn, payload=bytes(chance.randrange(300))) for sn in range(500, 503)],
                [b"\0" + put(500)],
                [b"\x01\xf0\x05" + put(500, payload=bytes(3))],
                [put(501)[2:]],
                transfer(chance, chance.choice((5, 900, 5_000))),
            )
        )
    front = chance.randbytes(chance.choice((0, 0, 10, 2_000)))
    whole = front + b"".join(prefixed(one, prefix) for one in batches)
    if chance.random() < 0.3:
        whole = whole[: -chance.randrange(1, 20)] or b"\0"
    if chance.random() < 0.3:
        at = chance.randrange(len(whole))
        whole = whole[:at] + chance.randbytes(1) + whole[at + 1 :]
    ends = sorted(
        {chance.randrange(1, len(whole)) for _ in range(chance.randrange(6))} if len(whole) > 1 else set()
    )
    return whole, [*ends, len(whole)], prefix


def by_layers(data: bytes, ends: Sequence[int], framing: Framing, proof: Proof) -> list[Found | None]:
    """Searches packet after packet, up to the first that is found."""
    seeker, told = Seeker(framing, proof, LIMIT), []
    for end in ends:
        seeker.boundaries.append(end)
        told.append(seeker.look(bytearray(data[:end]), is_batch, last=False))
        if told[-1]:
            break
    return told


def by_lua(lua: Runtime, data: bytes, ends: Sequence[int], prefix: int, proof: str) -> list[Found | None]:
    look: Any = lua.execute(
        "return function(prefix, proof) local search = Z.seek.new(prefix, Z.seek[proof], {})"
        " return function(raw) local at, bits = Z.seek.look(search, raw) return at and { at, bits } end end"
    )(prefix, proof.encode())
    told: list[Found | None] = []
    for end in ends:
        found = look(data[:end])
        told.append(None if found is None else Found(int(found[1]), int(found[2])))
        if told[-1]:
            break
    return told


@cache
def streams() -> list[tuple[bytes, list[int], int]]:
    return [stream(seed) for seed in range(400)]


# Both alike ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("proof", PROOFS)
def test_both_find_the_same_place_with_the_same_packet(lua: Runtime, proof: str) -> None:
    found = 0
    for data, ends, prefix in streams():
        ours = by_layers(data, ends, PREFIXES[prefix], PROOFS[proof])
        assert by_lua(lua, data, ends, prefix, proof) == ours, (data.hex(), ends, prefix)
        found += ours[-1] is not None
    assert found > len(streams()) // 4


@pytest.mark.parametrize("header", [0x02, 0x22, 0x42, 0x62, 0x82, 0xA2, 0xC2, 0xE2])
def test_random_bytes_are_hardly_ever_an_open(header: int) -> None:
    chance = random.Random(header)
    taken = sum(looks(bytes([header]) + chance.randbytes(218), 219).bits > 0 for _ in range(2_000))
    assert taken < 200  # with extensions: 9 of their 128 headers are known


@pytest.mark.parametrize("front", [0, 5])
def test_open_begins_with_a_packet(front: int) -> None:
    data = bytes(front) + prefixed(OPEN_ACK) + prefixed(put(500)) + prefixed(put(501))
    found = by_layers(data, [len(data)], Framing.SHORT, KNOWN)[-1]
    assert found is not None
    assert found.at == (front and front + len(prefixed(OPEN_ACK)))


@pytest.mark.parametrize("packets", [1, 2])
def test_batches_are_found_in_front_of_one_that_is_refused_however_they_come(
    lua: Runtime, packets: int
) -> None:
    good, bad = prefixed(put(500)), prefixed(put(501)[:-1])
    data = good + bad
    ends = [len(data)] if packets == 1 else [len(good), len(data)]
    found = by_layers(data, ends, Framing.SHORT, KNOWN)[-1]
    assert found is not None
    assert found.at == 0
    assert by_lua(lua, data, ends, 2, "KNOWN")[-1] == found


def heads() -> Iterator[bytes]:
    chance = random.Random(4)
    for _ in range(4_000):
        raw = chance.randbytes(chance.randrange(1, HEAD + 1))
        for first in (raw[0], chance.choice((0, 1, 2, 5, 6, 0x25, 0x66, 0xE6, 0x85, 0x22))):
            yield bytes([first]) + raw[1:]


def test_both_judge_any_head_alike(lua: Runtime) -> None:
    judge: Any = lua.execute(
        "return function(raw, size) local bits, lane, sn, sn_bits = Z.looks.at(raw, 0, #raw, size)"
        " if sn and sn < 2^53 then return { bits, lane, sn, sn_bits } end return { bits } end"
    )
    for head in heads():
        for size in (len(head), len(head) + 100):
            seen = looks(head, size)
            told = [int(one) for one in judge(head, size).values()]
            if seen.bits and seen.sn is not None and seen.sn < 2**53:
                assert told == [seen.bits, seen.lane, seen.sn, seen.sn_bits], (head.hex(), size)
            else:
                assert told[0] == seen.bits, (head.hex(), size)


# What it costs ------------------------------------------------------------------------------------


def meeting(size: int) -> bytes:
    """Small FRAGMENTs one behind the other, and in front of them heads whose lengths all lead there."""
    heads = b"".join((size - at - 2).to_bytes(2, "little") + b"\x06\0\0" for at in range(0, size, 5))
    return heads + b"\3\0\x06\0\0" * (size // 5)


FULL = 1 << 19
"""Bytes that may be unpacked besides as many as there are."""

BOMB = b"\x01\x6f\x25\x01\x1d\x00\x02\x00\x04\x00" + b"\xff" * 254 + b"\x00\x60" + b"\xff" * 6
"""A compressed batch of 64 KiB, at the end of which there is no message."""

HOSTILE = {
    "batches that unpack to much more": prefixed(BOMB) * 400,
    "chains that meet": meeting(50_000),
    "a chain at each byte": b"\x06" * 100_000,
    "heads of which each next one is refused": b"\x05\0\x25\x07\x3d\x00\xff" * 14_000,
    "random bytes": random.Random(1).randbytes(100_000),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("size", [1_000, 100_000])
def test_work_for_each_byte_is_bounded_whatever_the_bytes_are(name: str, size: int) -> None:
    data, asked = HOSTILE[name], 0

    def asks(batch: bytes) -> bool:
        nonlocal asked
        asked += len(batch)
        return False

    for framing in PREFIXES.values():
        seeker, asked = Seeker(framing, KNOWN, LIMIT), 0
        for end in range(size, len(data) + 1, size):
            seeker.boundaries.append(end)
            seeker.look(bytearray(data[:end]), asks, last=False)
        assert seeker.steps <= len(data) + 4097
        assert asked <= len(data) + 4096


@pytest.mark.parametrize("name", HOSTILE)
def test_work_of_lua_for_each_byte_is_bounded_whatever_the_bytes_are(name: str) -> None:
    data = HOSTILE[name]
    lua = load("lua54")
    count: Any = lua.execute(
        "return function(raw, prefix) local judged, at = 0, Z.looks.at"
        " Z.looks.at = function(...) judged = judged + 1 return at(...) end"
        " Z.strict = function() return false end"
        " Z.seek.look(Z.seek.new(prefix, Z.seek.KNOWN, {}), raw) Z.looks.at = at return judged end"
    )
    for prefix in PREFIXES:
        assert count(data, prefix) <= len(data) + 4097


@pytest.mark.parametrize("version", VERSIONS)
def test_unpacked_bytes_are_bounded_and_both_stop_at_the_same_one(version: str) -> None:
    data, asked = HOSTILE["batches that unpack to much more"], 0

    def asks(_batch: bytes) -> bool:
        nonlocal asked
        asked += 1
        return False

    Seeker(Framing.SHORT, KNOWN, LIMIT).look(bytearray(data), asks, last=False)
    assert asked == (len(data) + FULL) // 0xFFFF
    count: Any = load(version).execute(
        "return function(raw) local asked = 0 Z.strict = function() asked = asked + 1 return false end"
        " Z.seek.look(Z.seek.new(2, Z.seek.KNOWN, {}), raw) return asked end"
    )
    assert count(data) == asked


@pytest.mark.parametrize("version", VERSIONS)
def test_both_weigh_any_block_alike(version: str) -> None:
    weigh: Any = load(version).execute("return function(block, most) return Z.lz4_weight(block, most) end")
    chance = random.Random(8)
    blocks = [chance.randbytes(chance.randrange(12)) + b"\xff" * chance.randrange(3) for _ in range(3_000)]
    for block in [BOMB[1:], *blocks]:
        assert weigh(block, 0xFFFF) == lz4.weight(block, 0xFFFF), block.hex()


def test_hostile_bytes_need_their_bound() -> None:
    seeker = Seeker(Framing.SHORT, KNOWN, LIMIT)
    seeker.look(bytearray(meeting(50_000)), is_batch, last=False)
    assert seeker.steps > 100_000
