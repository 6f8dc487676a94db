"""Transport messages: OAM INIT OPEN CLOSE KEEP_ALIVE FRAME FRAGMENT JOIN."""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

import scapy_layers.network  # noqa: F401  (FRAME chooses by id: the classes must be there)
from scapy_layers import extensions
from scapy_layers.codes import (
    DEFAULT_BATCH_SIZE,
    PROTOCOL_VERSION,
    CloseReason,
    Enc,
    NetworkId,
    Resolution,
    TransportId,
    WhatAmI,
)
from scapy_layers.fields import (
    U8,
    Bits,
    CountedBytes,
    Messages,
    Reserved,
    Rest,
    U16le,
    Vle,
    ZidField,
    header,
    packed,
    when,
)
from scapy_layers.message import Message


class TransportOam(Message):
    """Carries management data between two ends of a link. Spec: Message Reference, OAM."""

    name = "OAM"
    fields_desc = [
        *header(
            TransportId.OAM, "Z", Bits("ENC", 2, Enc, default=None, allowed=(Enc.UNIT, Enc.Z64, Enc.ZBUF))
        ),
        Vle("oam_id", 16),
        extensions.TRANSPORT_OAM,
        *when(("ENC", Enc.Z64), Vle("z64", 64)),
        *when(("ENC", Enc.ZBUF), CountedBytes("data", z=64, enforced=False)),
    ]


class Init(Message):
    """Proposes (A=0, InitSyn) or accepts (A=1, InitAck) the parameters of a session.

    Spec: Message Reference, INIT; Session Establishment, INIT Message.
    """

    name = "INIT"
    fields_desc = [
        *header(TransportId.INIT, "Z", "S", "A"),
        U8("version", PROTOCOL_VERSION),
        *packed(
            Bits("zid_len", 4, default=None, counts="zid"),
            Reserved(2),
            Bits("whatami", 2, WhatAmI, default=WhatAmI.CLIENT, allowed=WhatAmI),
        ),
        ZidField("zid", length="zid_len"),
        *when(
            "S",
            *packed(
                Reserved(4),
                Bits("rid", 2, Resolution, default=Resolution.BITS_32),
                Bits("fsn", 2, Resolution, default=Resolution.BITS_32),
            ),
            U16le("batch_size", DEFAULT_BATCH_SIZE),
        ),
        *when("A", CountedBytes("cookie", z=16)),
        extensions.INIT,
    ]


class Open(Message):
    """Returns the cookie (A=0, OpenSyn) or makes the session live (A=1, OpenAck).

    Spec: Message Reference, OPEN; Session Establishment, OPEN Message.
    """

    name = "OPEN"
    fields_desc = [
        *header(TransportId.OPEN, "Z", "T", "A"),
        Vle("lease", 64, default=10_000),
        Vle("initial_sn", 32),
        *when(("A", 0), CountedBytes("cookie", z=16, enforced=False)),
        extensions.OPEN,
    ]


class Close(Message):
    """Ends a session (S=1) or one link (S=0). Spec: Message Reference, CLOSE."""

    name = "CLOSE"
    fields_desc = [
        *header(TransportId.CLOSE, "Z", "-", "S"),
        U8("reason", CloseReason.GENERIC, CloseReason),
        extensions.NONE,
    ]


class KeepAlive(Message):
    """Renews the lease when nothing else was sent. Spec: Message Reference, KEEP_ALIVE."""

    name = "KEEP_ALIVE"
    fields_desc = [*header(TransportId.KEEP_ALIVE, "Z", "-", "-"), extensions.NONE]


class Frame(Message):
    """Carries whole network messages on one lane. Spec: Message Reference, FRAME."""

    name = "FRAME"
    fields_desc = [
        *header(TransportId.FRAME, "Z", "-", "R"),
        Vle("sn", 32),
        extensions.FRAME,
        Messages("messages", NetworkId),
    ]


class Fragment(Message):
    """Carries a slice of one network message; fills the batch. Spec: Message Reference, FRAGMENT."""

    name = "FRAGMENT"
    fields_desc = [
        *header(TransportId.FRAGMENT, "Z", "M", "R"),
        Vle("sn", 32),
        extensions.FRAGMENT,
        Rest("data"),
    ]


class Join(Message):
    """Announces the parameters of a multicast sender, again and again. Spec: Message Reference, JOIN.

    T is bit 5 and S bit 6, unlike OPEN. Without S the batch size is 8192.
    """

    name = "JOIN"
    fields_desc = [
        *header(TransportId.JOIN, "Z", "S", "T"),
        U8("version", PROTOCOL_VERSION),
        *packed(
            Bits("zid_len", 4, default=None, counts="zid"),
            Reserved(2),
            Bits("whatami", 2, WhatAmI, default=WhatAmI.PEER, allowed=WhatAmI),
        ),
        ZidField("zid", length="zid_len"),
        *when(
            "S",
            *packed(
                Reserved(4),
                Bits("rid", 2, Resolution, default=Resolution.BITS_32),
                Bits("fsn", 2, Resolution, default=Resolution.BITS_32),
            ),
            U16le("batch_size", 8192),
        ),
        Vle("lease", 64, default=10_000),
        Vle("next_sn_re", 32),
        Vle("next_sn_be", 32),
        extensions.JOIN,
    ]
