"""LZ4 blocks: what a real node sent, what the format says, and anything else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_layers.errors import BadValue, Overlong, Truncated, WireError
from scapy_layers.lz4 import decompress, weight

REAL = bytes.fromhex("ff0025dbadee187d0003742f7801c801410100ae60414141414141")
"""A FRAME with a PUT of 200 times A on t/x, as a real node sent it."""


def test_block_of_a_real_node_holds_its_batch() -> None:
    whole = decompress(REAL, 0xFFFF)
    assert whole == bytes.fromhex("25dbadee187d0003742f7801c801") + b"A" * 200


@pytest.mark.parametrize(
    ("block", "held"),
    [
        ("00", b""),
        ("30616263", b"abc"),
        ("12610100 00", b"a" + b"a" * 6),
        ("22616202 00 1062", b"ab" + b"ababab" + b"b"),
        ("41616263640400 00", b"abcd" + b"abcda"),
        ("f000" + "61" * 15, b"a" * 15),
        ("f0ff01" + "61" * 271, b"a" * 271),
        ("1f61010000 00", b"a" + b"a" * 19),
    ],
)
def test_block_is_decompressed(block: str, held: bytes) -> None:
    assert decompress(bytes.fromhex(block), 1000) == held


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ("", Truncated),
        ("30 6162", Truncated),
        ("f0", Truncated),
        ("f0ff", Truncated),
        ("10 61 01", Truncated),
        ("10 61 0100", Truncated),
        ("1f 61 0100 ff", Truncated),
        ("10 61 0000 00", BadValue),
        ("10 61 0200 00", BadValue),
        ("00 0100 00", BadValue),
    ],
)
def test_damaged_block_is_refused(block: str, error: type[WireError]) -> None:
    with pytest.raises(error):
        decompress(bytes.fromhex(block), 1000)


def test_block_that_holds_too_much_is_refused() -> None:
    bomb = bytes.fromhex("1f610100") + b"\xff" * 1000 + b"\x00\x00"
    assert len(decompress(bomb, 1 << 20)) == 255_020
    with pytest.raises(Overlong):
        decompress(bomb, 0xFFFF)
    assert len(decompress(REAL, 214)) == 214
    with pytest.raises(Overlong):
        decompress(REAL, 213)


@given(st.binary(max_size=60))
def test_any_block_is_decompressed_or_refused(block: bytes) -> None:
    with suppress(WireError):
        assert len(decompress(block, 500)) <= 500


def pack(data: bytes) -> bytes:
    """Compresses: the longest repetition of the last 1 to 16 bytes, else literals."""
    out, start, at = bytearray(), 0, 0
    while at < len(data):
        size, back = max(
            ((repeated(data, at, back), -back) for back in range(1, min(at, 16) + 1)), default=(0, 0)
        )
        if size < 4:
            at += 1
            continue
        out += sequence(data[start:at], -back, size - 4)
        start = at = at + size
    return bytes(out) + sequence(data[start:], 0, 0)


def repeated(data: bytes, at: int, back: int) -> int:
    return next(
        (size for size in range(len(data) - at) if data[at + size] != data[at + size - back]), len(data) - at
    )


def sequence(literals: bytes, back: int, size: int) -> bytes:
    token = bytes([min(len(literals), 15) << 4 | min(size, 15)])
    match = back.to_bytes(2, "little") + more(size) if back else b""
    return token + more(len(literals)) + literals + match


def more(size: int) -> bytes:
    return b"\xff" * ((size - 15) // 255) + bytes([(size - 15) % 255]) if size >= 15 else b""


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 300)), max_size=5))
def test_what_was_packed_comes_back(parts: list[tuple[bytes, int]]) -> None:
    data = b"".join(part * times for part, times in parts)
    assert decompress(pack(data), 10_000) == data
    assert len(data) <= weight(pack(data), 10_000) <= len(data) + 18


@given(st.binary(max_size=60))
def test_weight_of_any_block_has_its_bound(block: bytes) -> None:
    assert 0 <= weight(block, 500) <= 500
    with suppress(WireError):
        assert weight(block, 500) >= min(len(decompress(block, 500)), 500)


def test_block_that_is_refused_weighs_what_was_written_in_front() -> None:
    bomb = bytes.fromhex("1f610100") + b"\xff" * 200 + b"\x00"
    assert weight(bomb, 0xFFFF) == 1 + 15 + 200 * 255 + 4
    assert weight(bomb * 2, 0xFFFF) == 0xFFFF
