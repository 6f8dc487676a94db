"""Batches of sessions with compression: one byte in front says whether an LZ4 block follows.

Spec: Frame Format, compression. The byte is counted by the length prefix; INIT and OPEN have none.
"""

from __future__ import annotations

from lz4 import block

from scapy_layers.errors import Truncated
from scapy_layers.lz4 import decompress

STORED = b"\x00"
COMPRESSED = b"\x01"

_BLOCK = 0x01
"""Bit 0 of the byte in front: the rest is one LZ4 block without a size."""


def wrap(raw: bytes) -> bytes:
    """Returns a batch as it travels: compressed when that makes it smaller, stored otherwise."""
    small: bytes = block.compress(raw, store_size=False)
    return COMPRESSED + small if len(small) < len(raw) else STORED + raw


def unwrap(batch: bytes, most: int) -> bytes:
    """Returns what a batch holds.

    Args:
        batch: As it travelled, without a length prefix.
        most: Bytes at which to give up.

    Raises:
        WireError: No byte at all, or an LZ4 block that is none or holds more than ``most`` bytes.
    """
    if not batch:
        raise Truncated("batch header", "no byte at all")
    return decompress(batch[1:], most) if batch[0] & _BLOCK else batch[1:]
