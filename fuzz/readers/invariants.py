"""The invariant: any bytes are understood or refused with a WireError, and what was read builds again.

``CaptureError`` is the capture file's own refusal; nothing else may come out. What was read shows itself and builds
the same bytes again.
"""

from __future__ import annotations

import io
import json
import random
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

from fuzz.readers.carry import Packets
from scapy_layers import capture, stream
from scapy_layers.batch import Batch, Contents, contents, prefixed
from scapy_layers.capture import CaptureError
from scapy_layers.catalogue import Form, decode_as
from scapy_layers.codes import Kind
from scapy_layers.conversation import Conversations, Heard, listen
from scapy_layers.conversation.identify import is_batch
from scapy_layers.errors import WireError
from scapy_layers.ip import Segment, join_ends
from scapy_layers.links import Gap
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


def _overheard(raw: bytes) -> list[Heard | Gap]:
    return list(listen(_WAYS[crc32(raw) % len(_WAYS)](raw)))


def _is_whole(raw: bytes, result: list[Heard | Gap]) -> None:
    # The session opened as it should, whatever came then.
    assert len(result) >= len(OPENING), raw
    if _WAYS[crc32(raw) % len(_WAYS)] is _in_pieces:
        assert _said(result) == _said(listen(_session(raw))), raw


def _said(heard: Iterable[Heard | Gap]) -> dict[bool, list[bytes]]:
    """Returns what each side said, in its order."""
    said: dict[bool, list[bytes]] = {True: [], False: []}
    for one in heard:
        if isinstance(one, Heard):
            said[one.way.source.port == PORTS[0]].append(bytes(one.message))
    return said


def _anything(raw: bytes, result: object) -> None:
    """Nothing is expected but that it ended."""


def _from_a_file(raw: bytes) -> tuple[bytes, list[Heard | Gap]]:
    file = _file(_in_pieces(raw))
    return file, list(_heard(stream.units_of(io.BytesIO(file), plausible=is_batch)))


def _is_the_same(raw: bytes, result: tuple[bytes, list[Heard | Gap]]) -> None:
    # Of a file most packets are read by a shorter way.
    file, heard = result
    assert _said(heard) == _said(listen(capture.read(io.BytesIO(file)))), raw


def _heard(units: Iterable[stream.Unit]) -> Iterator[Heard | Gap]:
    conversations = Conversations()
    for unit in units:
        yield from conversations.hear(unit)


def _file(segments: Iterable[Segment]) -> bytes:
    packets = Packets()
    for one in segments:
        ends, ports = ((A, B), PORTS) if one.ends == join_ends(A, B, *PORTS) else ((B, A), PORTS[::-1])
        packets.tcp(one.data, ports, ends, one.seq, one.ack, one.flags)
    return packets.file()


TARGETS = {
    "strict": Target(_strictly, _is_exact, (WireError,)),
    "tolerant": Target(_tolerantly, _is_kept),
    "reassembler": Target(_reassembled, _anything, (CaptureError,)),
    "conversation": Target(_overheard, _is_whole),
    "capture": Target(_from_a_file, _is_the_same),
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


def _talk(raw: bytes) -> Iterator[tuple[bool, bytes]]:
    """Yields who says what: a session is opened, then come the bytes, and parts of them."""
    half = len(raw) // 2
    for forward, batch in [*OPENING, (True, raw), (False, raw[half:]), (True, raw[:half])]:
        yield forward, batch[:0xFFFF]


def _session(raw: bytes) -> Iterator[Segment]:
    """A batch for each segment."""
    return _connection((forward, prefixed(batch)) for forward, batch in _talk(raw))


def _in_pieces(raw: bytes) -> Iterator[Segment]:
    """The same, cut elsewhere; some segments are seen twice, and some behind the next one."""
    rng = random.Random(crc32(raw))
    said = ((forward, piece) for forward, batch in _talk(raw) for piece in _pieces(prefixed(batch), rng))
    segments = list(_connection(said))
    for at in range(len(OPENING) + 2, len(segments) - 3):
        if rng.random() < 0.2:
            segments[at : at + 1] = [segments[at], segments[at]]
        elif rng.random() < 0.2 and segments[at].ends == segments[at + 1].ends:
            segments[at : at + 2] = [segments[at + 1], segments[at]]
    return (one._replace(number=number, time=number * 1000) for number, one in enumerate(segments, 1))


def _pieces(data: bytes, rng: random.Random) -> Iterator[bytes]:
    cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randrange(4))))
    return (data[begin:end] for begin, end in pairwise([0, *cuts, len(data)]))


def _datagrams(raw: bytes) -> Iterator[Segment]:
    for number, (forward, batch) in enumerate(_talk(raw), 1):
        yield _segment(number, forward, 0, 0, batch)._replace(tcp=False)


_WAYS = (_session, _in_pieces, _datagrams)


def _connection(said: Iterable[tuple[bool, bytes]]) -> Iterator[Segment]:
    seqs = {True: 1, False: 1}
    yield _segment(1, True, 0, 0x02, b"")
    yield _segment(2, False, 0, 0x12, b"", 1)
    for number, (forward, data) in enumerate(said, 3):
        yield _segment(number, forward, seqs[forward], 0x10, data, seqs[not forward])
        seqs[forward] += len(data)
    for forward in (True, False):
        yield _segment(99, forward, seqs[forward], 0x11, b"")
