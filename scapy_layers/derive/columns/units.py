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

    def checked(self) -> Units:
        """Returns the same with the types that are promised; nothing is copied that has them.

        Raises:
            ValueError: The units do not lie in the bytes one behind the other, or the bytes are too many.
        """
        data = np.ascontiguousarray(self.data, np.uint8) if len(self.data) <= MOST_BYTES else self.data
        start, end = np.asarray(self.start, np.int64), np.asarray(self.end, np.int64)
        kind = np.asarray(self.kind, np.uint8)
        if len(data) > MOST_BYTES:
            raise ValueError(f"a buffer of {len(data)} bytes, at most {MOST_BYTES}: decode it in parts")
        if not len(start) == len(end) == len(kind):
            raise ValueError(f"{len(start)} units begin, {len(end)} end and {len(kind)} have a kind")
        # Bounds are a matter of safety: behind the buffer is somebody else's memory.
        behind = np.concatenate(([0], end))[:-1]
        wrong = np.flatnonzero((start < behind) | (end < start) | (end > len(data)) | (kind >= len(UnitKind)))
        if len(wrong):
            unit = int(wrong[0])
            raise ValueError(
                f"unit {unit}, bytes {start[unit]} to {end[unit]}, kind {kind[unit]}: not behind the unit before, "
                f"not within {len(data)} bytes, or of no kind"
            )
        return Units(data, start, end, kind)
