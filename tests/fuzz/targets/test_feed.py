from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Fixed, Source, reach, send
from fuzz.plan import Plan
from fuzz.readers.units import UnitKind
from fuzz.states import State
from fuzz.targets.feed import MOST_TIMES, SPOILED, ZID, Input, Nominal, input_of, inputs, pieces, spoiled
from scapy_layers.batch import BatchReader


def campaign(state: State, **variants: list[bytes | str]) -> Campaign:
    def make(_: Setting) -> Iterator[Source]:
        yield Fixed("it", state, "IT", {name: [send(*parts)] for name, parts in variants.items()}, "test")

    return Campaign("test", "", make)


def only(state: State, *parts: bytes | str) -> Input:
    (numbered,) = Plan(campaign(state, it=list(parts)), Setting()).cases()
    return input_of(numbered, random.Random(5))


@pytest.mark.parametrize(
    ("pieces_of", "data"),
    [
        ((b"\x04",), b"\x04"),
        (("sn", "sn"), b"\xc0\x84\x3d\xc1\x84\x3d"),
        (("zid",), ZID),
        (("zid@b",), ZID),
        (("from 300",), b"\xac\x02"),
        (("something new",), b"\x01"),
    ],
)
def test_live_values_are_nominal(pieces_of: tuple[bytes | str, ...], data: bytes) -> None:
    values = Nominal()
    assert send(*pieces_of).data.fill(values) == data


def test_batch_loses_its_length_and_the_stream_keeps_it() -> None:
    one = only(State.OPEN, "size", b"\x04\x04")
    assert [(unit.kind, unit.data) for unit in one.units] == [(UnitKind.BATCH, b"\x04\x04")]
    assert (one.stream, one.prefix) == (b"\x02\x00\x04\x04", 2)


def test_low_latency_stream_has_long_lengths() -> None:
    one = only(State.LOW_LATENCY, "size32", b"\x1a\x01")
    assert (one.stream, one.prefix) == (b"\x02\x00\x00\x00\x1a\x01", 4)


def test_datagram_of_scouting_is_no_stream() -> None:
    one = only(State.SCOUTING, bytes.fromhex("010907"))
    assert [unit.kind for unit in one.units] == [UnitKind.SCOUTING]
    assert one.stream == b""


def test_repeated_message_is_given_few_times() -> None:
    source = Fixed(
        "it", State.OPEN, "IT", {"it": [reach(State.OPEN, "b"), send("size", b"\x04", times=5000)]}, "t"
    )
    made = Campaign("test", "", lambda _: [source])
    (numbered,) = Plan(made, Setting()).cases()
    assert len(input_of(numbered, random.Random(5)).units) == MOST_TIMES


def test_same_seed_gives_the_same_inputs() -> None:
    made = campaign(State.OPEN, a=["size", b"\x04"], b=["size", b"\x03\x00"], c=[b"\xff"])

    def given(seed: int) -> list[tuple[bytes, tuple[bytes, ...]]]:
        found = islice(inputs([made], Setting(seed)), 10)
        return [(one.stream, tuple(unit.data for unit in one.units)) for one in found]

    assert given(1) == given(1)
    assert len(given(1)) == 3


def test_some_streams_are_spoiled_and_most_are_not() -> None:
    stream, rng = bytes(range(200)), random.Random(1)
    same = sum(spoiled(stream, rng) == stream for _ in range(1000))
    assert 1 - 2 * SPOILED < same / 1000 < 1 - SPOILED / 2


def test_pieces_are_the_stream() -> None:
    stream = b"".join(len(data).to_bytes(2, "little") + data for data in (b"\x04", b"a" * 300, b"b"))
    reader = BatchReader()
    found = [batch for piece in pieces(stream, random.Random(1)) for batch in reader.feed(piece)]
    assert found == [b"\x04", b"a" * 300, b"b"]
