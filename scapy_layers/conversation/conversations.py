"""A passive reader: units of a capture in, messages with all that can be known about them out.

Nothing here raises for what the bytes are. What a message does to what is remembered stands in ``effects``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from scapy_layers import extensions
from scapy_layers.capture import Segment
from scapy_layers.codes import PROTOCOL_VERSION, Kind
from scapy_layers.conversation import identify
from scapy_layers.conversation.aliases import reference
from scapy_layers.conversation.batches import messages, unpack
from scapy_layers.conversation.effects import EFFECTS, Carried, carried_by
from scapy_layers.conversation.heard import Heard, Unread
from scapy_layers.conversation.identify import Claim
from scapy_layers.conversation.memory import Memory, Talk
from scapy_layers.conversation.scouts import Scouts
from scapy_layers.conversation.session import Party, extension, zid_of
from scapy_layers.conversation.turn import Turn
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.errors import WireError
from scapy_layers.framing import closes, is_handshake
from scapy_layers.limits import Limits
from scapy_layers.message import Layer
from scapy_layers.network import Declare, Interest, Push, Request, Response
from scapy_layers.remarks import RemarkKind, refusal
from scapy_layers.stream import Batch, Datagram, End, Framing, Gap, Link, Unit, Way, units
from scapy_layers.transport import Fragment, Frame, Init, Join

KEYED = (
    Push,
    Request,
    Response,
    Interest,
    DeclareKeyExpr,
    DeclareSubscriber,
    DeclareQueryable,
    DeclareToken,
)
"""Messages and bodies that have a key among their fields."""

NUMBERED = (Frame, Fragment)
"""Messages that take a sequence number, which there are none of in low latency."""

UNDECLARED = (UndeclareSubscriber, UndeclareQueryable, UndeclareToken)
"""Bodies that may have one in an extension."""


def listen(segments: Iterable[Segment], limits: Limits | None = None) -> Iterator[Heard | Gap]:
    """Yields every message in the segments of a capture, and what is missing between them."""
    conversations = Conversations(limits)
    for unit in units(segments, plausible=identify.is_batch):
        if isinstance(unit, Gap):
            yield unit
        yield from conversations.hear(unit)


class Conversations:
    """Remembers what a passive reader must, within bounds, and says what each unit of a capture means.

    Attributes:
        limits: How much is remembered.
        foreign: Links given up because what came on them was no Zenoh after all.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.foreign = 0
        self._memory = Memory(self.limits)
        self._scouts = Scouts(self.limits)
        # TCP links that have shown nothing yet: batches that could not be read.
        self._strangers: OrderedDict[int, int] = OrderedDict()
        # Some link of UDP was captured out of order: that shows in handshakes only, so it is believed of the others.
        self._disordered = False

    @property
    def forgotten(self) -> dict[str, int]:
        """How much of each kind had to go because a bound was reached."""
        return {**self._memory.forgotten, "scouts": self._scouts.forgotten}

    def hear(self, unit: Unit) -> Iterator[Heard]:
        """Says what a unit means. To be run to its end before the next unit is asked for.

        May set the framing of both ways of the link.
        """
        link = unit.way.link
        talk = self._memory.talk(link)
        match unit:
            case Batch():
                if talk := talk or self._claim_stream(unit):
                    yield from self._read(talk, unit)
            case Datagram():
                yield from self._datagram(talk, unit)
            case Gap() if talk:
                self._gap(talk, unit.way)
            case End() if talk:
                talk.ended[not unit.way.forward] = True
                if unit.reset or all(talk.ended):
                    self._memory.drop(talk)
            case End():
                self._strangers.pop(link.number, None)

    def _datagram(self, talk: Talk | None, unit: Datagram) -> Iterator[Heard]:
        if talk and talk.closed and not closes(unit.data):
            self._memory.drop(talk)
            talk = None
        if talk is None and (scouting := self._scouts.hear(unit)):
            yield from scouting
        elif talk := talk or self._claim_datagram(unit):
            yield from self._read(talk, unit)

    # What is Zenoh -------------------------------------------------------------------------------

    def _claim_stream(self, unit: Batch) -> Talk | None:
        link = unit.way.link
        misses = self._strangers.pop(link.number, 0)
        claim = identify.of_stream(unit.data)
        if claim is not Claim.NONE:
            return self._memory.begin(link, claim)
        if misses + 1 >= self.limits.misses:
            self._give_up(link)
            return None
        self._strangers[link.number] = misses + 1
        if len(self._strangers) > self.limits.links:
            self._strangers.popitem(last=False)
        return None

    def _claim_datagram(self, unit: Datagram) -> Talk | None:
        claim = identify.of_datagram(unit.way, unit.data)
        return None if claim is Claim.NONE else self._memory.begin(unit.way.link, claim)

    def _give_up(self, link: Link) -> None:
        self.foreign += 1
        if link.tcp:
            for way in link.ways:
                way.framing = Framing.FOREIGN

    # Units ---------------------------------------------------------------------------------------

    def _gap(self, talk: Talk, way: Way) -> None:
        """Takes note that messages were not heard."""
        index = int(not way.forward)
        talk.session.parties[index ^ talk.flipped].doubt()
        self._memory.fragments.miss(talk.session.number, index ^ talk.flipped)
        talk.missed[index] = True
        if talk.opened[1 - index]:
            # What is missing may be the other OPEN, and its INIT.
            talk.settle(index)

    def _read(self, talk: Talk, unit: Batch | Datagram) -> Iterator[Heard]:
        """Says what a batch means, message by message."""
        index = int(not unit.way.forward)
        talk.latest = unit.time
        if talk.link.tcp and talk.is_open_missing(index) and not is_handshake(unit.data):
            talk.settle(index)
        raw, damage = _unpacked(talk, index, unit.data)
        unread = False
        if not talk.link.tcp:
            self._disordered = self._disordered or talk.link.disordered
        if talk.link.disordered or (self._disordered and not talk.link.tcp):
            talk.session.disordered = True
        whole = cache(partial(identify.is_batch, raw))
        for message, errors in messages(raw) if damage is None else [(Unread(data=raw), [damage])]:
            self._renew_if_new(talk, index, message, whole)
            talk.said += 1
            heard = Heard(unit.number, unit.time, unit.way, message, talk.session)
            heard.remarks += map(refusal, errors)
            for told in self._tell(Turn(self._memory, talk, index, heard)):
                if told.refused:
                    unread = self._doubt(talk.session.parties[index ^ talk.flipped], told) or unread
                yield told
        talk.misses = talk.misses + 1 if unread else 0
        if talk.misses >= self.limits.misses and talk.claim is Claim.LIKELY:
            self._memory.drop(talk)
            self._give_up(talk.link)

    @staticmethod
    def _doubt(speaker: Party, told: Heard) -> bool:
        """Takes note of what could not be read; returns whether that says something about its batch."""
        if told.pieces:
            # The batch with the last of the fragments could be read. What they make may have been a declaration.
            speaker.complete = False
            return False
        # It may have been anything: a declaration, a FRAME.
        speaker.doubt()
        return True

    def _renew_if_new(self, talk: Talk, index: int, message: Layer, whole: Callable[[], bool]) -> None:
        """Notices that another session begins on UDP, where no connection ends the one before."""
        if talk.link.tcp:
            return
        if not isinstance(message, Init | Join):
            talk.greeting = False
            return
        if not talk.said or message.errors or message.version != PROTOCOL_VERSION or not whole():
            return
        if isinstance(message, Init) and _is_late(talk, index, message):
            talk.link.disordered = talk.link.late = True
            return
        again = isinstance(message, Init) and not message.A and not _is_repeated(talk, message)
        other = isinstance(message, Join) and talk.session.parties[0].zid not in {None, zid_of(message)}
        if again or (other and talk.session.multicast):
            self._memory.renew(talk)

    # Messages ------------------------------------------------------------------------------------

    def _tell(self, turn: Turn) -> Iterator[Heard]:
        """Applies a message to what is remembered, then yields it and what it carries."""
        heard = turn.heard
        message = heard.message
        _check_place(turn)
        _resolve(turn)
        effect = EFFECTS.get(type(message))
        carried: list[Carried] | None = None
        if effect and not heard.refused and not heard.ignored:
            carried = effect(turn)
        elif isinstance(message, Frame):
            carried = carried_by(message)
        heard.session = turn.session
        heard.source_zid, heard.target_zid = turn.speaker.zid, turn.listener.zid
        yield heard
        for inner in carried or ():
            said = Heard(
                heard.number, heard.time, heard.way, inner.message, within=message, pieces=inner.pieces
            )
            said.lane, said.ignored = heard.lane, heard.ignored
            said.remarks += [refusal(error.within(str(inner.message.name))) for error in inner.errors]
            if inner.left:
                said.remark(RemarkKind.FRAGMENT, f"{inner.left} bytes behind it, which receivers pass over")
            yield from self._tell(turn._replace(heard=said))


