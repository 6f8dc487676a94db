"""WebSocket as Zenoh links use it: the HTTP upgrade, then binary messages.

Spec: RFC 6455. Extensions are not understood; Zenoh nodes offer none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

MAX_HEADER = 16 << 10
"""Bytes of the HTTP header that are waited for."""

REQUEST = b"GET "
RESPONSE = b"HTTP/1.1 101"
_MINOR = 7
"""Where the minor version stands in it, which may be any."""

_UPGRADE = re.compile(rb"^upgrade:[^\r\n]*\bwebsocket\b", re.IGNORECASE | re.MULTILINE)
_EXTENSIONS = re.compile(rb"^sec-websocket-extensions:[ \t]*[^\r\n \t]", re.IGNORECASE | re.MULTILINE)


class Answer(Enum):
    """What the first bytes of a direction are."""

    MORE = "the header is not complete"
    YES = "an upgrade to WebSocket"
    NO = "something else"


def upgrade(data: bytes | bytearray, *, expected: bool = False) -> tuple[Answer, int]:
    """Tells whether a direction begins with an upgrade to WebSocket, and where the frames begin.

    A response that agrees to extensions (compression) is NO: its frames cannot be read.

    Args:
        data: What it begins with.
        expected: Any request is one: what it asks for may be written in another way, and its answer tells.
    """
    head = bytes(data[: len(RESPONSE)])
    if len(head) > _MINOR and head.startswith(RESPONSE[:_MINOR]):
        head = RESPONSE[: _MINOR + 1] + head[_MINOR + 1 :]
    start = next((start for start in (REQUEST, RESPONSE) if head.startswith(start[: len(head)])), None)
    if start is None:
        return Answer.NO, 0
    end = data.find(b"\r\n\r\n", 0, MAX_HEADER)
    if end < 0:
        return (Answer.MORE if len(data) < MAX_HEADER else Answer.NO), 0
    if expected and start == REQUEST:
        return Answer.YES, end + 4
    fields = bytes(data[: end + 2])
    if not _UPGRADE.search(fields) or (start == RESPONSE and _EXTENSIONS.search(fields)):
        return Answer.NO, 0
    return Answer.YES, end + 4


class Opcode:
    """RFC 6455, section 5.2."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


_OPCODES = frozenset({0, 1, 2, 8, 9, 10})
_CONTROL = 8
_FIN = 0x80
_RESERVED = 0x70
_MASKED = 0x80


class Frame(NamedTuple):
    """The header of a frame: its payload is ``data[start:end]``, to be combined with ``mask`` unless empty."""

    first: int
    start: int
    end: int
    mask: bytes


def frame(data: bytes | bytearray, at: int) -> Frame | None:
    """Reads the header of a frame; None when it is not complete.

    Raises:
        ValueError: No frame looks like that.
    """
    if at + 2 > len(data):
        return None
    first, size = data[at], data[at + 1] & 0x7F
    opcode = first & 0x0F
    if first & _RESERVED or opcode not in _OPCODES:
        raise ValueError(f"{first:#04x} begins no frame")
    if opcode & _CONTROL and (size > 125 or not first & _FIN):
        raise ValueError("a control frame that is long or in pieces")
    masked = data[at + 1] & _MASKED
    at += 2
    if size >= 126:
        wide = 2 if size == 126 else 8
        if at + wide > len(data):
            return None
        size = int.from_bytes(data[at : at + wide], "big")
        at += wide
    if not masked:
        return Frame(first, at, at + size, b"")
    if at + 4 > len(data):
        return None
    return Frame(first, at + 4, at + 4 + size, bytes(data[at : at + 4]))


def unmask(data: bytes, mask: bytes) -> bytes:
    """Combines a payload with the mask of its frame; the same again takes the mask away."""
    if not mask:
        return data
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


@dataclass(slots=True)
class Messages:
    """Puts the messages of one direction together.

    Attributes:
        limit: Largest message in bytes.
    """

    limit: int
    _parts: list[bytes] = field(default_factory=list)
    _binary: bool = False
    _open: bool = False

    @property
    def held(self) -> int:
        """Bytes of the message that is not complete."""
        return sum(map(len, self._parts))

    def take(self, data: bytearray) -> tuple[int, bytes | None] | None:
        """Reads one frame from the beginning of the data.

        Returns:
            How many bytes it takes, and the binary message that it completes, if any. None when it is not complete.

        Raises:
            ValueError: No frame, one out of place, or a message above the limit.
        """
        found = frame(data, 0)
        if found is None:
            return None
        first, start, end, mask = found
        if end - start > self.limit:
            raise ValueError(f"a frame of {end - start} bytes, at most {self.limit}")
        if end > len(data):
            return None
        opcode = first & 0x0F
        if opcode & _CONTROL:
            return end, None
        if self._open != (opcode == Opcode.CONTINUATION):
            raise ValueError("a frame out of place")
        if opcode != Opcode.CONTINUATION:
            self._binary = opcode == Opcode.BINARY
        if self._binary:
            self._parts.append(unmask(bytes(data[start:end]), mask))
        self._open = not first & _FIN
        if self._open:
            if len(self._parts) % 64 == 0 and self.held > self.limit:
                raise ValueError(f"a message above {self.limit} bytes")
            return end, None
        message = b"".join(self._parts) if self._binary else None
        self._parts.clear()
        return end, message
