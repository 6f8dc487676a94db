"""A stream into batches, a batch into messages. Incremental; never raises for what the bytes are."""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from dataclasses import dataclass

import scapy_layers.scouting
import scapy_layers.transport  # noqa: F401  (messages are chosen by id: their classes must be there)
from scapy_layers.codes import Kind, TransportId
from scapy_layers.errors import Overlong, UnknownMessage, WireError
from scapy_layers.fields import Messages
from scapy_layers.message import Layer, Message, kind_of, message_class
from scapy_layers.primitives import Reader
from scapy_layers.reading import Findings

PREFIX = 2
"""Bytes of the length in front of a batch on stream links (u16, low byte first)."""

LONG_PREFIX = 4
"""Bytes of the length in low-latency sessions after OPEN (u32, low byte first)."""

MAX_BATCH = 0xFFFF
"""Largest length that the prefix can say; it does not count itself."""


class Batch(Layer):
    """A whole batch as one Scapy layer: what a datagram of a session link holds."""

    name = "batch"
    fields_desc = [Messages("messages", TransportId)]

    def dissect_from(self, reader: Reader, errors: Findings) -> None:
        """Reads messages until one cannot be taken apart; an id of no transport message is refused."""
        super().dissect_from(reader, errors)
        if reader.left:
            error = UnknownMessage("messages", _unknown(Kind.TRANSPORT, reader.peek()), reader.at)
            self._stop(error, reader, errors)


def _unknown(kind: Kind, header: int) -> str:
    return f"id {header & 0x1F:#04x} is no {kind.name.lower()} message"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a batch holds.

    Attributes:
        messages: The messages, in order; the last one may be cut or refused.
        error: The first thing a strict decoder refuses, or None.
        rest: Bytes that belong to no message.
    """

    messages: tuple[Message, ...]
    error: WireError | None = None
    rest: bytes = b""

    @property
    def names(self) -> str:
        """The names of all messages, outermost first, joined by spaces."""
        return " ".join(name for message in self.messages for name in _names(message))


def _names(message: Message) -> list[str]:
    names = [str(message.name)]
    for field_ in message.packetfields:
        value = message.getfieldval(field_.name)
        inside = value if isinstance(value, list) else [value]
        names += [name for item in inside if isinstance(item, Message) for name in _names(item)]
    return names


def contents(raw: bytes, kind: Kind | None = None) -> Contents:
    """Takes a batch or datagram apart, tolerantly.

    Args:
        raw: Its bytes, without a length prefix.
        kind: SCOUTING for the datagrams of scouting; None for what travels on a link.
    """
    reader = Reader(raw)
    messages: list[Message] = []
    while reader.left:
        number = reader.peek() & 0x1F
        layer = kind_of(number) if kind is None else kind
        cls = message_class(layer, number)
        if cls is None:
            error = UnknownMessage("header", _unknown(layer, number), reader.at)
            return Contents(tuple(messages), error, reader.rest())
        messages.append(cls.read(reader))
        if messages[-1].errors:
            refused = messages[-1].errors[0].within(str(messages[-1].name))
            return Contents(tuple(messages), refused, reader.rest())
    return Contents(tuple(messages))


def prefixed(raw: bytes, length: int | None = None) -> bytes:
    """Returns a batch as it travels on a stream link.

    Args:
        raw: The batch.
        length: What the prefix says; the truth when None.

    Raises:
        ValueError: The batch is larger than a prefix can say.
    """
    said = len(raw) if length is None else length
    if not 0 <= said <= MAX_BATCH:
        raise ValueError(f"a batch of {said} bytes, the length prefix can say at most {MAX_BATCH}")
    return said.to_bytes(PREFIX, "little") + raw


@dataclass(slots=True)
class BatchReader:
    """Cuts a stream into batches, however its bytes arrive.

    Attributes:
        prefix: Bytes of the length: 2, or 4 on low-latency sessions (then at most ``limit``).
        limit: Largest batch taken with a 4-byte prefix; memory is bounded by it.
    """

    prefix: int = PREFIX
    limit: int = MAX_BATCH
    _buffer: bytes | bytearray = b""
    _at: int = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes bytes of the stream, returns the batches they complete.

        Raises:
            Overlong: The next prefix says more than ``limit``. Batches in front of it are returned first;
                the call after that raises, and so does every later one.
        """
        self.add(data)
        batches: list[bytes] = []
        try:
            while (batch := self.take()) is not None:
                batches.append(batch)
        except Overlong:
            if not batches:
                raise
        return batches

    def add(self, data: bytes) -> None:
        """Takes bytes of the stream; ``take`` hands out what they complete."""
        buffer, at = self._buffer, self._at
        if at >= len(buffer):
            # Most often a piece of the stream is whole batches: then nothing is copied but the batches.
            self._buffer, self._at = bytes(data), 0
            return
        if isinstance(buffer, bytearray):
            del buffer[:at]
        else:
            self._buffer = buffer = bytearray(memoryview(buffer)[at:])
        buffer += data
        self._at = 0

    def take(self) -> bytes | None:
        """Returns the next batch that is complete, or None. ``prefix`` may be changed between two calls.

        Raises:
            Overlong: The next prefix says more than ``limit``; so does every later call.
        """
        buffer, at = self._buffer, self._at
        start = at + self.prefix
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[at:start], "little")
        if size > self.limit:
            raise Overlong("batch length", f"{size} bytes, at most {self.limit}")
        end = start + size
        if len(buffer) < end:
            return None
        if end == len(buffer):
            self._buffer, self._at = b"", 0
        else:
            self._at = end
        return bytes(buffer[start:end])

    @property
    def pending(self) -> bytes:
        """Bytes of a batch that is not complete yet, its prefix included."""
        return bytes(self._buffer[self._at :])
