"""Where the packets of a capture lie: a large piece of the file at a time, as arrays.

A capture has no marks between packets; each one says where the next begins. To follow that in many places at once
the beginnings of some packets are guessed, and all are followed in step. A guess counts only when the walk from the
one in front of it ends exactly there; else the piece is walked from its beginning. What is wrong with a file is
told as ``capture`` tells it, at the same place.
"""

# ruff: noqa: SLF001  (the two readers of capture files share what their formats are)

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scapy_layers import capture
from scapy_layers.capture import MAX_BLOCK, NS, CaptureError

Array = NDArray[np.int64]

FIRST = 1 << 16
"""Bytes of the first piece; each is four times the one before, so that what begins with a file is known soon."""

_SPAN = 1 << 14
"""Bytes that each walk has to go, about."""

_LOOK = 16
"""So many steps are taken until it is asked whether all have arrived."""

_SHORTEST = 12
_LONGEST_HEADER = 32
"""Bytes of a record, and of a header, of either format."""

_LEAST_LANES = 16
_PROOF = 3
"""So many packets in a row must look like ones where one is guessed to begin."""

_TRIALS = 4
"""So many places are looked at for each guess."""

_USUAL = 1 << 18
"""Bytes of the largest packet that is guessed."""

_NEAR = 1 << 17
"""Seconds between packets of one piece of a file, at most, where one is guessed."""

_LATEST = (1 << 63) - 1
"""Times are cut to what 64 bits hold, the year 2262."""


class Records(NamedTuple):
    """Packets of one piece of a file.

    Attributes:
        buffer: The piece.
        number: Of the first packet, from 1.
        time: Of each packet, ns since 1970.
        link: Link type of each.
        start: Where each begins in the buffer.
        end: Behind its last byte that was captured.
        length: How many bytes it had on the wire.
        behind: Where the next record begins.
    """

    buffer: bytes
    number: int
    time: Array
    link: Array
    start: Array
    end: Array
    length: Array
    behind: int


@dataclass(slots=True)
class Position:
    """How far a file has been read, and what its headers said. Can be pickled.

    Attributes:
        offset: Of the next record, in bytes of the file after decompression.
        number: Of the next packet.
        order: Byte order as ``struct`` writes it; empty before the header was read.
        unit: ns in a unit of the fraction of a second; 0 for pcapng.
        link: Link type of a pcap file.
        interfaces: Of the section of a pcapng file.
    """

    offset: int = 0
    number: int = 1
    order: str = ""
    unit: int = 0
    link: int = 0
    interfaces: list[capture._Interface] = field(default_factory=list)


def read_records(
    file: BinaryIO,
    position: Position,
    *,
    size: int,
    end: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Records]:
    """Yields the packets of a capture from a position on, which moves with them.

    Args:
        file: Stands at the position.
        position: Where to begin.
        size: Bytes of a piece, about.
        end: Where to stop, a position that was reached before; None for the end of the file.
        progress: Told how many bytes of the file have been read.

    Raises:
        CaptureError: The file is no capture, or damaged; after all whole packets.
    """
    if position.order:
        raw = capture._raw(file, _from(position.offset, progress))
        source = capture._Bytes(raw if end is None else _some(raw, end - position.offset))
        source.taken = position.offset
        rest, piece = b"", size
    else:
        source = capture._Bytes(
            capture._pieces(file, progress) if end is None else _some(capture._raw(file, progress), end)
        )
        rest, piece = _header(source, position), min(FIRST, size)
    reader = _Pcap(position) if position.unit else _Pcapng(position)
    want, wrong = reader.least, ""
    while True:
        if wrong:
            raise CaptureError(wrong, position.number, position.offset)
        if want > MAX_BLOCK:
            text = f"{reader.what} of {want} bytes, at most {MAX_BLOCK} are believed"
            raise CaptureError(text, position.number, position.offset)
        rest = source.fill(rest, max(piece, want))
        if len(rest) < want:
            if source.damage:
                raise CaptureError(source.damage, position.number, position.offset)
            if rest:
                text = f"the file ends inside {reader.what}, after {len(rest)} bytes"
                raise CaptureError(text, position.number, position.offset)
            return
        found, want, wrong = reader.take(rest)
        position.offset += found.behind
        position.number += len(found.start)
        yield found
        rest = rest[found.behind :]
        piece = min(piece * 4, size)


