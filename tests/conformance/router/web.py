"""Several routers with links between them, and clients; bytes are carried until all is quiet."""

from __future__ import annotations

from conformance.router import Face
from scapy_layers.catalogue import decode
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.message import Message
from scapy_layers.network import Interest
from tests.conformance.router.mesh import End, Mesh

MOST_TURNS = 200
"""Turns after which what goes on is a circle."""


class Station(Mesh):
    """One router of a web: what it sends to clients stays here, what it sends over a link goes to the other end."""

    def __init__(self, web: Web, name: str, whatami: int) -> None:
        super().__init__(whatami=whatami, zid=name.encode())
        self.web = web
        self.links: dict[Face, tuple[Station, Face]] = {}
        self.passing: list[tuple[Face, bytes, bool, int]] = []

    def _collect(self) -> None:
        before = len(self.sent)
        super()._collect()
        for out in self.sent[before:]:
            if out.face in self.links:
                self.passing.append((out.face, bytes(out.message), out.reliable, out.priority))
        self.web.settle()


class Web:
    """Routers, or peers, by name."""

    def __init__(self, *links: str, whatami: int = WhatAmI.ROUTER) -> None:
        self.whatami = whatami
        self.stations: dict[str, Station] = {}
        self._settling = False
        for link in links:
            self.link(*link)

    def station(self, name: str) -> Station:
        """Returns a router, made if need be."""
        if name not in self.stations:
            self.stations[name] = Station(self, name, self.whatami)
        return self.stations[name]

    def link(self, one: str, other: str) -> None:
        """Opens a session between two."""
        ends = [self.station(one), self.station(other)]
        faces = [Face(100 + 10 * len(end.links) + ord(end.router.zid) % 10) for end in ends]
        for here in (0, 1):
            ends[here].links[faces[here]] = (ends[1 - here], faces[1 - here])
        for here in (0, 1):
            ends[here].router.open(faces[here], ends[1 - here].router.zid, self.whatami, 0.0)
        for end in ends:
            end._collect()

    def cut(self, one: str, other: str) -> None:
        """Ends the sessions between two."""
        here, there = self.station(one), self.station(other)
        for face, (end, far) in list(here.links.items()):
            if end is there:
                del here.links[face], there.links[far]
                here.router.close(face, 0.0)
                there.router.close(far, 0.0)
        here._collect()
        there._collect()

    def client(self, name: str) -> End:
        """Opens a session of a client with one of them, which is told nothing unasked."""
        return self.station(name).asker()

    def settle(self) -> None:
        """Carries what is under way until nothing is."""
        if self._settling:
            return
        self._settling = True
        try:
            for _ in range(MOST_TURNS):
                passing = [
                    (station, station.passing) for station in self.stations.values() if station.passing
                ]
                if not passing:
                    return
                for station, messages in passing:
                    station.passing = []
                    for face, raw, reliable, priority in messages:
                        self._carry(station, face, raw, reliable, priority)
            raise AssertionError("this goes on for ever")
        finally:
            self._settling = False

    def _carry(self, station: Station, face: Face, raw: bytes, reliable: bool, priority: int) -> None:
        if face not in station.links:
            return
        far, there = station.links[face]
        far.router.receive(there, decode(raw), far.now, reliable=reliable, priority=priority)
        far._collect()


def ask_for_all(end: End) -> list[str]:
    """Returns all declarations that an end is told of when it asks."""
    end.said()
    end.send(Interest(interest_id=77, mode=InterestMode.CURRENT, subscribers=1, queryables=1, tokens=1))
    said = end.said()
    assert said[-1] == "!77 done"
    return sorted(word.removeprefix("!77 ") for word in said[:-1])


def pushes(station: Station, name: type[Message]) -> int:
    """Returns how many messages of a class a router has sent over its links."""
    return sum(isinstance(out.message, name) for out in station.sent if out.face in station.links)
