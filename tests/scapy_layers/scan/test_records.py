"""Packets are found where ``capture`` finds them, and what is wrong with a file is told at the same place."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from scapy_layers import capture
from scapy_layers.scan import records as module
from scapy_layers.scan.records import Position, read_records

PCAPS = Path(__file__).parents[3] / "pcaps"
LATEST = (1 << 63) - 1


def one_by_one(data: bytes) -> tuple[list[Any], object]:
    found: list[Any] = []
    try:
        for buffer, taken in capture.runs(io.BytesIO(data)):
            for time, link, start, end, length in taken:
                found.append((min(max(time, -LATEST), LATEST), link, buffer[start:end], length))
    except capture.CaptureError as error:
        return found, error.args
    return found, None


def in_step(data: bytes, size: int = 1 << 24) -> tuple[list[Any], object]:
    found: list[Any] = []
    position = Position()
    try:
        for piece in read_records(io.BytesIO(data), position, size=size):
            assert piece.number == len(found) + 1
            columns = (piece.time, piece.link, piece.start, piece.end, piece.length)
            for time, link, start, end, length in zip(*(column.tolist() for column in columns), strict=True):
                found.append((time, link, piece.buffer[start:end], length))
    except capture.CaptureError as error:
        return found, error.args
    return found, None


def pcap(packets: list[bytes], order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, 1)
    body = [
        struct.pack(order + "IIII", 1_700_000_000 + n // 999, n, len(p), len(p) + n % 2) + p
        for n, p in enumerate(packets)
    ]
    return head + b"".join(body)


def pcapng(packets: list[bytes], order: str = "<", options: bytes = b"") -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    found = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    found.append(block(1, struct.pack(order + "HHI", 1, 0, 0) + options))
    for n, p in enumerate(packets):
        ticks = 1_700_000_000_000_000 + n
        found.append(
            block(6, struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(p), len(p)) + p)
        )
        if n % 5000 == 4999:
            found.append(block(5, bytes(8)))  # statistics of an interface
    return b"".join(found)


def some(count: int, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice([0, 60, 66, 100, 1500])) for _ in range(count)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many packets each walk in step found."""
    found: list[int] = []
    whole = module._in_step

    def walked(*given: Any) -> Any:
        result = whole(*given)
        found.append(len(result))
        return result

    monkeypatch.setattr(module, "_in_step", walked)
    return found


RESOLUTIONS = {
    "us": b"",
    "ns": struct.pack("<HHI", 9, 1, 9),
    "binary": struct.pack("<HHI", 9, 1, 0x80 | 20),
    "offset": struct.pack("<HHq", 14, 8, -1000),
}

FORMATS = {
    "pcap": pcap(some(4000)),
    "pcap, other order": pcap(some(4000), ">"),
    "pcap, ns": pcap(some(4000), "<", 0xA1B23C4D),
    "pcapng, other order": pcapng(some(4000), ">"),
    "pcapng, with other blocks": pcapng(some(16_000)),
    **{f"pcapng, {name}": pcapng(some(4000), "<", options) for name, options in RESOLUTIONS.items()},
}


@pytest.mark.parametrize("name", FORMATS)
def test_large_file_is_walked_in_step(name: str, steps: list[int]) -> None:
    assert in_step(FORMATS[name]) == one_by_one(FORMATS[name])
    assert max(steps) > 1000


def test_guess_that_is_wrong_does_no_harm(steps: list[int]) -> None:
    # Each packet holds a capture of its own.
    inside = pcap(some(200, 2))[24:60_000]
    data = pcap([inside] * 40)
    assert in_step(data) == one_by_one(data)
    assert max(steps) == 0


@pytest.mark.parametrize("name", ["pcap", "pcapng, us"])
def test_damage_is_told_at_the_same_place(name: str) -> None:
    rng = random.Random(3)
    whole = FORMATS[name]
    for _ in range(6):
        data = bytearray(whole[: rng.randrange(len(whole))])
        if rng.random() < 0.6:
            at = rng.randrange(len(data))
            data[at : at + 40] = b"\xff" * 40
        assert in_step(bytes(data)) == one_by_one(bytes(data))


@pytest.mark.parametrize(
    "data", [b"", b"abc", b"abcdefgh", b"\x0a\x0d\x0d\x0a", b"\xd4\xc3\xb2\xa1", b"\x1f\x8bxx"]
)
def test_what_is_no_capture_is_refused_in_the_same_words(data: bytes) -> None:
    found = in_step(data)
    assert found == one_by_one(data)
    assert found[1] is not None


def test_small_pieces_give_the_same_as_large_ones() -> None:
    rng = random.Random(4)
    for path in sorted(PCAPS.glob("*.pcapng"))[::6]:
        data = path.read_bytes()
        expected = one_by_one(data)
        assert in_step(data, 100) == expected
        spoiled = bytearray(data)
        for _ in range(3):
            spoiled[rng.randrange(min(len(spoiled), 1500))] = rng.randrange(256)
        assert in_step(bytes(spoiled), 1000) == one_by_one(bytes(spoiled))
