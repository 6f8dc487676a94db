"""Units of every kind: valid, with one lie, cut everywhere, and mutated. The same seed gives the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fuzz.readers.by_scapy import kind_of_datagram
from fuzz.readers.units import Unit, UnitKind
from scapy_layers import shape
from scapy_layers.catalogue import shapes
from scapy_layers.codes import DataId, Kind, NetworkId
from scapy_layers.derive import strategies
from scapy_layers.derive.strategies import drawn
from tests.robustness.inputs import inputs

_FRAME = bytes.fromhex("2505")
_DECLARE = bytes([NetworkId.DECLARE])
_PUSH = bytes([NetworkId.PUSH, 0])
_REQUEST = bytes([NetworkId.REQUEST, 1, 0])
_RESPONSE = bytes([NetworkId.RESPONSE, 1, 0])
_AROUND_DATA = {
    DataId.PUT: _PUSH,
    DataId.DEL: _PUSH,
    DataId.QUERY: _REQUEST,
    DataId.REPLY: _RESPONSE,
    DataId.ERR: _RESPONSE,
}

MUTATED = 1_500
"""Mutated units of one seed."""

LONGEST_CUT = 48
"""Bytes of a message that is cut at every place."""


def units(count: int, number: int) -> Iterator[Unit]:
    """Yields so many units of all sorts, some thousands of a seed; ``number`` is the first one."""
    while count > 0:
        made = 0
        for unit in chain(
            valid(4, number),
            batches(100, number),
            wrong(10, number),
            cut(1, number),
            mutated(MUTATED, number),
        ):
            if made == count:
                return
            made += 1
            yield unit
        count -= made
        number += 1


def valid(each: int, number: int) -> Iterator[Unit]:
    """Yields so many valid units of every message; ``number`` is the seed."""
    for described in shapes().values():
        strategy = strategies.messages(described.kind, described.id).map(bytes)
        for index, raw in enumerate(drawn(strategy, each, number)):
            yield _unit(described, raw, f"valid {described.name} {index} of seed {number}", index)


def batches(count: int, number: int) -> Iterator[Unit]:
    """Yields valid batches of several messages."""
    for index, raw in enumerate(drawn(strategies.batches().map(bytes), count, number)):
        yield Unit(UnitKind.BATCH, raw, about=f"batch {index} of seed {number}")


def wrong(each: int, number: int) -> Iterator[Unit]:
    """Yields so many units with one lie in every message."""
    for described in shapes().values():
        for index, lie in enumerate(
            drawn(strategies.lies(described.kind, described.id).filter(_is_something), each, number)
        ):
            about = f"{described.name} {index} of seed {number} with {lie.what}"
            yield _unit(described, lie.raw, about, index)


def cut(each: int, number: int) -> Iterator[Unit]:
    """Yields so many short messages of every kind, cut at every place."""
    for described in shapes().values():
        strategy = strategies.messages(described.kind, described.id).map(bytes).filter(_is_short)
        for index, raw in enumerate(drawn(strategy, each, number)):
            for size in range(1, len(raw)):
                about = f"{described.name} {index} of seed {number} cut to {size} bytes"
                yield _unit(described, raw[:size], about, index)


def mutated(count: int, number: int) -> Iterator[Unit]:
    """Yields batches and datagrams of real nodes with something broken, and noise."""
    for index, raw in enumerate(inputs(count, number)):
        kind = kind_of_datagram(raw) if index % 8 == 0 else UnitKind.BATCH
        yield Unit(kind, raw, about=f"mutated {index} of seed {number}")


def _is_something(lie: strategies.Lie) -> bool:
    # A datagram without a byte reaches no dissector.
    return bool(lie.raw)


def _is_short(raw: bytes) -> bool:
    return len(raw) <= LONGEST_CUT


def _unit(described: shape.Message, raw: bytes, about: str, index: int) -> Unit:
    """Puts a message where it may stand; every other network message travels without a FRAME."""
    match described.kind:
        case Kind.SCOUTING:
            return Unit(kind_of_datagram(raw), raw, about=about)
        case Kind.TRANSPORT:
            return Unit(UnitKind.BATCH, raw, about=about)
        case Kind.DECLARATION:
            raw = _DECLARE + raw
        case Kind.DATA:
            raw = _AROUND_DATA[DataId(described.id)] + raw
        case Kind.NETWORK:
            pass
    # What fragments make is given up when it is no network message.
    if index % 3 == 2 and raw and raw[0] & 0x1F in set(NetworkId):
        return Unit(UnitKind.NETWORK, raw, about=about)
    return Unit(UnitKind.BATCH, _FRAME + raw if index % 2 else raw, about=about)
