"""What all links of a node share."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from conformance.link import Links
from conformance.refnode.counters import Counters
from conformance.refnode.mutants import CORRECT, Mutant
from conformance.refnode.policy import NodePolicy
from conformance.refnode.settings import NodeConfig
from conformance.router import Face, Outgoing, Router
from conformance.session.policy import Policy
from conformance.session.registry import Registry
from conformance.session.rsa import PrivateKey
from scapy_layers.message import Message

log = logging.getLogger("conformance.refnode")
"""Where a node says what it does: why a link was closed, above all."""


class Mouth(Protocol):
    """Whoever sends what the router gives for a face."""

    def post(self, out: Outgoing) -> None:
        """Queues a network message."""

    def flush(self, now: float) -> None:
        """Hands what is queued to the link."""


class Fellow(Mouth, Protocol):
    """One of the links of a session.

    Attributes:
        route: The face that they share.
    """

    route: Face

    def follow(self, why: str) -> None:
        """Ends because the session does."""


@dataclass(slots=True)
class Core:
    """What all links of a node share.

    Attributes:
        config: What the node is.
        links: Sockets, timers and the loop.
        router: Where network messages go.
        registry: Which nodes have a session.
        rng: Random choices.
        clock: Seconds of a monotonic clock.
        mutant: The rules that are broken; none in a correct node.
        sessions: What sessions decide; one for all.
        decisions: What the node decides about links.
        counters: What happened so far.
        mouths: Who sends for a face of the router.
        dirty: Those that may have something to send at the end of this turn of the loop.
        unfinished: Those that have more to send than one turn takes.
        bundles: By ZenohID the links of each session, the oldest first.
        key: With which the links of one session show that they belong together; None where each has one.
    """

    config: NodeConfig
    links: Links
    router: Router
    registry: Registry
    rng: random.Random
    clock: Callable[[], float]
    mutant: Mutant = CORRECT
    sessions: Policy = field(init=False)
    decisions: NodePolicy = field(init=False)
    counters: Counters = field(default_factory=Counters)
    mouths: dict[Face, Mouth] = field(default_factory=dict)
    dirty: dict[Face, Mouth] = field(default_factory=dict)
    unfinished: dict[Face, Mouth] = field(default_factory=dict)
    bundles: dict[bytes, list[Fellow]] = field(default_factory=dict)
    key: PrivateKey | None = None
    _faces: int = 0
    _built: Message | None = None
    _raw: bytes = b""

    def __post_init__(self) -> None:
        self.sessions = self.mutant.session()
        self.decisions = self.mutant.node()

    def face(self) -> Face:
        """Returns a number for a face that no other ever had."""
        self._faces += 1
        return Face(self._faces)

    def turn(self) -> None:
        """Sends what this turn of the loop has brought about, many messages of a face together."""
        self.dirty |= self.unfinished
        self.unfinished = {}
        while True:
            while outgoing := self.router.take():
                self.deliver(outgoing)
            if not self.dirty:
                return
            dirty, self.dirty = self.dirty, {}
            now = self.clock()
            for mouth in dirty.values():
                mouth.flush(now)

    def deliver(self, outgoing: Iterable[Outgoing]) -> None:
        """Queues what the router gives at those who send it."""
        mouths = self.mouths
        for out in outgoing:
            mouth = mouths.get(out.face)
            if mouth is not None:
                mouth.post(out)

    def encoded(self, message: Message) -> bytes:
        """Returns the bytes of a message; one that goes to many faces, which comes in a row, is built once."""
        if message is not self._built:
            self._raw = bytes(message)
            self._built = message
        return self._raw
