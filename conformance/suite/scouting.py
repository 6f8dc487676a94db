"""What the tests of scouting share: asking a node that answers, and watching a node that asks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakSet

from conformance.config import START_SECONDS, Locator
from conformance.errors import NotApplicable, Unmet
from conformance.expect import check
from conformance.nodes import Node
from conformance.nodes.child import DEFAULT_SCOUTING, private_scouting, scouting_of
from conformance.observe import Direction, Observation
from conformance.tester import Tester
from conformance.tester.scout import ResponderEnd, ScoutEnd
from scapy_layers.codes import WhatAmI
from scapy_layers.message import Message
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Hello, Scout

CLIENT_SCOUTS = 10
"""SCOUTs in T1 to a client that may not hear them yet."""

PATIENCE_MS = 60_000
"""How long a client may look for others; by itself a real one gives up after three seconds."""

DEAF = 20
"""A node that has not answered a SCOUT within T1 gets the T1 divided by this the next time."""

_deaf: WeakSet[Node] = WeakSet()
"""Nodes that have not answered a SCOUT: with dozens of tests, waiting T1 in each would take a minute and more."""


# We ask ------------------------------------------------------------------------------------------------


@dataclass
class Asker:
    """A port of ours that is in no group, and a node that has answered a correct SCOUT from there.

    Attributes:
        end: The port.
        bit: Of the node's role in the bitmap of SCOUT.
        hello: The answer.
    """

    tester: Tester
    end: ScoutEnd
    bit: int
    hello: Hello

    @property
    def zid(self) -> bytes:
        """The ZenohID in the answer."""
        return zid_in(self.hello)

    def send(self, scout: Message | bytes) -> None:
        """Sends a datagram."""
        self.end.send(scout)

    def answered(self, scout: Message | bytes) -> Hello:
        """Judges that a datagram is answered, and returns HELLO."""
        self.send(scout)
        hello: Hello = self.end.expect(Hello)
        return hello

    def unanswered(self, scout: Message | bytes) -> None:
        """Judges that no HELLO answers a datagram."""
        self.send(scout)
        self.end.expect_nothing(Hello, fence=self.end.ping)

    def answers(self, scout: Message | bytes) -> list[Hello]:
        """Returns all that answers a datagram."""
        before = len(self.end.inbox)
        self.send(scout)
        self.end.ping()
        return [seen.message for seen in self.end.inbox[before:] if isinstance(seen.message, Hello)]

    def later(self) -> list[Observation]:
        """Returns the datagrams that came after the answer to the first SCOUT."""
        came = [
            seen
            for seen in self.tester.history.observations
            if seen.link == self.end.name and seen.direction is Direction.RECEIVED
        ]
        return came[1:]

    def datagram(self, hello: Hello) -> bytes:
        """Returns the whole datagram that a HELLO came in."""
        return next(
            bytes(self.tester.history.observations[seen.at].batch)
            for seen in self.end.inbox
            if seen.message is hello
        )


def hearing_of(node: Node) -> Locator:
    """Returns where the node hears SCOUTs.

    Raises:
        NotApplicable: Nobody knows.
    """
    if node.scouting is None:
        raise NotApplicable("nobody knows where the node hears SCOUT")
    return node.scouting


def bit_of(node: Node) -> int:
    """Returns the bit of SCOUT that asks for the node's role.

    Raises:
        NotApplicable: Nobody knows its role.
    """
    if not node.whatami:
        raise NotApplicable("nobody knows the role of the node")
    return 1 << WhatAmI[node.whatami.upper()]


def bitmap(node: Node, others: str, *, asked: bool) -> int:
    """Returns a bitmap of SCOUT that asks for some of the two roles that the node does not have.

    Args:
        node: It has the third role.
        others: Which: ``neither``, ``one``, ``another``, ``both``.
        asked: Whether the bitmap asks for the node's role too.
    """
    one, another = (1 << role for role in WhatAmI if 1 << role != bit_of(node))
    wanted = {"neither": 0, "one": one, "another": another, "both": one | another}
    return wanted[others] | (bit_of(node) if asked else 0)


def guessed(node: Node) -> bool:
    """Tells whether nobody said where the node hears SCOUTs, or whether it does: there others may answer too."""
    where = hearing_of(node)
    return f"{where.host}:{where.port}" == DEFAULT_SCOUTING and not node.profile.scouting


def is_private(node: Node) -> bool:
    """Tells whether no other node can be in the node's group, because we have chosen it."""
    return node.owned and not guessed(node)


