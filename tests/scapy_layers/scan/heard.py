"""What ``stream`` and ``conversation`` find in a capture, and what ``scan`` finds, both as plain rows to compare."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from scapy_layers import capture, scan, stream
from scapy_layers.conversation import Conversations, conversations, is_batch
from scapy_layers.errors import WireError
from scapy_layers.ip import Segment
from scapy_layers.links import Batch, Datagram
from scapy_layers.scan import scanner
from tests.benchmarks._common import frame, handshake, prefixed

Row = tuple[Any, ...]
"""A unit: packet, time, connection, forward, bytes, kind, damage; or a gap."""

Packet = tuple[int, int, bytes, int]
"""Time in ns, link type, bytes, length on the wire."""


class Found(NamedTuple):
    """What is in a capture.

    Attributes:
        rows: Units and gaps in their order.
        foreign: How many links are given up.
        disordered: Numbers of the links that may have been captured out of order, or that lack something.
        late: Of these that were.
    """

    rows: list[Row]
    foreign: int
    disordered: set[int]
    late: set[int]


class Listener(Conversations):
    """Notes every unit that is read, as it is after decompression."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []

    def _read(self, talk: Any, unit: Batch | Datagram) -> Iterator[Any]:
        at = len(self.rows)
        self.rows.append(())
        raw: tuple[bytes, WireError | None] = b"", None
        whole = conversations._unpacked

        def unpacked(*given: Any) -> tuple[bytes, WireError | None]:
            nonlocal raw
            raw = whole(*given)
            return raw

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(conversations, "_unpacked", unpacked)
            heard = list(super()._read(talk, unit))
        data, damage = raw
        kind = type(damage).__name__ if damage else None
        self.rows[at] = (unit.number, unit.time, unit.way.link.number, unit.way.forward, data, 0, kind)
        return iter(heard)


def segments(data: bytes) -> Iterator[Segment]:
    """The segments of a capture up to where it is damaged."""
    try:
        yield from capture.read(io.BytesIO(data))
    except capture.CaptureError:
        return


def slowly(data: bytes) -> Found:
    """What a passive reader hears."""
    listener, links = Listener(), set()
    for unit in stream.units(segments(data), plausible=is_batch):
        if isinstance(unit, stream.Gap):
            listener.rows.append(_gap(unit))
        for heard in listener.hear(unit):
            way = heard.way
            if heard.session is not None:
                links.add(way.link)
            else:
                raw = bytes(heard.message.original)
                listener.rows.append((heard.number, heard.time, way.link.number, way.forward, raw, 1, None))
    return Found(
        listener.rows,
        listener.foreign,
        {link.number for link in links if link.disordered},
        {link.number for link in links if link.late},
    )


def _gap(gap: stream.Gap) -> Row:
    way = gap.way
    return ("gap", gap.number, gap.time, way.link.number, way.forward, gap.missing, gap.skipped, gap.why)


def rows(chunks: Iterable[scan.Chunk]) -> list[Row]:
    """Units and gaps in their order."""
    found: list[Row] = []
    count = 0
    for chunk in chunks:
        data, begin = chunk.units.data.tobytes(), count
        damage = {unit: type(error).__name__ for unit, error in chunk.damaged}
        assert (chunk.units.start[1:] >= chunk.units.end[:-1]).all(), "units ascend"
        columns = (
            chunk.packet,
            chunk.time,
            chunk.connection,
            chunk.forward,
            chunk.units.start,
            chunk.units.end,
            chunk.units.kind,
        )
        gaps = list(chunk.gaps)
        for index, (packet, time, link, forward, start, end, kind) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            while gaps and gaps[0].batch == begin + index:
                found.append(_gap(gaps.pop(0).gap))
            found.append((packet, time, link, forward, data[start:end], kind, damage.get(index)))
            count += 1
        assert chunk.batch.tolist() == list(range(begin, count))
        found += [_gap(row.gap) for row in gaps]
    return found


def quickly(data: bytes, *, size: int = scan.SIZE, block: int = scanner.BLOCK) -> Found:
    """What ``scan`` finds."""
    state = scan.begin()
    disordered: set[int] = set()
    late: set[int] = set()

    def chunks() -> Iterator[scan.Chunk]:
        try:
            for chunk in scan.chunks(io.BytesIO(data), size=size, state=state):
                disordered.update(talk.link.number for talk in chunk.talks if talk.link.disordered)
                late.update(talk.link.number for talk in chunk.talks if talk.link.late)
                yield chunk
        except capture.CaptureError:
            return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "BLOCK", block)
        patch.setattr(scanner, "_LEAST_BLOCK", min(block, 128))
        found = rows(chunks())
    return Found(found, state.watch.foreign, disordered, late)


def same(data: bytes, **how: int) -> list[Row]:
    """Checks that both find the same; returns it."""
    expected, found = slowly(data), quickly(data, **how)
    for index, (one, other) in enumerate(zip(expected.rows, found.rows, strict=False)):
        assert one == other, f"unit {index}"
    assert len(expected.rows) == len(found.rows)
    assert expected == found
    return found.rows


# Captures -------------------------------------------------------------------------------------------


def packets(data: bytes) -> list[Packet]:
    """Takes a capture apart."""
    found: list[Packet] = []
    for buffer, records in capture.runs(io.BytesIO(data)):
        found += [(time, link, buffer[start:end], length) for time, link, start, end, length in records]
    return found


def written(given: Iterable[Packet], link: int = 1) -> bytes:
    """Makes a capture with times to the ns."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link)]
    for time, _, data, length in given:
        out.append(struct.pack("<IIII", time // 10**9 & 0xFFFFFFFF, time % 10**9, len(data), length) + data)
    return b"".join(out)


def said(
    pieces: Iterable[bytes],
    *,
    opened: bool = True,
    answered: bool = False,
    port: int = 50_000,
) -> list[bytes]:
    """Ethernet frames of a client that says some bytes, piece by piece."""
    frames, seq, back = handshake()
    found = frames if opened else []
    for piece in pieces:
        found.append(frame(piece, seq, ack=back))
        seq += len(piece)
        if answered:
            found.append(frame(b"", back, forward=False, ack=seq & 0xFFFFFFFF, flags=0x10))
    there = (7447).to_bytes(2, "big")
    return [
        (each[:36] + port.to_bytes(2, "big") + each[38:])
        if each[34:36] == there
        else (each[:34] + port.to_bytes(2, "big") + each[36:])
        for each in found
    ]


def timed(frames: Iterable[bytes], link: int = 1) -> list[Packet]:
    """Frames a microsecond apart."""
    return [(1_700_000_000_000_000_000 + 1000 * n, link, each, len(each)) for n, each in enumerate(frames)]


def batch_stream(batches: Iterable[bytes]) -> bytes:
    return b"".join(map(prefixed, batches))
