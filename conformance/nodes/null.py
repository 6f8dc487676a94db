"""Nodes that are none: ``--node null:KIND``. A suite that passes anything on them proves nothing.

========  ============================================================================================
closed    a port at which nobody listens
silent    takes links and says nothing
echo      says what it hears
noise     answers with random bytes
replay    answers the n-th batch with what a correct node answered to the n-th batch, once
yes       says yes to everything: to every INIT, every OPEN, every query and interest
========  ============================================================================================

Scouting is treated in the same way, where there is something to say.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable

from conformance.config import PROTOCOLS, Locator, Tls
from conformance.errors import UsageError
from conformance.link import Link, Links
from conformance.link.group import Datagrams
from conformance.nodes.child import private_scouting, scouting_of
from conformance.nodes.foreign import ForeignNode
from conformance.nodes.places import HOST, Places
from conformance.nodes.transcript import Transcript, record
from conformance.nodes.yes import Yes, hello
from conformance.observe import Address, Observation
from scapy_layers.codes import Kind

TURN_SECONDS = 3600.0
"""The loop is entered anew after this; nothing hangs on it."""

LONGEST_NOISE = 64
"""Bytes of an answer that is noise."""

Answer = Callable[[bytes], list[bytes]]
"""Takes a batch; returns batches."""


class _Kind:
    """How a node that is none behaves: here it says nothing.

    Args:
        rng: Of all random choices.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def answer(self) -> Answer:
        """Returns what answers the batches of a new link."""
        return lambda _: []

    def scouted(self, datagram: bytes) -> bytes:  # noqa: ARG002  (others look at it)
        """Returns what is said to whoever scouts."""
        return b""


class _Echo(_Kind):
    def answer(self) -> Answer:
        return lambda batch: [batch]

    def scouted(self, datagram: bytes) -> bytes:
        return datagram


class _Noise(_Kind):
    def answer(self) -> Answer:
        return lambda batch: [self.scouted(batch)]

    def scouted(self, datagram: bytes) -> bytes:
        return self.rng.randbytes(self.rng.randrange(1, max(2, min(len(datagram) * 2, LONGEST_NOISE))))


class _Replay(_Kind):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._transcript: Transcript = record(rng)

    def answer(self) -> Answer:
        numbers = iter(self._transcript.answers)
        return lambda _: list(next(numbers, ()))

    def scouted(self, datagram: bytes) -> bytes:  # noqa: ARG002  (the same to everybody)
        return self._transcript.hello


class _Yes(_Kind):
    def answer(self) -> Answer:
        return Yes(self.rng).answer

    def scouted(self, datagram: bytes) -> bytes:
        return hello(datagram)


KINDS: dict[str, type[_Kind]] = {
    "closed": _Kind,
    "silent": _Kind,
    "echo": _Echo,
    "noise": _Noise,
    "replay": _Replay,
    "yes": _Yes,
}
"""By name."""


class NullNode(ForeignNode):
    """Something that is no node, in a thread of this process.

    Args:
        kind: One of ``KINDS``.
        seed: Of all random choices.
        transports: What it listens on.
        tls: Certificates for links over TLS.

    Raises:
        UsageError: There is no such kind.
    """

    owned = True

    def __init__(
        self, kind: str, seed: int = 0, *, transports: tuple[str, ...] = ("tcp",), tls: Tls | None = None
    ) -> None:
        if kind not in KINDS:
            raise UsageError(f"--node null:{kind}: no such kind; the kinds are {', '.join(KINDS)}")
        self.kind = kind
        self.impl = f"null:{kind}"
        self.version = "0"
        self.tls = tls
        self.scouting = scouting_of(private_scouting())
        # What it says it is; a run that does not look at its node would not learn it.
        self.whatami = "router"
        self._rng = random.Random(seed)
        self._places = Places(transports)
        self._reserved: list[socket.socket] = []
        self._links: Links | None = None
        self._thread: threading.Thread | None = None
        self._over = False

    def start(self) -> None:
        """Begins to listen, if it does at all."""
        self.stop()
        self.starts += 1
        if self.kind == "closed":
            self._reserve()
            return
        behaviour = KINDS[self.kind](self._rng)
        self._over = False
        self._links = links = Links(None, self.tls)

        def arrived(link: Link) -> None:
            answer = behaviour.answer()

            def on_batch(seen: Observation) -> None:
                for batch in answer(seen.batch):
                    link.send(batch)

            link.on_batch = on_batch

        found = [
            links.listen(Locator.parse(where, listening=True), arrived) for where in self._places.endpoints()
        ]
        self._locators = {listener.locator.proto: listener.locator for listener in found}
        self.locator = self._locators["tcp"]
        assert self.scouting is not None
        group = links.datagrams(self.scouting, "scouting", group=True, kind=Kind.SCOUTING)
        group.on_datagram = _scouted(group, behaviour)
        self._thread = threading.Thread(target=self._serve, args=(links,), name=self.impl, daemon=True)
        self._thread.start()

    def _serve(self, links: Links) -> None:
        while not links.wait(lambda: self._over, TURN_SECONDS):
            pass
        links.close()

    def _reserve(self) -> None:
        """Keeps a port to itself, so that nobody else listens there."""
        self._reserved = [socket.socket()]
        self._reserved[0].bind((HOST, 0))
        port = self._reserved[0].getsockname()[1]
        self.locator = Locator("tcp", HOST, port)
        self._locators = {
            proto: Locator(proto, HOST, port) for proto in PROTOCOLS if proto in self._places.transports
        }

    def stop(self) -> None:
        """Ends the thread."""
        thread, self._thread = self._thread, None
        if thread is not None and self._links is not None:
            self._over = True
            self._links.wake()
            thread.join()
        for kept in self._reserved:
            kept.close()
        self._reserved.clear()
        self._places.clear()

    def death(self) -> str:
        """It cannot die."""
        return ""

    def complaints(self) -> str:
        """It never complains."""
        return ""


def _scouted(group: Datagrams, behaviour: _Kind) -> Callable[[Observation, Address], None]:
    def on_datagram(seen: Observation, source: Address) -> None:
        answer = behaviour.scouted(seen.batch)
        if answer:
            group.send_to(answer, source)

    return on_datagram
