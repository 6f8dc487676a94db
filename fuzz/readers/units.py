"""What is read: batches, datagrams of scouting, and network messages that were put together from fragments."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class UnitKind(Enum):
    """What the bytes of a unit are."""

    BATCH = "batch"
    SCOUTING = "scouting"
    """One datagram; what is behind the message is passed over."""
    NETWORK = "network"
    """One network message; what is behind it is passed over."""
    PACKED = "packed"
    """A compressed batch that cannot be decompressed, as it came."""


class Unit(NamedTuple):
    """Bytes to be read, and where they come from.

    Attributes:
        kind: What they are.
        data: The bytes: no length in front, decompressed.
        packet: Number of the packet that completed it.
        about: What it is, for a person.
        belated: A SCOUT where none is expected: only the HELLO behind it shows it to be one.
    """

    kind: UnitKind
    data: bytes
    packet: int = 0
    about: str = ""
    belated: bool = False
