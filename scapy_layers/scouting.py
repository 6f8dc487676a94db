"""SCOUT and HELLO: one message a datagram, ids of their own, no length in front."""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from scapy_layers import extensions
from scapy_layers.codes import PROTOCOL_VERSION, ScoutingId, What, WhatAmI
from scapy_layers.fields import U8, Bits, CountedText, Flag, Many, Reserved, ZidField, header, packed, when
from scapy_layers.message import Message


class Scout(Message):
    """Asks which nodes of the wanted roles are there. Spec: SCOUT."""

    name = "SCOUT"
    fields_desc = [
        *header(ScoutingId.SCOUT, "Z", "-", "-"),
        U8("version", PROTOCOL_VERSION),
        *packed(
            Bits("zid_len", 4, default=None, counts="zid"),
            Flag("I"),
            Bits("what", 3, What, default=What.ROUTER | What.PEER | What.CLIENT),
        ),
        *when("I", ZidField("zid", length="zid_len")),
        extensions.SCOUTING,
    ]


class Hello(Message):
    """Answers SCOUT: who is there and where it can be reached. Spec: HELLO."""

    name = "HELLO"
    fields_desc = [
        *header(ScoutingId.HELLO, "Z", "-", "L"),
        U8("version", PROTOCOL_VERSION),
        *packed(
            Bits("zid_len", 4, default=None, counts="zid"),
            Reserved(2),
            Bits("whatami", 2, WhatAmI, allowed=WhatAmI),
        ),
        ZidField("zid", length="zid_len"),
        *when("L", Many("locators", CountedText("locator", z=8, locator=True))),
        extensions.SCOUTING,
    ]
