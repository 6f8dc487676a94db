"""What can be wrong, or worth saying, about a message on its way."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from scapy_layers.codes import Priority
from scapy_layers.errors import WireError


class RemarkKind(StrEnum):
    """What a remark is about; stable words for filters and counts."""

    REFUSED = "refused"
    """A strict decoder refuses these bytes; the remark has offset and field."""
    PLACE = "place"
    """The message may not stand here: a FRAME in low latency, INIT inside a session."""
    RANGE = "range"
    """A sequence number above what the resolution permits."""
    GAP = "gap"
    """Sequence numbers are missing on a reliable lane."""
    LOSS = "loss"
    """Sequence numbers are missing on a best-effort lane, which is its right."""
    DUPLICATE = "duplicate"
    """A sequence number comes again; receivers drop the message."""
    OLD = "old"
    """A sequence number lies behind what came before; receivers drop the message."""
    UNORDERED = "unordered"
    """What ``gap``, ``old`` and ``fragment`` are where datagrams may be lost or overtake each other, and what refers to
    something that may have been lost: nobody's fault."""
    LANE = "lane"
    """A priority lane in a session that has not agreed on QoS."""
    FRAGMENT = "fragment"
    """Fragments that make no message."""
    ALIAS = "alias"
    """An alias that nobody declared, or that is declared anew with another key."""
    REQUEST = "request"
    """A request id that is in use already, or a response to a request that was never sent."""
    DECLARATION = "declaration"
    """An undeclaration without declaration, or an entity id that changes its key."""
    LIMIT = "limit"
    """Something was thrown away because a bound of this reader was reached."""


class Remark(NamedTuple):
    """One remark.

    Attributes:
        kind: What it is about.
        text: One clause for people.
        offset: Where the refused field begins: bytes from the start of the batch (behind decompression), or
            of the message that was put together from fragments. None unless refused.
        field: Path of the refused field, else None.
    """

    kind: RemarkKind
    text: str
    offset: int | None = None
    field: str | None = None


def refusal(error: WireError) -> Remark:
    """Returns the remark that tells what strict decoding refuses."""
    return Remark(RemarkKind.REFUSED, str(error), error.offset, error.field)


class Lane(NamedTuple):
    """One space of sequence numbers in one direction of a session.

    Attributes:
        priority: Priority of the lane; DATA in a session without QoS.
        reliable: Reliable, else best effort.
    """

    priority: Priority
    reliable: bool
