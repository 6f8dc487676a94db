"""What INIT, OPEN and JOIN settle, and what is known of the two ends. Spec: Session Establishment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from scapy_layers import extensions
from scapy_layers.codes import DEFAULT_BATCH_SIZE, Priority, Resolution, WhatAmI
from scapy_layers.lanes import MASKS, Numbers
from scapy_layers.message import Extension, Layer
from scapy_layers.remarks import Lane, Remark, RemarkKind
from scapy_layers.stream import Link
from scapy_layers.transport import Init, Join, Open

DEFAULT_JOIN_BATCH = 8192
"""JOIN: the batch size when S is clear."""

E = TypeVar("E", bound=Extension)


def extension(message: Layer, kind: type[E]) -> E | None:
    """Returns an extension of a dissected message; of several equal ones the last counts."""
    found: E | None = None
    for one in message.fields.get("extensions") or ():
        if type(one) is kind:
            found = one
    return found


def zid_text(raw: bytes | None) -> str | None:
    """Returns a ZenohID as nodes write it: hexadecimal, high byte first, without leading zeros."""
    return raw[::-1].hex().lstrip("0") or "0" if raw else None


def zid_of(message: Layer) -> str | None:
    """Returns the ZenohID that a message gives for its sender."""
    return zid_text(message.zid)


@dataclass(slots=True)
class Party:
    """One end of a session.

    Attributes:
        zid: Its ZenohID in text form.
        whatami: Its role.
        lease: Milliseconds of silence after which the other end gives it up.
        complete: All that it has said since the session began was captured and could be read.
        numbers: Its sequence numbers.
    """

    zid: str | None = None
    whatami: WhatAmI | None = None
    lease: int | None = None
    complete: bool = False
    numbers: Numbers = field(default_factory=Numbers)

    def doubt(self) -> None:
        """Notes that something it said was not heard."""
        self.complete = False
        self.numbers.doubt()


@dataclass(slots=True, eq=False)
class Session:
    """What two nodes, or a sender and its group, have agreed on; None is what was not captured.

    Attributes:
        number: Counts sessions from 0, in order of appearance.
        parties: Both ends. Of a group only the first one, the sender, is known.
        links: The links it has now: several with multilink.
        multicast: One sender of a multicast group.
        room: What shares requests and interests: the session, or all senders of a group.
        fsn: Resolution of sequence numbers.
        rid: Resolution of request ids.
        batch_size: Bytes of the largest batch.
        qos: A lane for each priority.
        lowlatency: Network messages without FRAME; 4-byte lengths on streams.
        compression: A header byte in front of each batch.
        shm: Shared memory was offered by both ends.
        multilink: More links may join, or have joined.
        disordered: Answers may have been captured in front of what they answer.
        patch: Agreed patch version; from 1 on First and Drop of FRAGMENT count.
        opening: Who the ends are, and with which numbers they begin.
    """

    number: int
    parties: tuple[Party, Party] = field(default_factory=lambda: (Party(), Party()))
    links: list[Link] = field(default_factory=list)
    multicast: bool = False
    room: int = -1
    fsn: Resolution | None = None
    rid: Resolution | None = None
    batch_size: int | None = None
    qos: bool | None = None
    lowlatency: bool | None = None
    compression: bool | None = None
    shm: bool | None = None
    multilink: bool | None = None
    disordered: bool = False
    patch: int | None = None
    opening: frozenset[tuple[str | None, int | None]] = frozenset()

    def __post_init__(self) -> None:
        if self.room < 0:
            self.room = self.number

    @property
    def in_order(self) -> bool:
        """What refers to something comes behind it: on several links that may come a little later, or be captured later."""
        return not self.multilink and not self.disordered

    @property
    def lossy(self) -> bool:
        """The network may lose what is said, or have it overtaken."""
        return not all(link.tcp for link in self.links)

    def certain(self, side: int) -> bool:
        """Tells whether what one end has said would have been heard by now, had it said so."""
        return self.parties[side].complete and self.in_order

    def unheard(self, kind: RemarkKind, text: str) -> Remark:
        """Returns the remark that a message refers to what was not heard.

        Where a datagram may be lost that is nobody's fault: only the next one of the same lane and sender would tell.
        """
        return Remark(RemarkKind.UNORDERED if self.lossy else kind, text)

    @property
    def zids(self) -> tuple[str | None, str | None]:
        """The ZenohIDs of both ends."""
        return self.parties[0].zid, self.parties[1].zid

    @property
    def mask(self) -> int | None:
        """The largest sequence number."""
        return None if self.fsn is None else MASKS[self.fsn]

    def introduce(self, side: int, init: Init | Join) -> None:
        """Notes who one end is."""
        party = self.parties[side]
        party.zid = zid_of(init)
        party.whatami = WhatAmI(init.whatami)

    def agree(self, syn: Init, ack: Init) -> None:
        """Settles what both INITs say: the lower value, and the features that both of them name."""
        offers = (syn, ack)
        self.fsn = min(_resolution(offer.fsn) for offer in offers)
        self.rid = min(_resolution(offer.rid) for offer in offers)
        self.batch_size = min(_batch_size(offer, DEFAULT_BATCH_SIZE) for offer in offers)
        self.qos = all(_offers_qos(offer) for offer in offers)
        self.lowlatency = _both(offers, extensions.LowLatency)
        self.compression = _both(offers, extensions.Compression)
        self.shm = _both(offers, extensions.InitSynShm, extensions.InitAckShm)
        self.multilink = _both(offers, extensions.MultiLinkInitSyn, extensions.MultiLinkInitAck)
        self.patch = min(_patch(offer) for offer in offers)
        for party in self.parties:
            party.numbers.mask = self.mask

    def open(self, side: int, message: Open) -> None:
        """Notes what one end says in OPEN; all its lanes begin with the number there."""
        party = self.parties[side]
        party.lease = _lease(message)
        party.numbers.start(message.initial_sn)

    def join(self, message: Join) -> None:
        """Notes what a sender says of itself to its group."""
        self.introduce(0, message)
        self.fsn = _resolution(message.fsn)
        self.rid = _resolution(message.rid)
        self.batch_size = _batch_size(message, DEFAULT_JOIN_BATCH)
        self.patch = _patch(message)
        self.lowlatency = self.multilink = False
        party = self.parties[0]
        party.lease = _lease(message)
        lanes = dict(_join_numbers(message))
        self.qos = len(lanes) > 2
        party.numbers.mask = self.mask
        party.numbers.start(None, lanes)


def _resolution(code: int | None) -> Resolution:
    return Resolution.BITS_32 if code is None else Resolution(code)


def _batch_size(message: Init | Join, default: int) -> int:
    return default if message.batch_size is None else int(message.batch_size)


def _both(offers: tuple[Init, Init], *kinds: type[Extension]) -> bool:
    """Tells whether both INITs have an extension, which may have a form for each of them."""
    return all(any(extension(offer, kind) is not None for kind in kinds) for offer in offers)


def _patch(message: Init | Join) -> int:
    found = extension(message, extensions.Patch)
    return int(found.patch) if found and not found.errors else 0


def _offers_qos(init: Init) -> bool:
    if extension(init, extensions.QoSOffer) is not None:
        return True
    link = extension(init, extensions.QoSLink)
    # A range or a reliability of the link says that there are lanes, too.
    return link is not None and any((link.qos, link.has_priorities, link.has_reliability))


def _lease(message: Open | Join) -> int:
    return int(message.lease) * (1000 if message.T else 1)


def _join_numbers(message: Join) -> Iterator[tuple[Lane, int]]:
    found = extension(message, extensions.JoinLanes)
    if found is None or found.errors:
        yield Lane(Priority.DATA, reliable=True), message.next_sn_re
        yield Lane(Priority.DATA, reliable=False), message.next_sn_be
        return
    for priority, item in zip(Priority, found.lanes, strict=False):
        yield Lane(priority, reliable=True), item["next_sn_re"]
        yield Lane(priority, reliable=False), item["next_sn_be"]
