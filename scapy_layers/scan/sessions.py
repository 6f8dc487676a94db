"""Fragments back into messages, by what was known of their sessions when they came. Spec: Fragmentation.

The rules are those of ``lanes`` and ``fragments``, which ``conversation`` follows too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from scapy_layers.codes import Priority
from scapy_layers.fragments import Fragments, Piece, Place
from scapy_layers.lanes import Numbers
from scapy_layers.lanes import Part as Holds
from scapy_layers.limits import Limits
from scapy_layers.remarks import Lane
from scapy_layers.scan.events import Agreed, Doubts, Event, Introduced, Joins, Leaves, Starts
from scapy_layers.scan.plain import Plain


class Part(NamedTuple):
    """What a FRAME or FRAGMENT says.

    Attributes:
        unit: The batch it stands in.
        connection: Number of its link.
        forward: Its direction.
        tcp: Its link is a TCP connection.
        reliable: Of its lane.
        priority: Of its lane.
        sn: Its sequence number.
        data: Slice of a message; None for a FRAME.
        more: The message goes on.
        first: It has the extension First.
        drop: It has the extension Drop.
    """

    unit: int
    connection: int
    forward: bool
    tcp: bool
    reliable: bool
    priority: int
    sn: int
    data: bytes | None = None
    more: bool = False
    first: bool = False
    drop: bool = False


def part_of(message: Plain, unit: int, connection: int, forward: bool, tcp: bool) -> Part:
    """Returns what a FRAME or FRAGMENT says that could be read."""
    qos, fields = message.extension("QoS"), message.fields
    fragment = message.name == "FRAGMENT"
    return Part(
        unit,
        connection,
        forward,
        tcp,
        bool(fields["R"]),
        int(Priority.DATA) if qos is None else qos.fields["priority"],
        fields["sn"],
        fields["data"] if fragment else None,
        fragment and bool(fields["M"]),
        fragment and message.extension("First") is not None,
        fragment and message.extension("Drop") is not None,
    )


class Whole(NamedTuple):
    """A message that is complete.

    Attributes:
        unit: The batch that completed it.
        data: Its bytes.
        pieces: How many fragments it was.
    """

    unit: int
    data: bytes
    pieces: int


@dataclass(slots=True)
class _Side:
    """One end: its numbers, and whether it said where they begin and all of it was heard since then."""

    numbers: Numbers = field(default_factory=Numbers)
    complete: bool = False


@dataclass(slots=True)
class _Session:
    """What is known of a session; ``passed``: not all of its FRAMEs were looked at."""

    number: int
    sides: tuple[_Side, _Side] = field(default_factory=lambda: (_Side(), _Side()))
    patch: int | None = None
    lowlatency: bool | None = None
    multilink: bool | None = None
    links: set[int] = field(default_factory=set)
    passed: bool = False


@dataclass(slots=True)
class _Link:
    session: _Session
    flipped: bool
    introduced: list[bool] = field(default_factory=lambda: [False, False])


class Sessions:
    """The sessions of a capture, and the messages in fragments that are under way in them."""

    def __init__(self) -> None:
        limits = Limits()
        self._reorder = limits.reorder
        self._fragments = Fragments(limits)
        self._links: dict[int, _Link] = {}
        self._sessions: dict[int, _Session] = {}

    @property
    def held(self) -> int:
        """Bytes that messages under way cost."""
        return self._fragments.held

    def linked(self, connections: Collection[int], events: Iterable[Event]) -> set[int]:
        """Returns the links that belong to the same sessions as some, before or behind what happens."""
        joins = {(event.link, event.session) for event in events if isinstance(event, Joins)}
        joins.update((number, link.session.number) for number, link in self._links.items())
        sessions = {session for link, session in joins if link in connections}
        return {*connections, *(link for link, session in joins if session in sessions)}

    def pass_over(self, connections: Collection[int]) -> None:
        """Takes note that the FRAMEs of some links were not looked at: where their lanes stand is not known."""
        for connection in connections:
            if link := self._links.get(connection):
                link.session.passed = True
                for side in link.session.sides:
                    side.numbers.doubt()
                self._fragments.unsettle(link.session.number)

    def take_note(self, event: Event) -> None:
        """Follows what happened."""
        match event:
            case Joins(number, of, flipped):
                session = self._sessions.get(of)
                if session is None:
                    session = self._sessions[of] = _Session(of)
                session.links.add(number)
                before = self._links.get(number)
                link = self._links[number] = _Link(session, flipped)
                if before is not None:
                    link.introduced = before.introduced
                    self._leave(number, before.session)
            case Leaves(number):
                if left := self._links.pop(number, None):
                    self._leave(number, left.session)
            case Introduced(number, way):
                if known := self._links.get(number):
                    known.introduced[way] = True
            case _:
                if found := self._sessions.get(event.session):
                    self._learn(found, event)

    def _learn(self, session: _Session, event: Agreed | Starts | Doubts) -> None:
        match event:
            case Agreed():
                session.patch, session.lowlatency = event.patch, event.lowlatency
                session.multilink = event.multilink
                if event.mask is not None:
                    for side in session.sides:
                        side.numbers.mask = event.mask
            case Starts():
                speaker = session.sides[event.side]
                speaker.numbers.start(event.sn, event.lanes)
                speaker.complete = True
            case Doubts():
                speaker = session.sides[event.side]
                speaker.numbers.doubt()
                speaker.complete = False

    def _leave(self, number: int, session: _Session) -> None:
        session.links.discard(number)
        if not session.links and self._sessions.pop(session.number, None) is not None:
            self._fragments.drop(session.number)

    def doubt(self, connection: int, forward: bool) -> None:
        """Takes note that something of a direction was not heard: the next number of each lane counts as it is."""
        if link := self._links.get(connection):
            self.take_note(Doubts(link.session.number, int(not forward) ^ link.flipped))

    def take(self, part: Part) -> Whole | None:
        """Takes the next FRAME or FRAGMENT of a lane; returns the message that it completes."""
        link = self._links.get(part.connection)
        if link is None or link.session.lowlatency:
            return None
        session, way = link.session, int(not part.forward)
        index = way ^ link.flipped
        side, lane = session.sides[index], _lane(part.priority, bool(part.reliable))
        place = Place(session.number, index, lane)
        reorder = self._reorder if session.multilink else 0
        if part.data is None:
            if side.numbers.take(lane, part.sn, reorder=reorder, lossy=not part.tcp).fresh:
                self._fragments.interrupt(place, part.sn)
            return None
        holds = Holds(
            fragment=True,
            begins=part.first,
            ends=part.drop or not part.more,
            inside=bool(session.patch) and not part.first,
        )
        if not side.numbers.take(lane, part.sn, holds, reorder=reorder, lossy=not part.tcp).fresh:
            return None
        opens = side.numbers.is_first(lane, part.sn) or (session.passed and side.complete)
        whole, _ = self._fragments.take(
            place,
            Piece(part.unit, part.sn, part.data, part.more, part.first, part.drop),
            patch=session.patch,
            mask=side.numbers.mask,
            complete=False,
            opens=link.introduced[way] and opens,
        )
        return None if whole is None else Whole(part.unit, whole.data, len(whole.pieces))


@cache
def _lane(priority: int, reliable: bool) -> Lane:
    return Lane(Priority(priority), reliable)
