"""The invariant: any bytes are understood or refused with a WireError, and what was read builds again.

``CaptureError`` is the capture file's own refusal; nothing else may come out. What was read shows itself and builds
the same bytes again.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from scapy_layers import capture, stream
from scapy_layers.batch import Batch, Contents, contents, prefixed
from scapy_layers.capture import CaptureError
from scapy_layers.catalogue import Form, decode_as
from scapy_layers.codes import Kind
from scapy_layers.conversation import listen
from scapy_layers.errors import WireError
from scapy_layers.ip import Segment, join_ends
from scapy_layers.message import Message
from scapy_layers.present import as_data
from scapy_layers.transport import Init, Open

A, B = bytes((127, 0, 0, 1)), bytes((127, 0, 0, 2))
PORTS = (40_000, 7447)

SHOWN = 8192
"""More bytes are not shown: Scapy takes a tenth of a millisecond for each layer, and there may be one for each byte."""

FORMS = tuple(Form)
KINDS = (Kind.NETWORK, Kind.SCOUTING, None)


@dataclass(frozen=True, slots=True)
class Target:
    """One reader.

    Attributes:
        read: What is under test: takes bytes, may raise what ``refuses`` says; its time counts.
        check: What must hold of its result.
        refuses: How it refuses bytes.
    """

    read: Callable[[bytes], Any]
    check: Callable[[bytes, Any], None]
    refuses: tuple[type[Exception], ...] = ()

    def __call__(self, raw: bytes) -> float:
        """Reads and checks; returns the CPU time of reading in ms."""
        start = time.process_time()
        try:
            result = self.read(raw)
        except self.refuses as error:
            result = error
        spent = (time.process_time() - start) * 1000
        self.check(raw, result)
        return spent


def _form(raw: bytes) -> Form:
    """Chooses what the bytes are taken for; each form gets its share."""
    return FORMS[crc32(raw) % len(FORMS)]


def _strictly(raw: bytes) -> list[Message]:
    return decode_as(_form(raw), raw)


def _is_exact(raw: bytes, result: list[Message] | WireError) -> None:
    if isinstance(result, WireError):
        assert 0 <= result.offset <= len(raw), result
        assert result.field
    elif _form(raw) in {Form.BATCH, Form.TRANSPORT, Form.NETWORK}:
        assert b"".join(bytes(message) for message in result) == raw


def _tolerantly(raw: bytes) -> tuple[Batch, Contents]:
    return Batch(raw), contents(raw, KINDS[crc32(raw) % len(KINDS)])


def _is_kept(raw: bytes, result: tuple[Batch, Contents]) -> None:
    batch, found = result
    assert bytes(batch) == raw
    assert b"".join(bytes(message) for message in found.messages) + found.rest == raw
    if len(raw) <= SHOWN:
        batch.show(dump=True)
    json.dumps(as_data(batch))
    for message in found.messages:
        message.describe()


def _reassembled(raw: bytes) -> int:
    found = sum(1 for _ in stream.units(_segments(raw)))
    return found + sum(1 for _ in stream.units(capture.read(io.BytesIO(raw))))


def _overheard(raw: bytes) -> list[object]:
    return list(listen(_session(raw)))


def _is_whole(raw: bytes, result: list[object]) -> None:
    # The session opened as it should, whatever came then.
    assert len(result) >= len(OPENING), raw


def _anything(raw: bytes, result: object) -> None:
    """Nothing is expected but that it ended."""


TARGETS = {
    "strict": Target(_strictly, _is_exact, (WireError,)),
    "tolerant": Target(_tolerantly, _is_kept),
    "reassembler": Target(_reassembled, _anything, (CaptureError,)),
    "conversation": Target(_overheard, _is_whole),
}


def _segment(number: int, forward: bool, seq: int, flags: int, data: bytes, ack: int = 0) -> Segment:
    ends = join_ends(A, B, *PORTS) if forward else join_ends(B, A, *reversed(PORTS))
    return Segment(number, number * 1000, True, ends, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, flags, data, 0)


def _segments(raw: bytes) -> Iterator[Segment]:
    """Makes segments of bytes: a header of four says where each stands, how long it is, and its flags."""
    at = number = 0
    while at + 4 <= len(raw):
        offset, size, flags = struct.unpack_from("<HBB", raw, at)
        at += 4
        number += 1
        yield _segment(number, not flags & 0x80, offset - 0x4000, flags & 0x17, raw[at : at + size], offset)
        at += size


ZIDS = (b"\x01" * 16, b"\x02" * 16)

OPENING: tuple[tuple[bool, bytes], ...] = (
    (True, bytes(Init(zid=ZIDS[0]))),
    (False, bytes(Init(A=1, zid=ZIDS[1], cookie=b"c"))),
    (True, bytes(Open(lease=10_000, initial_sn=0, cookie=b"c"))),
    (False, bytes(Open(A=1, lease=10_000, initial_sn=0))),
)


def _session(raw: bytes) -> Iterator[Segment]:
    seqs = {True: 1, False: 1}
    yield _segment(1, True, 0, 0x02, b"")
    yield _segment(2, False, 0, 0x12, b"", 1)
    half = len(raw) // 2
    later = [(True, raw), (False, raw[half:]), (True, raw[:half])]
    for number, (forward, batch) in enumerate([*OPENING, *later], 3):
        data = prefixed(batch[:0xFFFF])
        yield _segment(number, forward, seqs[forward], 0x10, data, seqs[not forward])
        seqs[forward] += len(data)
    for forward in (True, False):
        yield _segment(99, forward, seqs[forward], 0x11, b"")
