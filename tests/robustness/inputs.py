"""Inputs nobody would send: real batches with something broken, and plain noise. The same seed gives the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scapy_layers import capture, stream

PCAPS = Path(__file__).parents[2] / "pcaps"

LONGEST = 4096
"""Bytes of an input, unless repetition makes it longer."""

EDGES = (
    b"\x00", b"\xff", b"\x80" * 9, b"\xff" * 9, b"\xff\xff\xff\xff\x0f", b"\xff\xff\x03", b"\x80\x80\x04", b"\x7f",
    b"\x80\x00", b"\x01", b"\x10" * 17, b"\x05", b"\x1f", b"\x8f", b"\x5f",
)  # fmt: skip
"""What sits well in a count, a length, a header or an id."""


@cache
def seeds() -> tuple[bytes, ...]:
    """Returns the batches and datagrams of all captures of real nodes, each once."""
    found: dict[bytes, None] = {}
    for path in sorted(PCAPS.glob("*.pcapng")):
        for unit in stream.units(capture.read(path)):
            if isinstance(unit, stream.Batch | stream.Datagram) and 0 < len(unit.data) <= LONGEST:
                found[unit.data] = None
    return tuple(found)


def inputs(count: int, seed: int) -> Iterator[bytes]:
    """Yields so many inputs."""
    dice = random.Random(seed)
    known = seeds()
    for _ in range(count):
        if dice.random() < 0.1:
            yield dice.randbytes(dice.choice((1, 2, 3, 5, 8, 21, 55, 144, 610)))
            continue
        raw = bytearray(dice.choice(known))
        for _ in range(dice.choice((1, 1, 1, 2, 3, 5))):
            _break(raw, dice, known)
        yield bytes(raw[: 4 * LONGEST])


def _break(raw: bytearray, dice: random.Random, known: tuple[bytes, ...]) -> None:
    at = dice.randrange(len(raw) + 1)
    match dice.randrange(9):
        case 0 if at < len(raw):
            raw[at] ^= 1 << dice.randrange(8)
        case 1 if at < len(raw):
            raw[at] = dice.randrange(256)
        case 2:
            raw[at:at] = dice.choice(EDGES)
        case 3:
            edge = dice.choice(EDGES)
            raw[at : at + len(edge)] = edge
        case 4:
            del raw[at : at + dice.choice((1, 1, 2, 4, 16))]
        case 5:
            del raw[at:]
        case 6:
            piece = raw[at : at + dice.choice((1, 2, 4, 8, 32))]
            raw[at:at] = piece * dice.choice((1, 2, 3, 50))
        case 7:
            other = dice.choice(known)
            start = dice.randrange(len(other))
            raw[at:] = other[start:]
        case _:
            raw += dice.choice(known)
