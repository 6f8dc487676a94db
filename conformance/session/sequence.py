"""Sequence numbers modulo the resolution."""

from __future__ import annotations

USED_BITS = (7, 14, 28, 63)
"""Bits in use for the resolution codes 0 to 3: what fits 1, 2, 4 and 9 VLE bytes.

The page says 8, 16, 32 and 64; real nodes refuse the upper part (docs/readings.md). Numbers of ours stay
in the smaller range, which both accept.
"""

WRITTEN_BITS = (8, 16, 32, 64)
"""Bits by the page: what a node may send at most."""

LARGEST = frozenset((1 << bits) - 1 for bits in USED_BITS + WRITTEN_BITS)
"""Numbers behind which 0 may come."""


def mask(resolution: int) -> int:
    """Returns the largest sequence number in use for a resolution code."""
    return (1 << USED_BITS[resolution]) - 1


def following(sn: int, resolution: int) -> int:
    """Returns the number after ``sn``; after the largest comes 0."""
    return sn + 1 & mask(resolution)


def gap(last: int, sn: int, resolution: int) -> int:
    """Returns how many steps lead from ``last`` to ``sn`` going forward."""
    return sn - last & mask(resolution)


def is_new(last: int, sn: int, resolution: int) -> bool:
    """Tells whether ``sn`` lies in the forward half of the range behind ``last``."""
    return 0 < gap(last, sn, resolution) <= mask(resolution) >> 1