def _is_repeated(talk: Talk, syn: Init) -> bool:
    """Tells whether an INIT is one that has no answer yet, sent once more or captured twice."""
    return talk.greeting and any(one and not one.A and one.zid == syn.zid for one in talk.inits)


def _is_late(talk: Talk, index: int, syn: Init) -> bool:
    """Tells whether an INIT was captured behind its answer: its sender has not begun, but the other one has answered."""
    answer = talk.inits[1 - index]
    begun = talk.inits[index] is not None or talk.opened[index]
    return not syn.A and not begun and answer is not None and bool(answer.A)


def _unpacked(talk: Talk, index: int, raw: bytes) -> tuple[bytes, WireError | None]:
    """Returns a batch without what compression puts in front, or why that cannot be done."""
    # A byte that is no header is how the CLOSE of a handshake that failed begins.
    if not raw or raw[0] > 1:
        return raw, None
    session = talk.session
    if session.compression is None and not talk.compressed:
        talk.compressed = identify.is_compressed(raw)
    if session.compression is None or session.multicast:
        packed = talk.compressed
    else:
        # On UDP nothing tells that OPEN was lost.
        settled = talk.settled[index] or (not talk.link.tcp and identify.is_compressed(raw))
        # In low latency nothing has it but the CLOSE with which real nodes tear a link down.
        packed = session.compression and settled and (not session.lowlatency or closes(raw))
    if not packed:
        return raw, None
    try:
        return unpack(raw), None
    except WireError as error:
        return raw, error.within("batch")


def _check_place(turn: Turn) -> None:
    """Checks, or finds out, whether network messages travel in FRAMEs here."""
    heard, session = turn.heard, turn.session
    if heard.within is not None or isinstance(heard.message, Unread):
        return
    bare = heard.message.kind is Kind.NETWORK
    if not bare and not isinstance(heard.message, NUMBERED):
        return
    if session.lowlatency is None:
        session.lowlatency = bare
        turn.talk.switch()
    elif session.lowlatency is not bare:
        where = "outside of a FRAME" if bare else "in a session with low latency"
        heard.ignored = True
        heard.remark(RemarkKind.PLACE, f"{heard.message.name} {where}")


def _resolve(turn: Turn) -> None:
    """Finds the full key of a message."""
    message = turn.heard.message
    keyed: Layer | None = message.fields.get("body") if isinstance(message, Declare) else message
    if isinstance(keyed, UNDECLARED):
        keyed = extension(keyed, extensions.WireExpr)
    elif not isinstance(keyed, KEYED):
        return
    key = None if keyed is None else reference(keyed)
    if key:
        turn.heard.keyexpr, remark = turn.memory.aliases.resolve(turn.session, turn.side, key)
        if remark:
            turn.heard.remarks.append(remark)
