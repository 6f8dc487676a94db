"""What was seen, when, with the raw bytes: the record that every judgement is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from scapy_layers.batch import Contents, contents
from scapy_layers.message import Message


class Direction(StrEnum):
    """Which way it went, as seen from us."""

    SENT = "sent"
    RECEIVED = "received"
    OPENED = "opened"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of a link, for the capture.

    Attributes:
        local: Host and port of our end.
        remote: Host and port of the node's end.
    """

    local: tuple[str, int]
    remote: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing seen on a link.

    Attributes:
        seq: Position in the history, from 0.
        time_ns: Unix time in ns.
        link: Name of the link.
        direction: Which way.
        raw: The bytes as they travelled, length prefix included; empty for OPENED and ENDED.
        batch: The bytes without the prefix.
        contents: The batch taken apart; for bytes that are no batch, everything is ``rest``.
        note: How the link ended; what the stimulus was.
    """

    seq: int
    time_ns: int
    link: str
    direction: Direction
    raw: bytes = b""
    batch: bytes = b""
    contents: Contents = field(default_factory=lambda: Contents(()))
    note: str = ""

    def describe(self) -> str:
        """Returns one line: the messages, or what else happened."""
        if self.direction in {Direction.OPENED, Direction.ENDED}:
            return self.note
        parts = [message.describe() for message in self.contents.messages]
        if self.contents.rest:
            parts.append(f"{len(self.contents.rest)} bytes that are no message")
        return "; ".join(parts) or f"{len(self.raw)} bytes without a message"


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
    """The ordered observations of one test or fuzz case."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.endpoints: dict[str, Endpoints] = {}
        self._notes: list[tuple[int, str]] = []

    def add(
        self,
        time_ns: int,
        link: str,
        direction: Direction,
        raw: bytes = b"",
        batch: bytes | None = None,
        note: str = "",
    ) -> Observation:
        """Records one observation and returns it.

        Args:
            time_ns: Unix time in ns.
            link: Name of the link.
            direction: Which way.
            raw: Bytes as they travelled.
            batch: Bytes without prefix; None when ``raw`` is no batch.
            note: See Observation.
        """
        inside = Contents((), None, raw) if batch is None else contents(batch)
        seen = Observation(len(self.observations), time_ns, link, direction, raw, batch or b"", inside, note)
        self.observations.append(seen)
        return seen

    def annotate(self, text: str, at: int | None = None) -> None:
        """Attaches a remark (an expectation, a verdict) to an observation; to the last one when None."""
        if self.observations:
            self._notes.append((len(self.observations) - 1 if at is None else at, text))

    def notes(self, seq: int) -> list[str]:
        """Returns the remarks on an observation."""
        return [text for at, text in self._notes if at == seq]

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
