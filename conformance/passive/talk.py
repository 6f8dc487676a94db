"""What is known of the conversation on one link, as far as a rule needs it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from conformance.observe import Observation
from scapy_layers.batch import LONG_PREFIX, MAX_BATCH, PREFIX
from scapy_layers.codes import Resolution
from scapy_layers.message import Message
from scapy_layers.network import Request, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, Open

STREAMS = frozenset({"tcp", "tls", "unixsock-stream"})
"""Where a length stands in front of each batch."""

QOS, MULTILINK, LOW_LATENCY, COMPRESSION, PATCH = 0x1, 0x4, 0x5, 0x6, 0x7
"""Ids of extensions of INIT."""

FIRST, DROP = 0x2, 0x3
"""Ids of the markers of fragments."""

Lane = tuple[int, int]
"""R, and the priority of the lane."""


def chain(message: Message) -> list[Any]:
    """Returns the extensions of a message that was read."""
    found: list[Any] = message.fields.get("extensions") or []
    return found


def extension_of(message: Message, number: int) -> Any:
    """Returns the extension of a message with an id; None when it has none."""
    return next((one for one in chain(message) if one.fields["ext_id"] == number), None)


@dataclass(slots=True, eq=False)
class Talk:
    """What was said on a link up to the message that is judged.

    Attributes:
        link: Name of the link.
        proto: How it travels.
        accepted: The node made the link.
        group: It is one speaker of a multicast group.
        syn: InitSyn, whoever sent it.
        ack: InitAck.
        opened: The OPEN of the node.
        confirmed: OPEN of both ends was seen.
        carrier: The FRAME around the message that is judged; None outside.
        odd: We said things that leave open what was agreed.
        blind: What comes cannot be understood any more.
        join: The last JOIN of the node.
        numbers: Of the last FRAME or FRAGMENT of each lane.
        unfinished: Lanes on which more fragments have to come.
        whole: Lanes on which the last fragment of a message was the last thing.
        asked: How often we used each request id.
        finished: How often the node finished each.
    """

    link: str
    proto: str = "tcp"
    accepted: bool = False
    group: bool = False
    syn: Init | None = None
    ack: Init | None = None
    opened: Open | None = None
    confirmed: bool = False
    carrier: Frame | None = None
    odd: bool = False
    blind: bool = False
    join: Join | None = None
    numbers: dict[Lane, int] = field(default_factory=dict)
    unfinished: set[Lane] = field(default_factory=set)
    whole: set[Lane] = field(default_factory=set)
    asked: Counter[int] = field(default_factory=Counter)
    finished: Counter[int] = field(default_factory=Counter)

    # What was agreed -------------------------------------------------------------------------------

    def agreed(self, number: int) -> bool:
        """Tells whether both ends sent an extension of INIT."""
        if self.syn is None or self.ack is None:
            return False
        return extension_of(self.syn, number) is not None and extension_of(self.ack, number) is not None

    @property
    def patch(self) -> int:
        """The patch version; absent counts as 0."""
        both = [extension_of(init, PATCH) for init in (self.syn, self.ack) if init is not None]
        return min((0 if one is None else int(one.fields.get("patch") or 0) for one in both), default=0)

    @property
    def batch_size(self) -> int:
        """Bytes of the largest batch."""
        return min((_size(init) for init in (self.syn, self.ack) if init is not None), default=MAX_BATCH)

    def bits(self, name: str) -> int:
        """Returns how many bits numbers (``fsn``) or request ids (``rid``) may have at most."""
        # Whoever answers may lower a resolution; one that was raised binds nobody.
        said = [
            init.fields.get(name) for init in (self.syn, self.ack) if init is not None and init.value("S")
        ]
        return 8 << max((int(code) for code in said if code is not None), default=Resolution.BITS_32)

    @property
    def certain(self) -> bool:
        """What was agreed is known, and both ends hold to it."""
        return self.confirmed and not self.odd and self.syn is not None and self.ack is not None

    # What passes ------------------------------------------------------------------------------------

    def said(self, seen: Observation) -> None:
        """Takes note of what we sent."""
        if seen.note.endswith("the link has ended"):
            return
        if not seen.batch or (self.proto in STREAMS and not _framed(seen)):
            self.odd = True
            return
        inside = seen.contents
        self.odd = self.odd or inside.error is not None
        for message in inside.messages:
            self._said(message)

    def _said(self, message: Message) -> None:
        if isinstance(message, Frame):
            for inner in message.fields.get("messages", ()):
                self._said(inner)
        elif isinstance(message, Request):
            if "request_id" in message.fields:
                self.asked[message.request_id] += 1
        elif isinstance(message, Init):
            self._take_init(message)
        elif isinstance(message, Open):
            self.confirmed = self.opened is not None
        elif isinstance(message, Fragment | Close):
            # A query in fragments is not seen here; behind CLOSE nobody is bound to anything.
            self.odd = True

    def heard(self, message: Message) -> None:
        """Takes note of what the node sent, behind the rules."""
        if isinstance(message, Frame | Fragment):
            self._count(message)
        elif isinstance(message, ResponseFinal) and "request_id" in message.fields:
            self.finished[message.request_id] += 1
        elif isinstance(message, Init):
            self._take_init(message)
        elif isinstance(message, Open):
            # As the one that was connected to, the node says OPEN last; otherwise we do.
            self.confirmed = not self.accepted
            self.opened = message
        elif isinstance(message, Join):
            self.join = message

    def _count(self, message: Frame | Fragment) -> None:
        lane = lane_of(message)
        if message.fields.get("sn") is not None:
            self.numbers[lane] = message.fields["sn"]
        self.whole.discard(lane)
        if isinstance(message, Fragment):
            if message.fields["M"] and extension_of(message, DROP) is None:
                self.unfinished.add(lane)
            else:
                self.unfinished.discard(lane)
                self.whole.add(lane)

    def begin(self, seen: Observation) -> None:
        """Looks whether a batch of the node can be understood at all."""
        if not self.confirmed:
            return
        if self.agreed(COMPRESSION) and seen.plain is None:
            self.blind = True
        if self.agreed(LOW_LATENCY) and not self.agreed(QOS) and self.proto in STREAMS:
            size = int.from_bytes(seen.raw[:LONG_PREFIX], "little")
            self.blind = self.blind or size != len(seen.raw) - LONG_PREFIX

    def _take_init(self, message: Init) -> None:
        if message.fields.get("A"):
            self.odd = self.odd or self.ack is not None
            self.ack = message
        else:
            self.odd = self.odd or self.syn is not None
            self.syn = message


def lane_of(message: Message) -> Lane:
    """Returns R and priority of a FRAME or FRAGMENT."""
    lane = extension_of(message, 0x1)
    priority = 5 if lane is None else lane.fields.get("priority", lane.fields.get("z64", 5))
    return int(message.fields["R"]), int(priority)


def _size(init: Init) -> int:
    size = init.fields.get("batch_size")
    return MAX_BATCH if size is None else int(size)


def _framed(seen: Observation) -> bool:
    """Tells whether the length in front of what we sent is true."""
    before = len(seen.raw) - len(seen.batch)
    return before in {PREFIX, LONG_PREFIX} and int.from_bytes(seen.raw[:before], "little") == len(seen.batch)