def asking(tester: Tester, node: Node) -> Asker:
    """Asks the node with a correct SCOUT, from a port of its own.

    Raises:
        NotApplicable: It does not answer, or others do as well.
        Unmet: It answers with something too short for HELLO.
    """
    end = tester.scout(hearing_of(node))
    end.scout()
    try:
        hello = end.expect(Hello, within=patience(tester, node))
    except Unmet:
        if end.last(Hello) is not None:
            raise
        _deaf.add(node)
        raise NotApplicable("the node answers no SCOUT") from None
    _deaf.discard(node)
    zid_in(hello)
    if not is_private(node):
        alone(end, node)
    return Asker(tester, end, bit_of(node), hello)


def zid_in(hello: Hello) -> bytes:
    """Returns the ZenohID of a HELLO, cut out by hand.

    Raises:
        Unmet: The HELLO is too short for it.
    """
    raw: bytes = hello.original
    end = 4 + (raw[2] >> 4) if len(raw) > 2 else 4
    check(len(raw) >= end, "a HELLO with a ZenohID", "a HELLO that ends before")
    return raw[3:end]


def alone(end: ScoutEnd, node: Node) -> None:
    """Makes sure that no other node answers in a group that we have not chosen.

    Raises:
        NotApplicable: One does.
        Unmet: Nobody answers a ping, or not with HELLO.
    """
    heard = [end.ping(), *(seen.message for seen in end.inbox if isinstance(seen.message, Hello))]
    if any(zid_to_text(zid_in(hello)) != node.zid for hello in heard):
        raise NotApplicable("other nodes answer SCOUT where this one does")


def patience(tester: Tester, node: Node) -> float:
    """Returns how long to wait for the answer to the first SCOUT of a test, in seconds."""
    return tester.reply / DEAF if node in _deaf else tester.reply


def answer(tester: Tester, node: Node, end: ScoutEnd) -> Hello:
    """Judges that the node answers the SCOUT of an end.

    Raises:
        Unmet: It does not.
        NotApplicable: It does not, and nobody said that it would. Or other nodes answer as well.
    """
    try:
        hello: Hello = end.expect(Hello, within=patience(tester, node))
    except Unmet:
        _deaf.add(node)
        if not guessed(node):
            raise
        raise NotApplicable("the node answers no SCOUT") from None
    _deaf.discard(node)
    if not is_private(node):
        alone(end, node)
    return hello


@contextlib.contextmanager
def started(node: Node, **config: Any) -> Iterator[Node]:
    """Starts a variant of the node that hears SCOUTs in a group of its own.

    Raises:
        NotApplicable: The node cannot be configured so.
    """
    with node.variant(**{**private_scouting(), **config}) as variant:
        yield variant


