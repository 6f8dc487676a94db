"""What was seen, when, with the raw bytes: the record that every judgement is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scapy_layers.batch import Contents, contents
from scapy_layers.codes import Kind
from scapy_layers.message import Message


class Direction(StrEnum):
    """Which way it went, as seen from us."""

    SENT = "sent"
    RECEIVED = "received"
    OPENED = "opened"
    ENDED = "ended"


Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of a link, for the capture.

    Attributes:
        local: Host and port of our end.
        remote: Host and port of the node's end.
        proto: How it travels: ``tcp``, ``tls``, ``udp``, ``ws``, ``unixsock-stream``.
        accepted: The other end made the link.
        path: Of a Unix socket, whose ends have made-up addresses here.
    """

    local: Address
    remote: Address
    proto: str = "tcp"
    accepted: bool = False
    path: str = ""

    @property
    def remark(self) -> str:
        """What a capture cannot show by itself."""
        if self.proto == "tls":
            return "over TLS; decrypted: the batches as they were inside"
        if self.path:
            return f"over the Unix socket {self.path}; addresses are made up"
        return ""


@dataclass(slots=True, eq=False)
class Observation:
    """One thing seen on a link. Nobody changes it.

    Attributes:
        seq: Position in the history, from 0.
        time_ns: Unix time in ns.
        link: Name of the link.
        direction: Which way.
        raw: The bytes as they travelled, length prefix or frame included; empty for OPENED and ENDED, and
            where no history is kept.
        batch: The bytes without the prefix; empty when they are no batch.
        note: How the link ended; what the stimulus was.
        plain: The batch before compression, or after it was taken off; None when it travelled like that.
        kind: SCOUTING for the datagrams of scouting.
        route: From and to whom it travelled, where the link has more than two ends.
        carried: Bytes that went over the link before, sent and received; None when all of them are in the history.
    """

    seq: int
    time_ns: int
    link: str
    direction: Direction
    raw: bytes = b""
    batch: bytes = b""
    note: str = ""
    plain: bytes | None = None
    kind: Kind | None = None
    route: tuple[Address, Address] | None = None
    carried: tuple[int, int] | None = None
    _inside: Contents | None = None
    _said: str | None = None

    @property
    def contents(self) -> Contents:
        """The batch taken apart, once; for bytes that are no batch, everything is ``rest``."""
        if self._inside is None:
            self._inside = contents(self.batch if self.plain is None else self.plain, self.kind)
        return self._inside

    def describe(self) -> str:
        """Returns one line, made once: the messages, or what else happened."""
        if self._said is None:
            self._said = self._line()
        return self._said

    def _line(self) -> str:
        if self.direction in {Direction.OPENED, Direction.ENDED}:
            return self.note
        parts = [message.describe() for message in self.contents.messages]
        if self.contents.rest:
            which = f" ({self.note})" if self.note and not self.batch else ""
            parts.append(f"{len(self.contents.rest)} bytes that are no message{which}")
        # A batch that has neither messages nor a rest was not looked into.
        return (
            "; ".join(parts)
            or f"{len(self.raw)} bytes{', not taken apart' if self.batch else ' without a message'}"
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that was received, however deep it was packed.

    Attributes:
        message: The message.
        carrier: The FRAME it came in; None for a transport message.
        at: Position of its observation in the history.
        time_ns: Unix time in ns.
        batch_size: Bytes of the batch it came in, without the prefix.
    """

    message: Message
    carrier: Message | None
    at: int
    time_ns: int
    batch_size: int


class History:
    """The ordered observations of one test or fuzz case.

    Attributes:
        observations: In their order.
        endpoints: Of each link by its name.
        given_up: Sessions that our own end gave up because of what the node sent, by link, and why. What is seen of
            such a link from there on, above all its end, is not the node's doing.
        neglected: Sessions in which our end was kept from sending anything for a whole lease, by link, and the
            seconds. The node may end them.
    """

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.endpoints: dict[str, Endpoints] = {}
        self.given_up: dict[str, str] = {}
        self.neglected: dict[str, float] = {}
        self._notes: dict[int, list[str]] = {}

    def add(
        self,
        time_ns: int,
        link: str,
        direction: Direction,
        raw: bytes = b"",
        batch: bytes | None = None,
        note: str = "",
        *,
        plain: bytes | None = None,
        inside: Contents | None = None,
        kind: Kind | None = None,
        route: tuple[Address, Address] | None = None,
        carried: tuple[int, int] | None = None,
    ) -> Observation:
        """Records one observation and returns it.

        Args:
            time_ns: Unix time in ns.
            link: Name of the link.
            direction: Which way.
            raw: Bytes as they travelled.
            batch: Bytes without prefix; None when ``raw`` is no batch.
            note: See Observation.
            plain: See Observation.
            inside: The batch taken apart, when that was done before.
            kind: See Observation.
            route: See Observation.
            carried: See Observation.
        """
        if batch is None:
            batch, inside = b"", Contents((), None, raw)
        seen = Observation(
            len(self.observations),
            time_ns,
            link,
            direction,
            raw,
            batch,
            note,
            plain,
            kind,
            route,
            carried,
            inside,
        )
        self.observations.append(seen)
        return seen

    def annotate(self, text: str, at: int | None = None) -> None:
        """Attaches a remark (an expectation, a verdict) to an observation; to the last one when None."""
        if self.observations:
            self._notes.setdefault(len(self.observations) - 1 if at is None else at, []).append(text)

    def give_up(self, link: str, why: str) -> None:
        """Records that our end gives a session up because of what came last."""
        self.given_up.setdefault(link, why)
        self.annotate(f"our end gives up session {link}: {why}")

    def neglect(self, link: str, seconds: float) -> None:
        """Records that our end was kept from sending anything for so long."""
        if link not in self.neglected:
            self.annotate(f"our end was kept from sending anything in session {link} for {seconds:.1f} s")
        self.neglected[link] = max(seconds, self.neglected.get(link, 0.0))

    def notes(self, seq: int) -> list[str]:
        """Returns the remarks on an observation."""
        return self._notes.get(seq, [])

    def received(self, link: str, since: int = 0) -> Iterator[Seen]:
        """Yields what came in on a link from a position of the history on, inner messages after the FRAME."""
        for seen in self.observations[since:]:
            if seen.link == link and seen.direction is Direction.RECEIVED:
                for message in seen.contents.messages:
                    yield Seen(message, None, seen.seq, seen.time_ns, len(seen.batch))
                    if message.name == "FRAME":
                        for inner in message.fields.get("messages", []):
                            yield Seen(inner, message, seen.seq, seen.time_ns, len(seen.batch))

    def ended(self, link: str) -> Observation | None:
        """Returns how a link ended; None while it lives."""
        for seen in self.observations:
            if seen.link == link and seen.direction is Direction.ENDED:
                return seen
        return None

    def last_stimulus(self) -> str:
        """Returns the last thing we sent, in words."""
        for seen in reversed(self.observations):
            if seen.direction is Direction.SENT:
                return seen.describe()
        return ""
