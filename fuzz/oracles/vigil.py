"""Links of ours on which we say nothing more, and what a node owes them: a word now and then, or their end.

A node that keeps them for ever ends with no room for others; one that says nothing in a session is taken for dead. What
each is owed comes within seconds from a node that is well, so they are looked at only now and then.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from conformance.nodes.base import Node
from conformance.tester import Fencing
from fuzz.oracles.service import door_to
from fuzz.player import NotReached, Player, Trace, run
from fuzz.player.answers import vle
from fuzz.player.player import template_of
from fuzz.script import Template
from fuzz.states import State
from scapy_layers.transport import KeepAlive, Open

TRACE_BYTES = 1 << 14

IDLE_SECONDS = 25.0
"""Seconds that a link may stay open on which no session was begun; eclipse-zenoh ends it behind 10."""

CLOSE_SECONDS = 8.0
"""Seconds that it may stay open behind CLOSE; eclipse-zenoh ends it at once."""

LEASE = 1
"""Seconds of silence behind which a session of ours has to be ended."""

LEASE_SECONDS = 8.0
"""Seconds that it may stay open."""

LONG_LEASE = 3600
"""Seconds that a session of ours may be silent in which the node has to say something."""

READING_SECONDS = 5.0
"""Seconds in which what a node has sent on such a link meanwhile is read to its end before anything is overdue."""

LOOK_SECONDS = 0.25
"""Seconds between two looks while what is owed is waited for."""

KEPT_SECONDS = 1.0
"""Seconds between two KEEP_ALIVE of ours where the node has to say something, at least."""

_KEEP_ALIVE = Template.of("size", bytes(KeepAlive()))

_SECONDS = 0x40
"""Flag T of OPEN: the lease is in seconds."""


_COOKIE = b"\xf7\xe7\x5bcookie of a link"


@cache
def _open(lease: int) -> Template:
    return template_of(Open(lease=lease, T=1, initial_sn=1, cookie=_COOKIE))


def _nothing(player: Player, name: str) -> None:
    player.reach(State.CONNECTED, name)


def _greeted(player: Player, name: str) -> None:
    player.reach(State.INIT_ACKED, name)


def _closed(player: Player, name: str) -> None:
    player.reach(State.CLOSED, name)


def _session(lease: int) -> Callable[[Player, str], None]:
    def begin(player: Player, name: str) -> None:
        pipe = player.reach(State.INIT_ACKED, name)
        pipe.send(_open(lease).fill(pipe))
        pipe.facts["lease"] = lease_of(run(player.expect(pipe, "OPEN")).batch)

    return begin


def lease_of(batch: bytes) -> float:
    """Returns the seconds of the lease that an OPEN names."""
    return vle(batch[1:]) / (1 if batch[0] & _SECONDS else 1000)


@dataclass(frozen=True, slots=True)
class Owed:
    """What is owed to one of the links.

    Attributes:
        begin: Makes the link.
        seconds: So long it may take; None for the lease that the node names.
        ends: The link has to end; else something has to come on it.
        detail: What it means that this does not happen.
        told: To be told of the end by CLOSE is enough.
    """

    begin: Callable[[Player, str], None]
    seconds: float | None
    ends: bool
    detail: str
    told: bool = True


OWED: dict[str, Owed] = {
    "KEEP_ALIVE": Owed(
        _session(LONG_LEASE),
        None,
        False,
        "a session receives nothing for longer than the lease that the node announced",
    ),
    "end of a silent session": Owed(
        _session(LEASE),
        LEASE_SECONDS,
        True,
        f"a silent session with a lease of {LEASE} s stays open",
    ),
    "end of a link without INIT": Owed(
        _nothing, IDLE_SECONDS, True, "a link on which nothing was ever sent stays open"
    ),
    "end of a link without OPEN": Owed(
        _greeted, IDLE_SECONDS, True, "a link on which only INIT was sent stays open"
    ),
    "end of a link behind CLOSE": Owed(
        _closed, CLOSE_SECONDS, True, "a link on which CLOSE was sent stays open", told=False
    ),
}
"""What is owed, by the words of a place."""


IDLE = ("end of a link without INIT", "end of a link without OPEN", "end of a link behind CLOSE")
"""What one link waits for by turns: a node may take few of them."""


class Vigil:
    """Links on which nothing is said.

    Args:
        node: The node; it listens for streams.
        reply: T1 in seconds.
        unjudged: Tells of a place that it is not judged any more.
    """

    def __init__(self, node: Node, reply: float, unjudged: Callable[[str], bool]) -> None:
        self._player = Player(door_to(node), reply, Fencing(node.fence), random.Random(), Trace(TRACE_BYTES))
        self._unjudged = unjudged
        self._since: dict[str, float] = {}

    def begin(self, *places: str) -> None:
        """Makes links anew on which something is owed; one for each of the idle ones by turns when none is named."""
        self.close()
        for place in places or (*(place for place in OWED if place not in IDLE), IDLE[0]):
            self._begin(place)

    def close(self) -> None:
        """Ends the links."""
        self._player.close()
        self._since.clear()

    def _begin(self, place: str) -> None:
        self._since[place] = time.monotonic()
        if self._unjudged(place):
            return
        try:
            OWED[place].begin(self._player, place)
        except NotReached:
            # Whether new sessions are taken is for others to say; on what is left of this one something else is owed.
            if place in self._player.links:
                self._player.links.pop(place).close()

    def look(self) -> str:
        """Returns what is overdue, or nothing; what was given is owed anew from here on."""
        overdue = ""
        for place in list(self._since):
            pipe = self._player.links.get(place)
            is_due = time.monotonic() - self._since[place] > self._seconds(place)
            if self.is_given(place) or (is_due and self._comes(place)):
                if not OWED[place].ends and pipe is not None and not pipe.ended:
                    self._since[place] = time.monotonic()
                    continue
                self._since.pop(place)
                if pipe is not None:
                    self._player.links.pop(place).close()
                self._begin(IDLE[(IDLE.index(place) + 1) % len(IDLE)] if place in IDLE else place)
            elif is_due:
                overdue = overdue or place
        return overdue

    def is_given(self, place: str) -> bool:
        """Takes in what came; tells whether a link has got what it is owed, or has ended."""
        pipe = self._player.links.get(place)
        if pipe is None:
            return True
        now = time.monotonic()
        if not OWED[place].ends and not pipe.ended and now - pipe.facts.get("kept", 0.0) >= KEPT_SECONDS:
            # A node that takes the smaller of both leases ends a session that is silent for its own.
            pipe.facts["kept"] = now
            pipe.send(_KEEP_ALIVE.fill(pipe))
        pipe.receive()
        came = pipe.take()
        owed = OWED[place]
        ended = bool(pipe.ended) or (owed.told and any(answer.close is not None for answer in came))
        return ended or (bool(came) and not owed.ends)

    def _comes(self, place: str) -> bool:
        """Reads on, where more waits than was taken in: what a link is owed may stand behind much that nobody has read."""
        pipe = self._player.links[place]
        until = time.monotonic() + READING_SECONDS
        while time.monotonic() < until and pipe.wait(self._player.reply):
            if self.is_given(place):
                return True
        return False

    def _seconds(self, place: str) -> float:
        """Returns how long it may take; nothing where there is no link."""
        if place not in self._player.links:
            return 0.0
        fixed = OWED[place].seconds
        return self._player.links[place].facts["lease"] if fixed is None else fixed

    def wait(self, place: str, rest: Callable[[float], None]) -> None:
        """Makes a link anew, and waits until what is owed there is given or overdue; ``look`` tells which.

        Args:
            place: What is owed.
            rest: Lets some seconds pass.
        """
        self.begin(place)
        until = self._since[place] + self._seconds(place)
        while time.monotonic() <= until and not self.is_given(place):
            rest(LOOK_SECONDS)
