"""LZ4 blocks as batches with compression carry them. No Scapy, no library."""

from __future__ import annotations

from scapy_layers.errors import BadValue, Overlong, Truncated

MIN_MATCH = 4
"""Bytes that the shortest copy of earlier output has."""

_FULL = 15
"""Value of a length nibble behind which further bytes are added, as long as they are 255."""


def decompress(block: bytes, most: int) -> bytes:
    """Returns what an LZ4 block without a size header holds: literals and copies of earlier output in turn.

    Takes time linear in the block and its output.

    Args:
        block: The whole block.
        most: Bytes of output at which to give up.

    Raises:
        WireError: The block is cut, copies from before its start, or holds more than ``most`` bytes.
    """
    out = bytearray()
    at = 0
    while at < len(block):
        start, token = at, block[at]
        size, at = _length(block, token >> 4, at + 1)
        if size > len(block) - at:
            raise Truncated("literals", f"{size} bytes, {len(block) - at} left", start)
        _check_room(len(out) + size, most, start)
        out += block[at : at + size]
        at += size
        if at == len(block):
            return bytes(out)
        if len(block) - at < 2:
            raise Truncated("match", "the offset has two bytes", at)
        back = int.from_bytes(block[at : at + 2], "little")
        if not 0 < back <= len(out):
            raise BadValue("match", f"an offset of {back} behind {len(out)} bytes of output", at)
        size, at = _length(block, token & _FULL, at + 2)
        size += MIN_MATCH
        _check_room(len(out) + size, most, start)
        # A copy that is longer than its offset repeats what it has just written.
        copied = bytes(out[-back:])
        out += (copied * (size // back + 1))[:size] if size > back else copied[:size]
    raise Truncated("token", "a block ends with literals", at)


def weight(block: bytes, most: int) -> int:
    """Returns about how many bytes ``decompress`` has to write, also of a block that it refuses; it takes no time."""
    size = at = 0
    try:
        while at < len(block) and size < most:
            token = block[at]
            literals, at = _length(block, token >> 4, at + 1)
            size += literals
            copied, at = _length(block, token & _FULL, at + literals + 2)
            size += copied + MIN_MATCH
    except Truncated:
        pass  # as far as it goes
    return min(size, most)


def _length(block: bytes, size: int, at: int) -> tuple[int, int]:
    """Returns a length that starts with a nibble, and the position behind it."""
    if size < _FULL:
        return size, at
    while at < len(block):
        size += block[at]
        at += 1
        if block[at - 1] != 0xFF:
            return size, at
    raise Truncated("length", "it goes on behind the end of the block", at)


def _check_room(size: int, most: int, at: int) -> None:
    if size > most:
        raise Overlong("block", f"more than {most} bytes of output", at)