class Kept:
    """Variants of the node that several tests of a file share, since a start takes longer than most tests."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def variant(self, node: Node, **config: Any) -> Node:
        """Returns a variant that hears SCOUTs in a group of its own; starts it the first time.

        Raises:
            NotApplicable: The node cannot be configured so.
        """
        key = repr((id(node), sorted(config.items())))
        if key not in self._nodes or self._nodes[key].death():
            self._nodes[key] = self._stack.enter_context(started(node, **config))
        return self._nodes[key]


def client(tester: Tester, launched: Callable[..., Node], **config: Any) -> Node:
    """Launches the node as a client of ours that takes links too, since others have no reason to answer SCOUT.

    Raises:
        NotApplicable: The node cannot be one, or a client of its kind answers no SCOUT.
    """
    listener = tester.listen()
    connect = {"connect/endpoints": [str(listener.locator)]}
    node = launched(**private_scouting(), mode="client", **connect, **config)
    node.whatami = "client"
    try:
        listener.accept(START_SECONDS).serve()
    except Unmet:
        raise NotApplicable("the node does not become a client of ours") from None
    # It hears SCOUTs some time after it has connected.
    end = tester.scout(hearing_of(node))
    for _ in range(CLIENT_SCOUTS):
        end.scout()
        if end.wait(lambda: end.last(Hello) is not None, tester.reply / CLIENT_SCOUTS):
            return node
    raise NotApplicable("a client of this kind answers no SCOUT")


# The node asks -----------------------------------------------------------------------------------------


@dataclass
class Watch:
    """A node that was launched with nobody to connect to, and an end of ours that hears its SCOUTs.

    Attributes:
        responder: Hears the SCOUTs, and answers when a test wants it.
        first: The first SCOUT.
        role: The node's role.
    """

    tester: Tester
    responder: ResponderEnd
    first: Scout
    role: str

    def scouts(self) -> int:
        """Returns how many SCOUTs came."""
        return sum(isinstance(seen.message, Scout) for seen in self.responder.inbox)

    def next_scout(self, within: float) -> bool:
        """Waits for one more SCOUT; tells whether it came."""
        before = self.scouts()
        return self.responder.wait(lambda: self.scouts() > before, within)


ROLES: dict[str, dict[str, Any]] = {
    "client": {},
    # Not every peer looks for others by itself.
    "peer": {"scouting/multicast/autoconnect": {"router": [], "peer": ["router", "peer"]}},
}
"""Roles in which a node scouts, and what else it needs."""


@contextlib.contextmanager
def watching(
    tester: Tester,
    launched: Callable[..., Node],
    group: dict[str, Any] | None = None,
    *,
    unless: Callable[[], object] = lambda: None,
) -> Iterator[Watch]:
    """Launches the node as a client, or as a peer if it cannot be one, waits for its first SCOUT, and ends it later.

    Args:
        tester: Watches.
        launched: The fixture.
        group: Configuration of the group in which the node scouts; one of its own when None.
        unless: A condition under which no SCOUT is waited for any more.

    Raises:
        NotApplicable: The node cannot be launched so, or does not scout.
    """
    group = group or private_scouting()
    responder = tester.responder(group_of(group))
    node, role = seeker(launched, {**group, "listen/endpoints": [], "scouting/timeout": PATIENCE_MS})
    try:
        responder.wait(lambda: bool(responder.last(Scout) or unless()), START_SECONDS)
        if not responder.last(Scout):
            raise NotApplicable("the node sends no SCOUT to the group")
        yield Watch(tester, responder, responder.expect(Scout), role)
    finally:
        # A client that still looks for others is deaf to a polite request.
        node.kill()


def group_of(config: dict[str, Any]) -> Locator:
    """Returns the group of a configuration of scouting."""
    where = scouting_of(config)
    assert where is not None
    return where


def seeker(launched: Callable[..., Node], config: dict[str, Any]) -> tuple[Node, str]:
    """Launches the node in the first role that it can have; returns the node and its role.

    Raises:
        NotApplicable: It can have none of them.
    """
    reason = NotApplicable("there is no role in which the node would scout")
    for role, more in ROLES.items():
        try:
            return launched(mode=role, **config, **more), role
        except NotApplicable as error:
            reason = error
    raise reason


def words_of_bitmap(what: int) -> str:
    """Returns a bitmap of SCOUT in words: ``router, client``."""
    return ", ".join(role.name.lower() for role in WhatAmI if what >> role & 1) or "nobody"
