"""The attachment that rmw_zenoh puts on each ROS 2 message: two numbers and the id of the sender.

Little-endian, as zenoh-ext serialises them. Early releases wrote the name of each field in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from scapy_layers import shape
from scapy_layers.errors import WireError
from scapy_layers.primitives import Reader
from scapy_layers.reading import Findings, Values, program, run

GID_BYTES = 16
"""Bytes of the id of a publisher, client or service."""

NAMES = ("sequence_number", "source_timestamp", "source_gid")

FIELDS: tuple[shape.Shape, ...] = (
    shape.Le("sequence_number", 8, signed=True),
    shape.Le("source_timestamp", 8, signed=True),
    shape.CountedBytes("source_gid", z=8),
)
"""What stands in the attachment."""

NAMED: tuple[shape.Shape, ...] = tuple(
    each
    for name, field in zip(NAMES, FIELDS, strict=True)
    for each in (shape.CountedBytes(f"name of {name}", z=8), field)
)
"""The early form."""


@dataclass(frozen=True, slots=True)
class Ros2Attachment:
    """What rmw_zenoh says about a message.

    Attributes:
        sequence_number: Of the sender, from 1.
        source_timestamp: When it was sent, ns since 1970.
        source_gid: Id of the publisher, client or service, 16 bytes.
    """

    sequence_number: int
    source_timestamp: int
    source_gid: bytes

    def __str__(self) -> str:
        gid = self.source_gid.hex()
        return f"ROS 2: sequence_number={self.sequence_number} source_timestamp={self.source_timestamp} source_gid={gid}"


def from_attachment(raw: bytes) -> Ros2Attachment | None:
    """Returns what an attachment says when it has the form that rmw_zenoh writes, None for any other."""
    for form in (FIELDS, NAMED):
        values: Values = {}
        reader = Reader(raw)
        try:
            run(program(form), values, reader, Findings())
        except WireError:
            continue
        named = all(values.get(f"name of {name}", name.encode()) == name.encode() for name in NAMES)
        if not reader.left and named and len(values["source_gid"]) == GID_BYTES:
            return Ros2Attachment(*(values[name] for name in NAMES))
    return None
