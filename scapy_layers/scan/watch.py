"""What the links of a capture turn out to be: Zenoh or not, how it is framed, and whether it is compressed.

Follows INIT, OPEN and JOIN as ``conversation`` does, and decides the same, without Scapy and without looking at
messages that cannot matter any more. Nothing here raises for what the bytes are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

from scapy_layers import lz4
from scapy_layers.codes import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_PORT,
    PROTOCOL_VERSION,
    Kind,
    NetworkId,
    Priority,
    Resolution,
    ScoutingId,
    TransportId,
)
from scapy_layers.derive.columns.units import UnitKind
from scapy_layers.errors import WireError
from scapy_layers.framing import Framing, closes, is_handshake
from scapy_layers.lanes import MASKS
from scapy_layers.links import HANDSHAKE, MS, SHORTEST_LEASE_MS, Batch, Datagram, Gap, Link, Unit, Way
from scapy_layers.remarks import Lane
from scapy_layers.scan.events import (
    BEFORE,
    BEHIND,
    Agreed,
    Doubts,
    Event,
    Happened,
    Introduced,
    Joins,
    Leaves,
    Starts,
)
from scapy_layers.scan.plain import Language, Plain
from scapy_layers.scouted import Scouted, is_group

LINKS = 4096
"""Links remembered at once; the one that was silent longest is forgotten first."""

MISSES = 3
"""Batches in a row that cannot be read before a link whose start was not captured is given up as foreign."""

MOST_UNPACKED = 0xFFFF
"""Bytes of the largest batch, compressed or not."""

DEFAULT_JOIN_BATCH = 8192
"""JOIN: the batch size when S is clear."""

_VERSION = bytes([PROTOCOL_VERSION])
_NUMBERED = frozenset({"FRAME", "FRAGMENT"})
_TELLING = frozenset({"PUSH", "REQUEST", "RESPONSE"})
_IN_PROGRESS = frozenset({TransportId.FRAME, NetworkId.PUSH, NetworkId.REQUEST, NetworkId.RESPONSE})

_STAMP = 20
"""Bits of a moment behind the number of its packet."""


class Heard(NamedTuple):
    """A batch or datagram that belongs to Zenoh.

    Attributes:
        way: Which way it went.
        number: Of the packet in which it ends.
        time: Of that packet, ns.
        data: Its bytes, decompressed.
        kind: What it is.
        damage: Why it could not be decompressed.
    """

    way: Way
    number: int
    time: int
    data: bytes
    kind: UnitKind
    damage: WireError | None = None


@dataclass(slots=True, eq=False)
class Session:
    """What two nodes, or a sender and its group, have agreed on; None is what was not captured."""

    number: int
    zids: list[str | None] = field(default_factory=lambda: [None, None])
    whatami: list[int | None] = field(default_factory=lambda: [None, None])
    multicast: bool = False
    fsn: int | None = None
    rid: int | None = None
    batch_size: int | None = None
    qos: bool | None = None
    lowlatency: bool | None = None
    compression: bool | None = None
    shm: bool | None = None
    multilink: bool | None = None
    patch: int | None = None
    links: int = 1
    lease: int = SHORTEST_LEASE_MS
    opening: frozenset[tuple[str | None, int | None]] = frozenset()

    def introduce(self, side: int, message: Plain) -> None:
        """Notes who one end is."""
        self.zids[side] = zid_text(message.fields["zid"])
        self.whatami[side] = message.fields["whatami"]

    def agree(self, offers: tuple[Plain, Plain]) -> None:
        """Settles what both INITs say: the lower value, and the features that both of them name."""
        self.fsn = min(_number(offer, "fsn", Resolution.BITS_32) for offer in offers)
        self.rid = min(_number(offer, "rid", Resolution.BITS_32) for offer in offers)
        self.batch_size = min(_number(offer, "batch_size", DEFAULT_BATCH_SIZE) for offer in offers)
        self.qos = all(_offers_qos(offer) for offer in offers)
        self.lowlatency, self.compression, self.shm, self.multilink = (
            all(offer.extension(name) is not None for offer in offers)
            for name in ("LowLatency", "Compression", "Shm", "MultiLink")
        )
        self.patch = min(_patch(offer) for offer in offers)

    def open(self, message: Plain) -> None:
        """Notes the lease of one end; of both the longer one counts."""
        self.lease = max(self.lease, message.fields["lease"] * (1000 if message.fields["T"] else 1))

    def join(self, message: Plain) -> None:
        """Notes what a sender says of itself to its group."""
        self.introduce(0, message)
        self.fsn = _number(message, "fsn", Resolution.BITS_32)
        self.rid = _number(message, "rid", Resolution.BITS_32)
        self.batch_size = _number(message, "batch_size", DEFAULT_JOIN_BATCH)
        self.patch = _patch(message)
        self.lowlatency = self.multilink = False
        self.qos = message.extension("QoS") is not None


def zid_text(raw: bytes) -> str:
    """Returns a ZenohID as nodes write it: hexadecimal, high byte first, without leading zeros."""
    return f"{int.from_bytes(raw, 'little'):x}"


def _number(message: Plain, name: str, default: int) -> int:
    return int(message.fields.get(name, default))


def _patch(message: Plain) -> int:
    found = message.extension("Patch")
    return int(found.fields["patch"]) if found is not None and "patch" in found.fields else 0


def _offers_qos(init: Plain) -> bool:
    if init.extension("QoS") is not None:
        return True
    link = init.extension("QoSLink")
    return link is not None and any(
        link.fields.get(name) for name in ("qos", "has_priorities", "has_reliability")
    )


@dataclass(slots=True, eq=False)
class Talk:
    """What is remembered of a link that is Zenoh; lists have an item for each way.

    Attributes:
        link: The link.
        session: What it belongs to.
        sure: Its beginning was seen; else it is believed until batches cannot be read.
        flipped: Side 0 of the session is the second endpoint of the link.
        inits: The INIT on each way.
        opened: The ways on which OPEN was heard.
        starts: The sequence numbers with which it says that each way begins.
        settled: The ways on which batches are as agreed: what follows OPEN, heard or lost.
        missed: The ways of which something is missing.
        ended: The ways that have ended.
        closed: The session is over, by CLOSE of both on UDP.
        compressed: Batches have a header byte, though no INIT was heard to say so.
        misses: Batches in a row that could not be read.
        said: Messages, or batches that need not be looked at, that were heard.
        greeting: All that was heard of the session is INIT.
        used: When it was used last, see ``Watch.now``.
        first: Number and time of the packet of the first batch.
        last: Of the last one.
        batches: How many batches.
        bytes: How many bytes in them.
    """

    link: Link
    session: Session
    sure: bool
    flipped: bool = False
    inits: list[Plain | None] = field(default_factory=lambda: [None, None])
    opened: list[bool] = field(default_factory=lambda: [False, False])
    starts: list[int | None] = field(default_factory=lambda: [None, None])
    settled: list[bool] = field(default_factory=lambda: [False, False])
    missed: list[bool] = field(default_factory=lambda: [False, False])
    ended: list[bool] = field(default_factory=lambda: [False, False])
    closed: bool = False
    compressed: bool = False
    misses: int = 0
    said: int = 0
    greeting: bool = True
    used: int = 0
    first: tuple[int, int] | None = None
    last: tuple[int, int] = (0, 0)
    batches: list[int] = field(default_factory=lambda: [0, 0])
    bytes: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def plain(self) -> bool:
        """Batches of SHORT framing are what they seem: FRAMEs and their like, not compressed."""
        session = self.session
        return (
            self.link.tcp
            and session.lowlatency is False
            and not session.compression
            and not (session.compression is None and self.compressed)
        )

    @property
    def settled_for_good(self) -> bool:
        """No message can change anything any more."""
        return self.sure and self.link.tcp and all(self.opened) and self.session.lowlatency is not None

    def count(self, forward: bool, number: int, time: int, batches: int, size: int) -> None:
        """Takes note of some batches, the last of which ended in a packet."""
        self.first = self.first or (number, time)
        self.last = number, time
        self.batches[not forward] += batches
        self.bytes[not forward] += size

    def is_open_missing(self, index: int) -> bool:
        """Tells whether the other end has said OPEN, and nothing was heard of that of this one."""
        return self.opened[1 - index] and not self.settled[index]

    def settle(self, index: int) -> None:
        """Takes note that an OPEN was not heard: what comes behind it is as agreed, when that is known."""
        if self.session.fsn is not None:
            self.settled[index] = True
            self.switch()

    def switch(self) -> None:
        """Sets the framing that was agreed; from OPEN_SYN on already, for nothing comes before OPEN_ACK."""
        agreed = self.session.lowlatency
        self.link.take_framing(
            self.settled, agreed=agreed, possible=agreed is None and self._may_be_lowlatency()
        )

    def _may_be_lowlatency(self) -> bool:
        heard = [init for init in self.inits if init is not None]
        if heard:
            return any(init.extension("LowLatency") is not None for init in heard)
        return any(self.opened)


class Watch:
    """Says which units of a capture are Zenoh, and sets the framing of their links.

    Attributes:
        language: Reads messages.
        talks: The links that are Zenoh, by number.
        happened: What has changed since somebody asked; the owner takes it away.
        over: Those that are no longer remembered; the owner takes them away.
        now: The moment: it grows from unit to unit.
        harmless: The next datagram is known to be one that a strict decoder takes, and that begins or ends nothing.
        begun: How many links turned out to be Zenoh.
        foreign: Links given up because what came on them was no Zenoh after all.
        strange: Batches and datagrams of links that have not shown to be Zenoh, and their bytes.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.talks: dict[int, Talk] = {}
        self.happened: list[Happened] = []
        self.over: list[Talk] = []
        self.now = 0
        self.harmless = False
        self.begun = 0
        self.foreign = 0
        self.strange = [0, 0]
        self._place = BEFORE
        self._sessions = 0
        self._midway: set[int] = set()
        self._strangers: OrderedDict[int, int] = OrderedDict()
        self._scouted: Scouted[Datagram] = Scouted(LINKS)
        self._scouting_links: dict[int, Talk] = {}
        self._pairs: dict[frozenset[str | None], Session] = {}
        self._openings: dict[frozenset[tuple[str | None, int | None]], Session] = {}

    def at(self, number: int) -> None:
        """Notes which packet is being taken."""
        self.now = number << _STAMP

    def hear(self, unit: Unit) -> Sequence[Heard]:
        """Says what a unit is; may set the framing of both ways of its link. Most often one thing, or nothing."""
        link = unit.way.link
        self.now += 1
        talk = self.talks.get(link.number)
        if talk is not None:
            talk.used = self.now
        if isinstance(unit, Batch):
            talk = talk or self._claim_stream(unit)
            return [self._read(talk, unit)] if talk else self._passed_over(unit)
        if isinstance(unit, Datagram):
            if talk is not None and talk.closed and not closes(unit.data):
                self._drop(talk)
                talk = None
            if talk is None and (found := self._scouting(unit)):
                return found
            talk = talk or self._claim_datagram(unit)
            return [self._read(talk, unit)] if talk else self._passed_over(unit)
        if isinstance(unit, Gap):
            if talk:
                self._gap(talk, unit.way)
        elif talk is None:
            self._strangers.pop(link.number, None)
        else:
            talk.ended[not unit.way.forward] = True
            if unit.reset or all(talk.ended):
                self._drop(talk)
        return ()

    def is_batch(self, raw: bytes) -> bool:
        """Tells whether strict decoding takes the whole of a batch, compressed or not."""
        return bool(self.language.strict(raw)) or self._is_compressed(raw)

    def finish(self) -> None:
        """Forgets all links."""
        self.over += [*self.talks.values(), *self._scouting_links.values()]
        self.talks.clear()
        self._scouting_links.clear()

    def _passed_over(self, unit: Batch | Datagram) -> Sequence[Heard]:
        self.strange[0] += 1
        self.strange[1] += len(unit.data)
        return ()

    # What is Zenoh ------------------------------------------------------------------------------

    def _is_compressed(self, raw: bytes) -> bool:
        return bool(raw) and raw[0] <= 1 and bool(self.language.strict(_unpacked(raw)))

    def _claim_stream(self, unit: Batch) -> Talk | None:
        link, raw = unit.way.link, unit.data
        misses = self._strangers.pop(link.number, 0)
        sure = bool(raw) and raw[0] & 0x1F == TransportId.INIT and raw[1:2] == _VERSION
        if sure or self.is_batch(raw):
            return self._begin(link, sure)
        if misses + 1 >= MISSES:
            self._give_up(link)
            return None
        self._strangers[link.number] = misses + 1
        if len(self._strangers) > LINKS:
            self._strangers.popitem(last=False)
        return None

    def _claim_datagram(self, unit: Datagram) -> Talk | None:
        way, raw = unit.way, unit.data
        if raw and raw[0] <= 1 and is_group(way.target):
            raw = _unpacked(raw)
        number = raw[0] & 0x1F if raw else -1
        opens = number in {TransportId.INIT, TransportId.JOIN} and raw[1:2] == _VERSION
        usual = DEFAULT_PORT in {way.source.port, way.target.port} and number in _IN_PROGRESS
        read = self.language.strict(raw) if opens or usual else []
        if not read:
            return None
        first = read[0]
        match first.name:
            case "INIT":
                likely = len(read) == 1 and not first.fields["reserved2"]
            case "JOIN":
                likely = is_group(way.target) and not first.fields["reserved2"]
            case "FRAME":
                likely = any(inner.name in _TELLING for inner in first.fields["messages"])
            case bare:
                likely = bare in _TELLING
        return self._begin(way.link, False) if likely else None

    def _give_up(self, link: Link) -> None:
        self.foreign += 1
        if link.tcp:
            for way in link.ways:
                way.framing = Framing.FOREIGN

    def _begin(self, link: Link, sure: bool) -> Talk:
        self.begun += 1
        talk = self.talks[link.number] = Talk(link, self._session(link), sure, used=self.now)
        if not sure and not talk.session.multicast:
            self._midway.add(link.number)
        self._tell(Joins(link.number, talk.session.number))
        if scouting := self._scouting_links.pop(link.number, None):
            talk.first, talk.last, talk.batches, talk.bytes = (
                scouting.first,
                scouting.last,
                scouting.batches,
                scouting.bytes,
            )
        if len(self.talks) > LINKS:
            self._drop(min(self.talks.values(), key=_used))
        return talk

    def _drop(self, talk: Talk) -> None:
        if self.talks.get(talk.link.number) is talk:
            del self.talks[talk.link.number]
            self._midway.discard(talk.link.number)
            self._leave(talk)
            self._tell(Leaves(talk.link.number))
            self.over.append(talk)

    def _leave(self, talk: Talk) -> None:
        if talk.closed:
            return
        session = talk.session
        session.links -= 1
        ends = frozenset(session.zids)
        if not session.links and self._pairs.get(ends) is session:
            del self._pairs[ends]
        if not session.links and self._openings.get(session.opening) is session:
            del self._openings[session.opening]

    def _session(self, link: Link) -> Session:
        self._sessions += 1
        return Session(self._sessions, multicast=not link.tcp and is_group(link.second))

    def _make_sure(self, talk: Talk) -> None:
        talk.sure = True
        self._midway.discard(talk.link.number)

    # What changes ------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        self.happened.append(Happened(event, self._place))

    def _doubt(self, talk: Talk, index: int) -> None:
        self._tell(Doubts(talk.session.number, index ^ talk.flipped))

    # Scouting -----------------------------------------------------------------------------------

    def _scouting(self, unit: Datagram) -> Sequence[Heard]:
        raw = unit.data
        if len(raw) < 3 or raw[1] != PROTOCOL_VERSION:
            return ()
        number = raw[0] & 0x1F
        if number not in {ScoutingId.SCOUT, ScoutingId.HELLO}:
            return ()
        if self.language.scouting(raw) is None:
            return ()
        if number == ScoutingId.SCOUT:
            return [self._told(unit)] if self._scouted.ask(unit.way, raw, unit) else ()
        believed, scout, belated = self._scouted.answer(unit.way, raw)
        first = [self._told(scout)] if scout and belated else []
        return [*first, self._told(unit)] if believed else ()

    def _told(self, unit: Datagram) -> Heard:
        """Returns what a datagram of scouting is, and takes note of its link."""
        way, number, time, data = unit
        talk = self._scouting_links.pop(way.link.number, None) or Talk(way.link, Session(0), True)
        talk.count(way.forward, number, time, 1, len(data))
        self._scouting_links[way.link.number] = talk
        if len(self._scouting_links) > LINKS:
            self.over.append(self._scouting_links.pop(next(iter(self._scouting_links))))
        return Heard(way, number, time, data, UnitKind.SCOUTING)

    # Batches ------------------------------------------------------------------------------------

    def _gap(self, talk: Talk, way: Way) -> None:
        index = int(not way.forward)
        self._doubt(talk, index)
        talk.missed[index] = True
        if talk.opened[1 - index]:
            talk.settle(index)

    def _read(self, talk: Talk, unit: Batch | Datagram) -> Heard:
        way, number, time, packed = unit
        index = int(not way.forward)
        if talk.link.tcp and talk.is_open_missing(index) and not is_handshake(packed):
            talk.settle(index)
        raw, damage = self._unpacked(talk, index, packed)
        talk.count(way.forward, number, time, 1, len(raw))
        refused = damage is not None
        known = self.harmless and raw is packed and talk.session.lowlatency is not None
        if damage is None and not known and not talk.settled_for_good:
            whole = cache(partial(self.is_batch, raw))
            for message in self.language.messages(raw):
                self._place = message.at
                self._renew_if_new(talk, index, message, whole)
                talk.said += 1
                self._take(talk, index, message)
                refused = refused or message.refused > 0
            self._place = BEHIND
        else:
            talk.said += 1
            talk.greeting = False
        talk.misses = talk.misses + 1 if refused else 0
        if talk.misses >= MISSES and not talk.sure:
            self._drop(talk)
            self._give_up(talk.link)
        self._place = BEFORE
        return Heard(way, number, time, raw, UnitKind.BATCH, damage)

    def _unpacked(self, talk: Talk, index: int, raw: bytes) -> tuple[bytes, WireError | None]:
        """Returns a batch without what compression puts in front, or why that cannot be done."""
        if not raw or raw[0] > 1:
            return raw, None
        session = talk.session
        if session.compression is None and not talk.compressed:
            talk.compressed = self._is_compressed(raw)
        if session.compression is None or session.multicast:
            packed = talk.compressed
        else:
            settled = talk.settled[index] or (not talk.link.tcp and self._is_compressed(raw))
            packed = session.compression and settled and (not session.lowlatency or closes(raw))
        if not packed:
            return raw, None
        try:
            return unpack(raw), None
        except WireError as error:
            return raw, error.within("batch")

    def _renew_if_new(self, talk: Talk, index: int, message: Plain, whole: Callable[[], bool]) -> None:
        """Notices that another session begins on UDP, where no connection ends the one before."""
        if talk.link.tcp:
            return
        if message.name not in {"INIT", "JOIN"}:
            talk.greeting = False
            return
        if not talk.said or message.own:
            return
        if message.fields.get("version", PROTOCOL_VERSION) != PROTOCOL_VERSION or not whole():
            return
        if message.name == "INIT" and _is_late(talk, index, message):
            talk.link.disordered = talk.link.late = True
            return
        again = message.name == "INIT" and not message.fields["A"] and not _is_repeated(talk, message)
        other = message.name == "JOIN" and talk.session.zids[0] not in {None, zid_text(message.fields["zid"])}
        if (again or (other and talk.session.multicast)) and self.talks.get(talk.link.number) is talk:
            self._leave(talk)
            talk.session = self._session(talk.link)
            self._tell(Leaves(talk.link.number))
            self._tell(Joins(talk.link.number, talk.session.number))
            talk.inits, talk.starts = [None, None], [None, None]
            talk.opened, talk.settled, talk.ended = [False, False], [False, False], [False, False]
            talk.missed = [False, False]
            talk.flipped = talk.closed = False
            talk.compressed = talk.compressed and talk.session.multicast
            talk.greeting = True

    # Messages -----------------------------------------------------------------------------------

    def _take(self, talk: Talk, index: int, message: Plain) -> None:
        """Applies a message to what is remembered."""
        ignored = self._misplaced(talk, message)
        if message.own or ignored:
            return
        match message.name:
            case "INIT":
                self._init(talk, index, message)
            case "OPEN":
                self._open(talk, index, message)
            case "CLOSE" if not talk.link.tcp:
                talk.ended[index] = True
                if talk.session.multicast:
                    self._drop(talk)
                elif all(talk.ended):
                    self._leave(talk)
                    self._tell(Leaves(talk.link.number))
                    talk.closed = True
            case "JOIN":
                self._join(talk, message)

    def _misplaced(self, talk: Talk, message: Plain) -> bool:
        """Checks, or finds out, whether network messages travel in FRAMEs here."""
        bare = message.kind is Kind.NETWORK
        if not bare and message.name not in _NUMBERED:
            return False
        session = talk.session
        if session.lowlatency is None:
            session.lowlatency = bare
            self._tell(agreed(session))
            talk.switch()
        return session.lowlatency is not bare

    def _init(self, talk: Talk, index: int, message: Plain) -> None:
        if message.fields["A"] and talk.opened[1 - index] and talk.inits[index] is None and not talk.link.tcp:
            talk.link.disordered = talk.link.late = True  # the other one has answered it before
        elif all(talk.opened):
            return
        talk.inits[index] = message
        self._tell(Introduced(talk.link.number, index))
        session = talk.session
        session.introduce(index ^ talk.flipped, message)
        other = talk.inits[1 - index]
        ack = message if message.fields["A"] else other
        if ack is None or not ack.fields["A"]:
            talk.switch()
            return
        # Where one INIT was not captured: the acceptor names what both will do.
        syn = other if message.fields["A"] else message
        session.agree((ack if syn is None or syn.fields["A"] else syn, ack))
        self._tell(agreed(session))
        if other is not None:
            self._make_sure(talk)
        talk.switch()

    def _open(self, talk: Talk, index: int, message: Plain) -> None:
        if all(talk.opened):
            return
        if not message.fields["A"] and talk.opened[1 - index] and not talk.link.tcp:
            talk.link.disordered = talk.link.late = True  # it was answered before
        talk.starts[index] = message.fields["initial_sn"]
        talk.session.open(message)
        self._tell(Starts(talk.session.number, index ^ talk.flipped, message.fields["initial_sn"]))
        if talk.session.multilink and self._midway:
            self._doubt(talk, index)  # the link may join a session whose beginning was not captured
        talk.opened[index] = talk.settled[index] = True
        if message.fields["A"] and talk.missed[1 - index]:
            talk.settled[1 - index] = True  # what it answers is among what is missing
        talk.switch()
        if all(talk.opened) and talk.session.multilink:
            self._unite(talk)
        elif all(talk.opened) and all(talk.inits):
            self._cross(talk)

    def _unite(self, talk: Talk) -> None:
        """Finds the session of the same two nodes that another link keeps alive, see ``conversation.Memory.unite``."""
        ends = frozenset(talk.session.zids)
        if len(ends) < 2 or None in ends:
            return
        known = self._pairs.get(ends)
        if known is None or not self._alive(known, talk):
            self._pairs[ends] = talk.session
        elif known is not talk.session:
            self._merge(talk, known)

    def _cross(self, talk: Talk) -> None:
        """Finds the session that a link from the other end has begun, see ``conversation.Memory.cross``."""
        session = talk.session
        if None in session.zids or session.zids[0] == session.zids[1]:
            return
        ends = frozenset(zip(session.zids, talk.starts, strict=True))
        known = self._openings.get(ends)
        if known is not None and any(_dialer(link) != _dialer(talk) for link in self._alive(known, talk)):
            known.multilink = True
            self._tell(agreed(known))
            self._merge(talk, known)
        else:
            session.opening = ends
            self._openings[ends] = session

    def _alive(self, session: Session, new: Talk) -> list[Talk]:
        """Returns those links of a session that no end has left, and that were heard when a new one was opened."""
        since = new.last[1] - session.lease * MS
        talks = [talk for talk in self.talks.values() if talk.session is session]
        return [talk for talk in talks if talk.last[1] > since and not any(talk.ended)]

    def _merge(self, talk: Talk, known: Session) -> None:
        talk.flipped = known.zids != talk.session.zids
        self._leave(talk)
        talk.session = known
        known.links += 1
        self._tell(Joins(talk.link.number, known.number, talk.flipped))
        if talk.said > HANDSHAKE:
            self._doubt(talk, 0)
            self._doubt(talk, 1)

    def _join(self, talk: Talk, message: Plain) -> None:
        session = talk.session
        if not session.multicast:
            return
        if session.zids[0] is None:
            session.join(message)
            session.compression = talk.compressed
            self._tell(agreed(session))
            self._tell(Starts(session.number, 0, None, dict(_join_numbers(message))))
        else:
            self._make_sure(talk)


