"""What is decoded: pieces of one large buffer, many at a time."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_BYTES = (1 << 31) - 1
"""Largest buffer: Arrow counts the bytes of a column with 32 bits."""


class UnitKind(IntEnum):
    """What a unit is, as far as its carrier tells."""

    BATCH = 0
    """Transport and network messages back to back, as ``catalogue.decode_batch`` takes them."""
    SCOUTING = 1
    """One scouting message; what is behind it is ignored, as nodes do."""
    NETWORK = 2
    """One network message that came in fragments; what is behind it is ignored."""


class Units(NamedTuple):
    """What the links of a capture carried.

    Attributes:
        data: All bytes, at most ``MOST_BYTES``; what lies between units is never looked at.
        start: Where each unit begins, ascending; units do not overlap.
        end: Behind its last byte.
        kind: UnitKind of each.
    """

    data: Bytes
    start: Places
    end: Places
    kind: NDArray[np.uint8]
