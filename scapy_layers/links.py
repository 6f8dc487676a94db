"""What a passive reader hears on links: who speaks to whom, and the units in which it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from scapy_layers.framing import Framing

Check: TypeAlias = Callable[[bytes], bool]
"""Tells whether bytes may be a batch."""

HANDSHAKE = 4
"""Messages of INIT and OPEN. A link that turns out to be one of a session later said things taken for another's."""

MS = 1_000_000
"""Nanoseconds."""

SHORTEST_LEASE_MS = 1000
"""So long a link counts as alive behind what was heard last on it, however short its lease is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader is willing to remember, whatever the capture says.

    Attributes:
        early: Bytes of one direction that wait for a hole in front of them to be filled.
        batch: Bytes of one batch on links whose lengths could say more than 65535.
        undecided: Bytes of one direction that are looked at before it counts as foreign, or, when known to be
            Zenoh, are passed over at a time.
        held: Bytes that wait in all; the links that were silent longest are given up first.
        links: TCP connections and UDP pairs at once; the ones that were silent longest are forgotten first.
    """

    early: int = 1 << 20
    batch: int = 16 << 20
    undecided: int = 1 << 18
    held: int = 64 << 20
    links: int = 1 << 14


class Endpoint(NamedTuple):
    """One side of a link: an IP address as text, and a port."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class Link:
    """A TCP connection, a pair of UDP endpoints, or what one endpoint sends to a group.

    Attributes:
        number: In order of appearance, from 0.
        tcp: TCP; else UDP.
        first: Who connected; when that is not in the capture, who sent the first packet of it.
        second: The other one.
        ways: Both directions; the first one is from ``first`` to ``second``.
        disordered: One side acknowledged what was not captured by then: answers may stand in front of what they
            answer, or that is lost.
        late: That was captured later.
    """

    __slots__ = ("disordered", "first", "late", "number", "second", "tcp", "ways")

    def __init__(self, number: int, tcp: bool, first: Endpoint, second: Endpoint, check: Check) -> None:
        self.number = number
        self.tcp = tcp
        self.first = first
        self.second = second
        self.ways = Way(self, True, check), Way(self, False, check)
        self.disordered = self.late = False

    def take_framing(self, settled: Sequence[bool], *, agreed: bool | None, possible: bool) -> None:
        """Sets how long the lengths are, by what a handshake agreed.

        Args:
            settled: For each way, whether its batches are as agreed.
            agreed: Low latency, with lengths of four bytes; None if that is not known.
            possible: If it is not, whether it may have been agreed.
        """
        for way, is_settled in zip(self.ways, settled, strict=True):
            if way.framing not in (Framing.SHORT, Framing.EITHER):
                continue
            if agreed and is_settled:
                way.framing = Framing.LONG
            elif agreed or possible:
                # OPEN, or what else tells, may never come: it need not be in the capture.
                way.framing = Framing.EITHER
            else:
                way.framing = Framing.SHORT

    def __repr__(self) -> str:
        return f"<Link {self.number} {self.first} {'TCP' if self.tcp else 'UDP'} {self.second}>"


class Way:
    """One direction of a link.

    Attributes:
        link: The link.
        forward: From ``link.first`` to ``link.second``.
        framing: How batches are told apart. The consumer may set it; the next batch is cut accordingly.
        begun: It has shown itself to be Zenoh: by INIT, or by a chain of batches in mid stream.
        plausible: Tells whether bytes may be a batch, after a loss. The consumer may set it.
    """

    __slots__ = ("begun", "forward", "framing", "link", "plausible")

    def __init__(self, link: Link, forward: bool, plausible: Check) -> None:
        self.link = link
        self.forward = forward
        self.framing = Framing.UNDECIDED
        self.begun = False
        self.plausible = plausible

    @property
    def source(self) -> Endpoint:
        """Who sends."""
        return self.link.first if self.forward else self.link.second

    @property
    def target(self) -> Endpoint:
        """Who receives."""
        return self.link.second if self.forward else self.link.first

    @property
    def opposite(self) -> Way:
        """The other direction."""
        return self.link.ways[self.forward]

    def __repr__(self) -> str:
        return f"<Way {self.source} -> {self.target}>"


class Batch(NamedTuple):
    """A batch without its length, or the binary message of a WebSocket link; with the packet in which it ends."""

    way: Way
    number: int
    time: int
    data: bytes


class Datagram(NamedTuple):
    """The payload of a UDP datagram."""

    way: Way
    number: int
    time: int
    data: bytes


class Gap(NamedTuple):
    """Bytes that are not to be had.

    Attributes:
        way: The direction.
        number: The first packet behind the hole.
        time: Of that packet.
        missing: How many bytes are not in the capture; None when that cannot be known.
        skipped: How many are, but cannot be read: the rest of a batch, and what was passed over to find the next.
        why: What happened, in words.
    """

    way: Way
    number: int
    time: int
    missing: int | None
    skipped: int
    why: str


class End(NamedTuple):
    """The end of one direction of a connection that carried batches.

    Attributes:
        way: The direction.
        number: The packet that ends it.
        time: Of that packet.
        reset: By RST, or by a new connection between the same ports; else by FIN.
    """

    way: Way
    number: int
    time: int
    reset: bool


Unit: TypeAlias = Batch | Datagram | Gap | End