def unpack(raw: bytes) -> bytes:
    """Returns a batch without the header byte that compression puts in front. Spec: Compression.

    Raises:
        WireError: The LZ4 block behind the header is refused.
    """
    return lz4.decompress(raw[1:], MOST_UNPACKED) if raw[0] & 1 else raw[1:]


def _unpacked(raw: bytes) -> bytes:
    try:
        return unpack(raw)
    except WireError:
        return b""


def _dialer(talk: Talk) -> bytes | None:
    """Returns the ZenohID of the node that asked for a link, when that was heard."""
    return next((init.fields["zid"] for init in talk.inits if init and not init.fields["A"]), None)


def _is_repeated(talk: Talk, syn: Plain) -> bool:
    """Tells whether an INIT is one that has no answer yet, sent once more or captured twice."""
    asked = (one for one in talk.inits if one and not one.fields["A"])
    return talk.greeting and any(one.fields["zid"] == syn.fields["zid"] for one in asked)


def _is_late(talk: Talk, index: int, syn: Plain) -> bool:
    """Tells whether an INIT was captured behind its answer, see ``conversation.Conversations``."""
    answer = talk.inits[1 - index]
    begun = talk.inits[index] is not None or talk.opened[index]
    return not syn.fields["A"] and not begun and answer is not None and bool(answer.fields["A"])


def agreed(session: Session) -> Agreed:
    """Returns what is known of a session."""
    mask = None if session.fsn is None else MASKS[session.fsn]
    return Agreed(session.number, mask, session.patch, session.lowlatency, session.multilink)


def _join_numbers(message: Plain) -> Iterator[tuple[Lane, int]]:
    found = message.extension("QoS")
    if found is None:
        yield Lane(Priority.DATA, reliable=True), message.fields["next_sn_re"]
        yield Lane(Priority.DATA, reliable=False), message.fields["next_sn_be"]
        return
    for priority, item in zip(Priority, found.fields["lanes"], strict=False):
        yield Lane(priority, reliable=True), item["next_sn_re"]
        yield Lane(priority, reliable=False), item["next_sn_be"]


def _used(talk: Talk) -> int:
    return talk.used