def _from(offset: int, progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    told = progress

    def moved(done: int) -> None:
        told(offset + done)

    return moved


def _some(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yields so many bytes."""
    while size > 0 and (piece := next(pieces, b"")):
        yield piece[:size]
        size -= len(piece)


def _header(source: capture._Bytes, position: Position) -> bytes:
    """Reads what a file begins with; returns what has been read behind that."""
    rest = source.fill(b"", 4)
    magic = rest[:4]
    if magic in capture._PCAP:
        position.order, position.unit = capture._PCAP[magic]
        if len(rest) < capture._PCAP_HEADER:
            rest = source.need(rest, capture._PCAP_HEADER, 1, "the file header")
        position.link = Struct(position.order + "I").unpack_from(rest, 20)[0] & capture._LINK_TYPE
        position.offset = capture._PCAP_HEADER
        return rest[position.offset :]
    if magic == capture._SECTION_MAGIC:
        position.order = "<"
        return rest
    if not rest and not source.damage:
        raise CaptureError("the file is empty")
    raise CaptureError(source.damage or capture.no_capture(magic))


# pcap ---------------------------------------------------------------------------------------------


class _Pcap:
    least = 16
    what = "a packet"

    def __init__(self, position: Position) -> None:
        self._position = position
        self._sizes = Struct(position.order + "I").unpack_from
        self._header = Struct(position.order + "IIII").unpack_from
        kind = position.order + "u4"
        self._record = np.dtype([("seconds", kind), ("fraction", kind), ("size", kind), ("length", kind)])

    def take(self, buffer: bytes) -> tuple[Records, int, str]:
        """Returns the packets of a buffer, how many bytes the next one needs, and what is wrong there."""
        position, walked, begin = self._position, np.empty(0, np.int64), 0
        if len(buffer) >= _LEAST_LANES * _SPAN:
            starts = _guesses(buffer, self._marked(buffer))
            walked = _in_step(buffer, starts, position.order, 8, 16)
            begin = int(starts[-1]) if len(walked) else 0
        found, behind, want = self._hop(buffer, begin)
        at = np.concatenate((walked, np.array(found, np.int64)))
        header = _gather(buffer, at, self._record)
        start = at + 16
        time = header["seconds"].astype(np.int64) * NS + header["fraction"].astype(np.int64) * position.unit
        link = np.full(len(at), position.link, np.int64)
        end = start + header["size"]
        return (
            Records(
                buffer, position.number, time, link, start, end, header["length"].astype(np.int64), behind
            ),
            want,
            "",
        )

    def _hop(self, buffer: bytes, at: int) -> tuple[list[int], int, int]:
        sizes, last, limit = self._sizes, len(buffer) - 16, len(buffer)
        found: list[int] = []
        add = found.append
        while at <= last:
            behind = at + 16 + sizes(buffer, at + 8)[0]
            if behind > limit or behind - at > MAX_BLOCK:
                return found, at, behind - at
            add(at)
            at = behind
        return found, at, 16

    def _marked(self, buffer: bytes) -> _Marked:
        """What is looked for: the upper half of the seconds, which stays the same for 18 hours."""
        return (
            _Marked(buffer[2:4], 2, self._looks)
            if self._position.order == "<"
            else _Marked(buffer[:2], 0, self._looks)
        )

    def _looks(self, buffer: bytes, at: Array) -> tuple[NDArray[np.bool_], Array]:
        header = _gather(buffer, at, self._record)
        seconds = header["seconds"].astype(np.int64) - self._header(buffer, 0)[0]
        size, length = header["size"].astype(np.int64), header["length"]
        good = (
            (np.abs(seconds) < _NEAR)
            & (header["fraction"] < NS)
            & (size <= length)
            & (size < _USUAL)
            & (size > 0)
        )
        return good, at + 16 + size


# pcapng -------------------------------------------------------------------------------------------


class _Pcapng:
    least = capture._SMALLEST_BLOCK
    what = "a block"

    def __init__(self, position: Position) -> None:
        self._position = position
        self._section = capture._Section(position.order)
        self._section.interfaces = position.interfaces

    def take(self, buffer: bytes) -> tuple[Records, int, str]:
        """Returns the packets of a buffer, how many bytes the next block needs, and what is wrong there."""
        if len(buffer) >= _LEAST_LANES * _SPAN and self._position.interfaces:
            mark = b"\x06\0\0\0" if self._position.order == "<" else b"\0\0\0\x06"
            starts = _guesses(buffer, _Marked(mark, 0, self._looks))
            walked = _in_step(buffer, starts, self._position.order, 4, 0)
            if len(walked) and (found := self._packets(buffer, walked, int(starts[-1]))) is not None:
                # The rest of the buffer comes again, with what follows it.
                return found, self.least, ""
        return self._walk(buffer)

    def _walk(self, buffer: bytes) -> tuple[Records, int, str]:
        position, section = self._position, self._section
        taken: list[capture.Record] = []
        at, want, wrong = 0, self.least, ""
        try:
            while at + self.least <= len(buffer):
                if buffer.startswith(capture._SECTION_MAGIC, at):
                    section = self._section = capture._Section(capture._order(buffer, at))
                    position.order, position.interfaces = section.order, section.interfaces
                end = section.take(buffer, at, taken)
                if end > len(buffer):
                    want = end - at
                    break
                at = section.take_packets(buffer, end, taken)
        except ValueError as error:
            wrong = str(error)
        columns = [np.array(column, np.int64) for column in zip(*map(_kept, taken), strict=True)]
        time, link, start, end_, length = columns or [np.empty(0, np.int64)] * 5
        return Records(buffer, position.number, time, link, start, end_, length, at), want, wrong

    def _packets(self, buffer: bytes, at: Array, behind: int) -> Records | None:
        """Returns the packets of blocks; None when there are others than packets among them, or a damaged one."""
        position = self._position
        kind = position.order + "u4"
        names = ("kind", "size", "interface", "high", "low", "captured", "length")
        header = _gather(buffer, at, np.dtype([(name, kind) for name in names]))
        size, captured = header["size"].astype(np.int64), header["captured"].astype(np.int64)
        last = _gather(buffer, at + size - 4, np.dtype([("size", kind)]))["size"]
        interface = header["interface"].astype(np.int64)
        good = (
            (header["kind"] == capture._PACKET)
            & (size & 3 == 0)
            & (captured + capture._SMALLEST_PACKET <= size)
            & (last == header["size"])
            & (interface < len(position.interfaces))
        )
        if not good.all():
            return None
        ticks = header["high"].astype(np.uint64) << np.uint64(32) | header["low"]
        link, time = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
        for index in np.flatnonzero(np.bincount(interface)).tolist():
            those = interface == index
            described = position.interfaces[index]
            link[those] = described.link
            time[those] = _times(ticks[those], described)
        start = at + 28
        length = header["length"].astype(np.int64)
        return Records(buffer, position.number, time, link, start, start + captured, length, behind)

    def _looks(self, buffer: bytes, at: Array) -> tuple[NDArray[np.bool_], Array]:
        order = self._position.order
        size = _gather(buffer, at + 4, np.dtype([("size", order + "u4")]))["size"].astype(np.int64)
        good = (at & 3 == 0) & (size >= capture._SMALLEST_PACKET) & (size < _USUAL)
        end = np.where(good, at + size, len(buffer))
        good &= end <= len(buffer) - 4
        last = _gather(buffer, np.where(good, end, 4) - 4, np.dtype([("size", order + "u4")]))["size"]
        return good & (last == size), end


def _kept(record: capture.Record) -> capture.Record:
    """A packet whose time and length fit 64 bits."""
    time, link, start, end, length = record
    return min(max(time, -_LATEST), _LATEST), link, start, end, length


def _times(ticks: NDArray[np.uint64], interface: capture._Interface) -> Array:
    """Returns times in ns; by way of Python's integers where 64 bits could be too few."""
    _, _, multiply, divide, add = interface
    most = int(ticks.max(initial=0))
    if most * multiply <= _LATEST and abs(add) + most * multiply // divide <= _LATEST and divide <= _LATEST:
        return ticks.astype(np.int64) * multiply // divide + add
    times = (int(tick) * multiply // divide + add for tick in ticks)
    return np.fromiter((min(max(time, -_LATEST), _LATEST) for time in times), np.int64, len(ticks))


# Many places at once ------------------------------------------------------------------------------


def _gather(buffer: bytes, at: Array, kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Returns the records that lie at some places, which need not be aligned."""
    everywhere = np.ndarray((max(len(buffer) - kind.itemsize + 1, 0),), f"V{kind.itemsize}", buffer, 0, (1,))
    return everywhere[at].view(kind)


class _Marked(NamedTuple):
    """How records are found in the middle of a file.

    Attributes:
        mark: Bytes that stand in each record.
        at: Where they stand.
        looks: Tells at which of some places records seem to begin, and where these end.
    """

    mark: bytes
    at: int
    looks: Callable[[bytes, Array], tuple[NDArray[np.bool_], Array]]


def _guesses(buffer: bytes, marked: _Marked) -> Array:
    """Returns the beginning of the buffer, and places some way apart where records seem to begin."""
    find, mark, at = buffer.find, marked.mark, marked.at
    lanes = np.arange(_SPAN, len(buffer) - _SPAN, _SPAN)
    places, found = lanes, [np.zeros(1, np.int64)]
    for _ in range(_TRIALS):
        places = (
            np.array([find(mark, place + at, place + at + _SPAN) for place in places.tolist()], np.int64) - at
        )
        places = places[places >= 0]
        if not len(places):
            break
        good = _chained(buffer, places, marked)
        found.append(places[good])
        places = places[~good] + 1
    return np.unique(np.concatenate(found))


def _chained(buffer: bytes, places: Array, marked: _Marked) -> NDArray[np.bool_]:
    """Tells at which places some records in a row seem to begin."""
    good = np.ones(len(places), np.bool_)
    at = places
    for _ in range(_PROOF):
        good &= at <= len(buffer) - _LONGEST_HEADER
        looks, at = marked.looks(buffer, np.where(good, at, 0))
        good &= looks
    return good & (at <= len(buffer) - _LONGEST_HEADER)


def _in_step(buffer: bytes, starts: Array, order: str, size_at: int, more: int) -> Array:
    """Follows records from all places but the last one to the next of them.

    Args:
        buffer: The piece of the file.
        starts: A place where a record begins, and guesses.
        order: Byte order.
        size_at: Where a record says its size.
        more: What is to be added to that size.

    Returns:
        Where records begin, up to the last place; nothing when a guess is wrong.
    """
    nothing = np.empty(0, np.int64)
    if len(starts) < _LEAST_LANES:
        return nothing
    sizes = np.ndarray((len(buffer) - 3,), order + "u4", buffer, 0, (1,))[size_at:]
    at, limit = starts[:-1], starts[1:]
    steps = [at]
    # A record has some bytes: who has not arrived by then never will.
    for step in range(int((limit - at).max()) // _SHORTEST + 1):
        behind = at + sizes[at]
        if more:
            behind += more
        # Who has arrived stays there; who goes too far does not arrive.
        at = np.where(at < limit, np.minimum(behind, limit + 1), at)
        steps.append(at)
        if step % _LOOK == 0 and (at >= limit).all():
            break
    if not np.array_equal(at, limit):
        return nothing
    walked = np.stack(steps)
    found: Array = walked.T[(walked < limit).T]
    return found
