"""Data sub-messages: PUT DEL QUERY REPLY ERR."""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from scapy_layers import extensions
from scapy_layers.codes import Consolidation, DataId
from scapy_layers.extensions import Shm, encoding, sliced, timestamp
from scapy_layers.fields import Body, CountedBytes, CountedText, Vle, header, unless, when
from scapy_layers.message import Message
from scapy_layers.shape import Carries

SHM = Carries("extensions", Shm.shape().header)
"""The payload is sliced. In an ERR it is not, whatever the extension says (reading R-31)."""


class Put(Message):
    """Publishes a value. Spec: Message Reference, PUT."""

    name = "PUT"
    fields_desc = [
        *header(DataId.PUT, "Z", "E", "T"),
        *when("T", *timestamp()),
        *when("E", *encoding()),
        extensions.PUT,
        *unless(SHM, CountedBytes("data", z=32)),
        *when(SHM, *sliced()),
    ]


class Del(Message):
    """Deletes a resource. Spec: Message Reference, DEL."""

    name = "DEL"
    fields_desc = [*header(DataId.DEL, "Z", "-", "T"), *when("T", *timestamp()), extensions.DEL]


class Query(Message):
    """Says what a REQUEST wants. Spec: Message Reference, QUERY."""

    name = "QUERY"
    fields_desc = [
        *header(DataId.QUERY, "Z", "P", "C"),
        *when("C", Vle("consolidation", 8, Consolidation)),
        *when("P", CountedText("parameters", z=16, enforced=False)),
        extensions.QUERY,
    ]


class Reply(Message):
    """Wraps the value or deletion that answers a query. Spec: Message Reference, REPLY."""

    name = "REPLY"
    fields_desc = [
        *header(DataId.REPLY, "Z", "-", "C"),
        *when("C", Vle("consolidation", 8, Consolidation)),
        extensions.NONE,
        Body("body", DataId.PUT, DataId.DEL),
    ]


class Err(Message):
    """Answers a query with an error. Bit 5 is reserved. Spec: Message Reference, Data Sub-Messages."""

    name = "ERR"
    fields_desc = [
        *header(DataId.ERR, "Z", "E", "-"),
        *when("E", *encoding()),
        extensions.ERR,
        CountedBytes("data", z=32),
    ]
