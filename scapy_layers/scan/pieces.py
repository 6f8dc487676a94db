"""What was found in one piece of a file, put in order: units from the file itself, from streams, from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scapy_layers.derive.columns.units import UnitKind, Units
from scapy_layers.errors import WireError
from scapy_layers.links import Gap
from scapy_layers.scan.events import Event, Happened
from scapy_layers.scan.records import Array
from scapy_layers.scan.watch import Heard, Talk

Columns: TypeAlias = dict[str, NDArray[Any]]
"""What is known of units, an item each."""

NO_UNIT = 255
"""Stands for a gap or an event where the kind of a unit stands."""


class Damaged(NamedTuple):
    """A unit that could not be decompressed.

    Attributes:
        unit: Its index.
        error: What is wrong.
    """

    unit: int
    error: WireError


class GapRow(NamedTuple):
    """A gap, and how many units were in front of it in the capture."""

    gap: Gap
    batch: int


class EventRow(NamedTuple):
    """An event and its place in the chunk: the unit, and the byte of it, ``BEFORE`` or ``BEHIND``."""

    unit: int
    offset: int
    event: Event


class Chunk(NamedTuple):
    """What a piece of a capture holds of Zenoh, in the order in which ``stream`` gives it.

    Attributes:
        units: The batches and datagrams, decompressed.
        packet: Number of the packet in which each ends, from 1.
        time: Of that packet, ns since 1970.
        connection: Number of its link.
        forward: It goes from the link's first endpoint to the second.
        batch: Its ordinal in the capture.
        tcp: Its link is a TCP connection; else a pair of UDP endpoints.
        damaged: Those that could not be decompressed: their bytes are as they came.
        gaps: What is missing.
        talks: Connections that are over, or were forgotten, with this piece; the last piece has all others.
        open: Connections that go on, by number.
        events: What became known of connections, or changed.
    """

    units: Units
    packet: Array
    time: Array
    connection: Array
    forward: NDArray[np.bool_]
    batch: Array
    tcp: NDArray[np.bool_]
    damaged: list[Damaged]
    gaps: list[GapRow]
    talks: list[Talk]
    open: dict[int, Talk]
    events: list[EventRow]

    def cut(self, parts: int) -> Iterator[Chunk]:
        """Yields the same in so many pieces, or fewer: units that have about as many bytes, and what belongs to them."""
        bytes_ = np.cumsum(self.units.end - self.units.start)
        places = np.searchsorted(bytes_, bytes_[-1] * np.arange(1, parts) // parts).tolist()
        # One large unit may be most of it: no piece is empty, or all there is.
        inner = sorted({min(max(place, 1), len(bytes_) - 1) for place in places})
        for begin, end in pairwise([0, *inner, len(bytes_)]):
            yield self._part(begin, end, last=end == len(bytes_))

    def _part(self, begin: int, end: int, *, last: bool) -> Chunk:
        """Returns some of the units; what stands behind the last unit of all belongs to the last part."""
        some, first = slice(begin, end), int(self.batch[0])
        units = self.units
        return Chunk(
            units._replace(start=units.start[some], end=units.end[some], kind=units.kind[some]),
            self.packet[some],
            self.time[some],
            self.connection[some],
            self.forward[some],
            self.batch[some],
            self.tcp[some],
            [one._replace(unit=one.unit - begin) for one in self.damaged if begin <= one.unit < end],
            [one for one in self.gaps if begin <= one.batch - first and (last or one.batch - first < end)],
            self.talks if last else [],
            self.open,
            [
                one._replace(unit=one.unit - begin)
                for one in self.events
                if begin <= one.unit and (last or one.unit < end)
            ],
        )


class Many(NamedTuple):
    """Units that lie in one buffer.

    Attributes:
        source: Which buffer.
        trigger: The packet, counted from the beginning of the piece, that brought each.
        connection: Number of the link.
        forward: Direction.
        start: Where each begins.
        end: Behind its last byte.
    """

    source: int
    trigger: Array
    connection: Array
    forward: NDArray[np.bool_]
    start: Array
    end: Array


@dataclass(slots=True)
class Pieces:
    """Collects units while a piece of a file is read.

    Attributes:
        buffer: The piece.
        number: Of its first packet.
        time: Of each packet.
        extra: Bytes that do not lie in the buffer.
    """

    buffer: bytes
    number: int
    time: Array
    extra: int = 0
    _sources: list[bytes] = field(default_factory=list)
    _many: list[Many] = field(default_factory=list)
    _single: list[tuple[int, Heard | Gap | Happened]] = field(default_factory=list)

    def source(self, data: bytes) -> int:
        """Takes a buffer besides the piece itself; returns its number."""
        self._sources.append(data)
        self.extra += len(data)
        return len(self._sources)

    def add(self, many: Many) -> None:
        """Takes units."""
        if len(many.start):
            self._many.append(many)

    def add_one(self, trigger: int, unit: Heard | Gap | Happened) -> None:
        """Takes one unit, a gap or an event, in the order in which they come."""
        self._single.append((trigger, unit))
        if isinstance(unit, Heard):
            self.extra += len(unit.data)

    def chunk(
        self,
        upto: int,
        batch: int,
        talks: Sequence[Talk],
        open_: dict[int, Talk],
    ) -> tuple[Chunk, int]:
        """Takes away what was brought by the packets before ``upto``, in order; also returns how many units.

        Args:
            upto: Counted from the beginning of the piece.
            batch: Ordinal of the first unit.
            talks: Connections that are over.
            open_: Connections that go on.
        """
        singles = [one for trigger, one in self._single if trigger < upto]
        data = b"".join(one.data for one in singles if isinstance(one, Heard))
        buffers = [self.buffer, *self._sources, data]
        columns = self._columns(upto, singles, len(buffers) - 1)
        self._single = self._single[len(singles) :]
        if not _ascends(columns["trigger"]):
            order = np.argsort(columns["trigger"], kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        kinds = columns["kind"]
        units = kinds != NO_UNIT
        gaps, damaged, events = self._rest(singles, columns, batch, units)
        if gaps or events:
            columns = {name: column[units] for name, column in columns.items()}
        self._many = [later for many in self._many if len((later := _after(many, upto)).start)]
        count = len(columns["start"])
        chunk = Chunk(
            _laid_out(buffers, columns),
            columns["packet"],
            columns["time"],
            columns["connection"],
            columns["forward"],
            np.arange(batch, batch + count),
            columns["tcp"],
            damaged,
            gaps,
            list(talks),
            open_,
            events,
        )
        self.extra = 0
        return chunk, count

    def _columns(self, upto: int, singles: list[Heard | Gap | Happened], source: int) -> Columns:
        found: dict[str, list[NDArray[Any]]] = {name: [] for name in _TYPES}
        for many in self._many:
            now = slice(None) if many.trigger[-1] < upto else many.trigger < upto
            trigger = many.trigger[now]
            count = len(trigger)
            row: tuple[NDArray[Any], ...] = (
                trigger,
                np.full(count, many.source),
                trigger + self.number,
                self.time[trigger],
                many.connection[now],
                many.forward[now],
                many.start[now],
                many.end[now],
                np.full(count, UnitKind.BATCH, np.uint8),
                np.ones(count, np.bool_),
            )
            for name, column in zip(_TYPES, row, strict=True):
                found[name].append(column)
        if singles:
            triggers = [trigger for trigger, _ in self._single[: len(singles)]]
            sizes = np.array([len(one.data) if isinstance(one, Heard) else 0 for one in singles], np.int64)
            ends = np.cumsum(sizes)
            rows = [
                _NOWHERE
                if isinstance(one, Happened)
                else (
                    one.number,
                    one.time,
                    one.way.link.number,
                    one.way.forward,
                    int(one.kind) if isinstance(one, Heard) else NO_UNIT,
                    one.way.link.tcp,
                )
                for one in singles
            ]
            number, time, connection, forward, kind, tcp = zip(*rows, strict=True)
            values = (
                triggers,
                [source] * len(singles),
                number,
                time,
                connection,
                forward,
                ends - sizes,
                ends,
                kind,
                tcp,
            )
            for (name, type_), listed in zip(_TYPES.items(), values, strict=True):
                found[name].append(np.array(listed, type_))
        return {name: _one(columns, _TYPES[name]) for name, columns in found.items()}

    def _rest(
        self, singles: list[Heard | Gap | Happened], columns: Columns, batch: int, units: NDArray[np.bool_]
    ) -> tuple[list[GapRow], list[Damaged], list[EventRow]]:
        """Finds the places of gaps, of units that are damaged, and of events among the units."""
        gaps: list[GapRow] = []
        damaged: list[Damaged] = []
        events: list[EventRow] = []
        if all(isinstance(one, Heard) and one.damage is None for one in singles):
            return gaps, damaged, events
        last = len(self._sources) + 1
        places = np.flatnonzero(columns["source"] == last)
        before = np.cumsum(units)
        for place, one in zip(places.tolist(), singles, strict=True):
            if isinstance(one, Gap):
                gaps.append(GapRow(one, batch + int(before[place])))
            elif isinstance(one, Happened):
                events.append(EventRow(int(before[place]), one.offset, one.event))
            elif one.damage is not None:
                damaged.append(Damaged(int(before[place]) - 1, one.damage))
        return gaps, damaged, events


_NOWHERE = (0, 0, -1, False, NO_UNIT, False)

_TYPES: dict[str, type[np.generic]] = {
    "trigger": np.int64,
    "source": np.int64,
    "packet": np.int64,
    "time": np.int64,
    "connection": np.int64,
    "forward": np.bool_,
    "start": np.int64,
    "end": np.int64,
    "kind": np.uint8,
    "tcp": np.bool_,
}


def _one(columns: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    if not columns:
        return np.empty(0, kind)
    return (np.concatenate(columns) if len(columns) > 1 else columns[0]).astype(kind, copy=False)


def _ascends(numbers: NDArray[Any]) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _after(many: Many, upto: int) -> Many:
    later = many.trigger >= upto
    return many._replace(
        trigger=many.trigger[later],
        connection=many.connection[later],
        forward=many.forward[later],
        start=many.start[later],
        end=many.end[later],
    )


def _laid_out(buffers: list[bytes], columns: Columns) -> Units:
    """Puts units that may lie in several buffers into one, in their order."""
    source, start, end, kind = (columns[name] for name in ("source", "start", "end", "kind"))
    if not len(start) or (source == 0).all():
        return Units(np.frombuffer(buffers[0], np.uint8), start, end, kind)
    # Between the units of a run lies what is never looked at: headers, lengths.
    broken = (source[1:] != source[:-1]) | (start[1:] < end[:-1])
    begins = np.concatenate(([0], np.flatnonzero(broken) + 1))
    first, last = start[begins], end[np.append(begins[1:], len(start)) - 1]
    views = [memoryview(buffer) for buffer in buffers]
    runs = zip(source[begins].tolist(), first.tolist(), last.tolist(), strict=True)
    data = b"".join([views[which][a:b] for which, a, b in runs])
    sizes = last - first
    moved = np.repeat(np.cumsum(sizes) - sizes - first, np.diff(np.append(begins, len(start))))
    return Units(np.frombuffer(data, np.uint8), start + moved, end + moved, kind)
