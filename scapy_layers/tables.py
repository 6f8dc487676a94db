"""Captures as Arrow tables: one for each kind of message, and ``connections``, ``gaps``, ``errors``, ``capture``.

``read(path)`` yields them piece by piece, with flat memory. Every row says in which packet its batch ended, when,
on which connection and which way, and which batch of the capture it was. Messages that came in fragments are rows
like all others, with the number of fragments in ``pieces``; the fragments themselves are rows of ``fragment``.
Rows of one batch share its number; ``offset`` counts within the batch, or within what the fragments make.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scapy_layers import scan
from scapy_layers.capture import CaptureError, Source
from scapy_layers.codes import WhatAmI
from scapy_layers.derive.columns import (
    ERRORS,
    PLACE,
    CrowdedError,
    Decoded,
    Decoder,
    UnitKind,
    Units,
    schemas,
)
from scapy_layers.scan import Chunk, Language, Scanner, Split, Talk
from scapy_layers.scan.events import BEFORE, Event
from scapy_layers.scan.plain import Shapes
from scapy_layers.scan.sessions import Part, Whole, part_of

Tables = dict[str, pa.RecordBatch]

TAIL = 128
"""So many units at the end of a piece are looked at, whether there are fragments or not: what follows goes on there."""

CONNECTIONS, GAPS, ERRORS_TABLE, CAPTURE = "connections", "gaps", "errors", "capture"

_TIME = pa.timestamp("ns", "UTC")

_WHERE = (
    pa.field("packet", pa.int64()),
    pa.field("time", _TIME),
    pa.field("connection", pa.int32()),
    pa.field("forward", pa.bool_()),
    pa.field("batch", pa.int64()),
    pa.field("pieces", pa.int32()),
)
"""First columns of every table of messages, and of errors: number of the packet in which the batch ended, its time,
number of the connection, from its source to its target, ordinal of the batch in the capture, number of fragments."""

_UNIT = PLACE[0].name

SCHEMAS: dict[str, pa.Schema] = {
    CONNECTIONS: pa.schema(
        [
            pa.field("connection", pa.int32(), nullable=False),
            pa.field("tcp", pa.bool_(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("sport", pa.int32(), nullable=False),
            pa.field("target", pa.string(), nullable=False),
            pa.field("dport", pa.int32(), nullable=False),
            pa.field("source_zid", pa.string()),
            pa.field("target_zid", pa.string()),
            pa.field("source_whatami", pa.string()),
            pa.field("target_whatami", pa.string()),
            pa.field("certain", pa.bool_(), nullable=False),
            pa.field("multicast", pa.bool_(), nullable=False),
            pa.field("lowlatency", pa.bool_()),
            pa.field("compression", pa.bool_()),
            pa.field("qos", pa.bool_()),
            pa.field("shm", pa.bool_()),
            pa.field("multilink", pa.bool_()),
            pa.field("fsn_bits", pa.int32()),
            pa.field("rid_bits", pa.int32()),
            pa.field("batch_size", pa.int32()),
            pa.field("patch", pa.int32()),
            pa.field("first_packet", pa.int64()),
            pa.field("first_time", _TIME),
            pa.field("last_packet", pa.int64()),
            pa.field("last_time", _TIME),
            pa.field("batches_forward", pa.int64(), nullable=False),
            pa.field("batches_backward", pa.int64(), nullable=False),
            pa.field("bytes_forward", pa.int64(), nullable=False),
            pa.field("bytes_backward", pa.int64(), nullable=False),
            pa.field("disordered", pa.bool_(), nullable=False),
        ]
    ),
    GAPS: pa.schema(
        [
            *(field for field in _WHERE if field.name != "pieces"),
            pa.field("missing", pa.int64()),
            pa.field("skipped", pa.int64(), nullable=False),
            pa.field("why", pa.string(), nullable=False),
        ]
    ),
    ERRORS_TABLE: pa.schema(
        [
            *_WHERE,
            *(field.with_nullable(True) for field in ERRORS if field.name != _UNIT),
        ]
    ),
    CAPTURE: pa.schema(
        [
            pa.field("packets", pa.int64(), nullable=False),
            pa.field("other_packets", pa.int64(), nullable=False),
            pa.field("links", pa.int64(), nullable=False),
            pa.field("connections", pa.int64(), nullable=False),
            pa.field("foreign", pa.int64(), nullable=False),
            pa.field("batches", pa.int64(), nullable=False),
            pa.field("strange_batches", pa.int64(), nullable=False),
            pa.field("strange_bytes", pa.int64(), nullable=False),
            pa.field("gaps", pa.int64(), nullable=False),
            pa.field("skipped_bytes", pa.int64(), nullable=False),
            pa.field("damage", pa.string()),
        ]
    ),
}
"""The schemas of what is no message."""


@cache
def _schemas() -> dict[str, pa.Schema]:
    return _all_schemas(scan.language_of_catalogue().shapes)


def _all_schemas(shapes: Shapes) -> dict[str, pa.Schema]:
    messages = {
        name: pa.schema([*_WHERE, *(field for field in made if field.name != _UNIT)])
        for name, made in schemas(shapes).items()
    }
    return messages | SCHEMAS


def names() -> list[str]:
    """Returns the names of all tables: of messages first."""
    return list(_schemas())


def schema(name: str) -> pa.Schema:
    """Returns the schema of a table; it is the same for every capture.

    Raises:
        KeyError: There is no such table.
    """
    return _schemas()[name]


class Selection:
    """Which tables and columns are wanted, and what reads them: the same for all captures that are read alike.

    Attributes:
        language: Reads messages one by one.
        schemas: Of the tables to make, with just the columns wanted.
    """

    def __init__(
        self,
        tables: Collection[str] | None = None,
        columns: Mapping[str, Collection[str]] | None = None,
        language: Language | None = None,
    ) -> None:
        """Chooses.

        Args:
            tables: Names of tables; all when None.
            columns: Columns of some of these tables; the others are made whole.
            language: Reads the messages; that of the catalogue when None.

        Raises:
            KeyError: There is no such table or column; the text names those there are.
        """
        self.language = language or scan.language_of_catalogue()
        every = _schemas() if language is None else _all_schemas(language.shapes)
        columns = columns or {}
        for name in [*(tables or ()), *columns]:
            if name not in every:
                raise KeyError(f"there is no table {name!r}; there are {', '.join(every)}")
        self.schemas: dict[str, pa.Schema] = {}
        for name, whole in every.items():
            if tables is not None and name not in tables:
                continue
            kept = columns.get(name, whole.names)
            wrong = [column for column in kept if column not in whole.names]
            if wrong:
                raise KeyError(
                    f"there is no column {wrong[0]!r} in {name}; there are {', '.join(whole.names)}"
                )
            self.schemas[name] = pa.schema([field for field in whole if field.name in kept])

    @cached_property
    def frames(self) -> Decoder:
        """Decodes what has to be known of FRAMEs to put fragments together."""
        return Decoder(self.language.shapes, {_FRAME: _FRAME_COLUMNS})

    @cached_property
    def decoder(self) -> Decoder:
        """Decodes what is wanted of batches, and fragments, whose messages may be wanted."""
        where = {field.name for field in _WHERE}
        wanted: dict[str, Collection[str] | None] = {
            name: [column for column in made.names if column not in where]
            for name, made in self.schemas.items()
            if name not in SCHEMAS
        }
        if wanted or ERRORS_TABLE in self.schemas:
            wanted[_FRAGMENT] = {*(wanted.get(_FRAGMENT) or ()), *_FRAGMENT_COLUMNS}
        return Decoder(self.language.shapes, wanted)


def _selection(tables: Collection[str] | None, columns: Mapping[str, Collection[str]] | None) -> Selection:
    """Returns a selection, and remembers a few: many small captures are read in the same way."""
    kept = None if columns is None else tuple((name, tuple(columns[name])) for name in sorted(columns))
    return _remembered(None if tables is None else tuple(tables), kept)


@lru_cache(8)
def _remembered(
    tables: tuple[str, ...] | None, columns: tuple[tuple[str, tuple[str, ...]], ...] | None
) -> Selection:
    return Selection(tables, None if columns is None else dict(columns))


MOST_MESSAGES = 1 << 20
"""Messages of a piece, about, whose rows are made at once. Only captures made for it have more: of a few bytes each, or
decompressed from next to nothing, and each takes a hundred bytes as a row."""

_FRAGMENT, _FRAME = "fragment", "frame"
_FRAME_COLUMNS = ("R", "sn", "qos")
_FRAGMENT_COLUMNS = (*_FRAME_COLUMNS, "M", "first", "drop", "data")


def read(
    source: Source,
    *,
    tables: Collection[str] | None = None,
    columns: Mapping[str, Collection[str]] | None = None,
    split: Split | None = None,
    selection: Selection | None = None,
    progress: Callable[[int], None] | None = None,
    size: int = scan.SIZE,
) -> Iterator[Tables]:
    """Yields the tables of a capture piece by piece; a table that has no rows in a piece is left out of it.

    ``connections`` has a row for each connection when it is over, or at the end; ``capture`` has one row, at the
    end. A file that is damaged is no exception: what is whole in front is used, and ``errors`` has a row of kind
    ``CaptureError`` at the end.

    Args:
        source: Path of a file, or a stream open for reading bytes, which need not be able to seek.
        tables: Names of the tables wanted; all when None.
        columns: Columns wanted of some tables; what is not wanted costs little.
        split: Which part of the file, as ``scan.plan`` says; all of it when None.
        selection: Which tables and columns, chosen beforehand; in place of ``tables`` and ``columns``.
        progress: Told how many bytes have been read so far, compressed ones if so.
        size: Bytes of the file that are read at a time.

    Raises:
        KeyError: A table or column is wanted that does not exist.
        CaptureError: The file is no capture at all.
        OSError: The file cannot be read.
    """
    if selection is None:
        selection = _selection(tables, columns)
    if split is None:
        scanner, sessions = scan.begin(selection.language), scan.Sessions()
    else:
        scanner, sessions = split.restored()
    reader = _Reader(selection, scanner, sessions)
    damage: CaptureError | None = None
    try:
        for chunk in scan.chunks(source, progress=progress, size=size, split=split, state=scanner):
            yield from filter(None, reader.take(chunk))
    except CaptureError as error:
        if not error.offset:
            raise
        damage = error
    if (split is None or split.end is None) and (made := reader.end(damage)):
        yield made


class _Where:
    """Where units came from, for the rows that are made of them."""

    def __init__(self, chunk: Chunk) -> None:
        self._columns: dict[str, NDArray[Any]] = {
            "packet": chunk.packet,
            "time": chunk.time,
            "connection": chunk.connection.astype(np.int32),
            "forward": chunk.forward,
            "batch": chunk.batch,
            "pieces": np.zeros(len(chunk.packet), np.int32),
        }
        self._units = np.empty(0, np.int64)
        self._made: dict[str, pa.Array] = {}

    @classmethod
    def of_wholes(cls, chunk: Chunk, wholes: list[Whole]) -> _Where:
        """Returns where messages came from that were put together."""
        where = cls(chunk)
        units = np.array([whole.unit for whole in wholes], np.int64)
        where._columns = {name: column[units] for name, column in where._columns.items()}
        where._columns["pieces"] = np.array([whole.pieces for whole in wholes], np.int32)
        return where

    def column(self, name: str, units: NDArray[np.int64]) -> pa.Array:
        """Returns a column for rows of some units."""
        if not np.array_equal(units, self._units):
            self._units, self._made = units, {}
        if name not in self._made:
            values = self._columns[name]
            if len(units) != len(values) or not _counts_up(units):
                values = values[units]
            made = pa.array(values)
            self._made[name] = made.view(_TIME) if name == "time" else made
        return self._made[name]


def _counts_up(units: NDArray[np.int64]) -> bool:
    return bool((units == np.arange(len(units))).all())


class _Reader:
    """Makes tables of the pieces of one capture, or of a part of it."""

    def __init__(self, selection: Selection, scanner: Scanner, sessions: scan.Sessions) -> None:
        self._schemas = selection.schemas
        self._scanner = scanner
        self._selection = selection
        self._decoder = selection.decoder
        self._sessions = sessions
        self._decodes = bool(self._decoder.schemas)

    def take(self, chunk: Chunk) -> Iterator[Tables]:
        """Yields the tables of a piece; several times if it has very many messages."""
        rows: dict[str, list[pa.RecordBatch]] = {}
        if len(chunk.units.start) and self._decodes:
            try:
                self._decode(chunk, rows)
            except CrowdedError as crowded:
                for part in chunk.cut(crowded.parts):
                    yield from self.take(part)
                return
        else:
            self._follow(_events(chunk))
        self._damaged(chunk, rows)
        self._gaps(chunk, rows)
        self._add(rows, CONNECTIONS, [_connection(talk) for talk in chunk.talks])
        yield {name: _in_order(made) for name, made in rows.items()}

    def end(self, damage: CaptureError | None) -> Tables:
        """Returns what is said at the end of a capture."""
        rows: dict[str, list[pa.RecordBatch]] = {}
        scanner, watch = self._scanner, self._scanner.watch
        if damage is not None:
            row: dict[str, Any] = dict.fromkeys(SCHEMAS[ERRORS_TABLE].names)
            row |= {"packet": damage.number, "field": CAPTURE, "kind": "CaptureError", "found": str(damage)}
            self._add(rows, ERRORS_TABLE, [row])
        self._add(
            rows,
            CAPTURE,
            [
                {
                    "packets": scanner.packets,
                    "other_packets": scanner.other,
                    "links": scanner.links,
                    "connections": watch.begun,
                    "foreign": watch.foreign,
                    "batches": scanner.batches,
                    "strange_batches": watch.strange[0],
                    "strange_bytes": watch.strange[1],
                    "gaps": scanner.gaps,
                    "skipped_bytes": scanner.skipped,
                    "damage": None if damage is None else str(damage),
                }
            ],
        )
        return {name: _in_order(made) for name, made in rows.items()}

    def _add(self, rows: dict[str, list[pa.RecordBatch]], name: str, values: list[dict[str, Any]]) -> None:
        made = self._schemas.get(name)
        if made is not None and values:
            kept = [{column: row[column] for column in made.names} for row in values]
            rows.setdefault(name, []).append(pa.RecordBatch.from_pylist(kept, schema=made))

    # Messages ---------------------------------------------------------------------------------------

    def _decode(self, chunk: Chunk, rows: dict[str, list[pa.RecordBatch]]) -> None:
        units = chunk.units
        if chunk.damaged:
            end = units.end.copy()
            those = [one.unit for one in chunk.damaged]
            end[those] = units.start[those]
            units = units._replace(end=end)
        decoded = self._decoder.decode(units, MOST_MESSAGES if len(units.start) > 1 else None)
        where = _Where(chunk)
        for name, table in [*decoded.tables.items(), (ERRORS_TABLE, decoded.errors)]:
            self._join(rows, name, table, where)
        self._put_together(chunk, units, decoded, rows)

    def _follow(self, steps: Iterable[_Step]) -> list[Whole]:
        """Follows what happened and what was said, in order; returns the messages that this completes."""
        wholes = []
        for _, what in steps:
            if isinstance(what, Part):
                whole = self._sessions.take(what)
                if whole is not None:
                    wholes.append(whole)
            elif isinstance(what, _Unreadable):
                self._sessions.doubt(what.connection, what.forward)
            elif isinstance(what, _Passed):
                self._sessions.pass_over(what.connections)
            else:
                self._sessions.take_note(what)
        return wholes

    def _join(
        self, rows: dict[str, list[pa.RecordBatch]], name: str, table: pa.RecordBatch, where: _Where
    ) -> None:
        made = self._schemas.get(name)
        if made is None or not table.num_rows:
            return
        units = table.column(_UNIT).to_numpy()
        own = set(table.schema.names)
        arrays = [
            table.column(field.name) if field.name in own else where.column(field.name, units)
            for field in made
        ]
        rows.setdefault(name, []).append(pa.RecordBatch.from_arrays(arrays, schema=made))

    def _put_together(
        self, chunk: Chunk, units: Units, decoded: Decoded, rows: dict[str, list[pa.RecordBatch]]
    ) -> None:
        """Makes messages of fragments, and rows of these."""
        fragments = decoded.tables.get(_FRAGMENT)
        parts = [] if fragments is None else [*_parts(chunk, fragments, None)]
        unreadable = [*_unreadable(chunk, decoded.errors)]
        unread = {
            unit: [*self._tolerantly(chunk, units, unit)] for unit in {place[0] for place, _ in unreadable}
        }
        there = {part.connection for _, part in parts}
        there |= {what.connection for said in unread.values() for _, what in said if _is_fragment(what)}
        looked_at = self._sessions.linked(there, [row.event for row in chunk.events]) if there else there
        first = max(0, len(units.start) - TAIL)
        chosen = np.arange(len(units.start)) >= first
        if looked_at:
            chosen |= np.isin(chunk.connection, list(looked_at))
        parts += self._frames(chunk, units, np.flatnonzero(chosen))
        steps: list[_Step] = [*_events(chunk), *unreadable]
        steps += (one for one in parts if one[1].unit not in unread)
        for unit, said in unread.items():
            steps += said if chosen[unit] else ()
        passed = set(np.flatnonzero(np.bincount(chunk.connection[:first])).tolist()) - looked_at
        steps.append(((first, BEFORE - 1), _Passed(passed)))
        wholes = self._follow(sorted(steps, key=_place))
        if not wholes:
            return
        sizes = np.array([len(whole.data) for whole in wholes], np.int64)
        ends = np.cumsum(sizes)
        data = np.frombuffer(b"".join(whole.data for whole in wholes), np.uint8)
        kinds = np.full(len(wholes), UnitKind.NETWORK, np.uint8)
        made = self._decoder.decode(Units(data, ends - sizes, ends, kinds))
        where = _Where.of_wholes(chunk, wholes)
        for name, table in [*made.tables.items(), (ERRORS_TABLE, made.errors)]:
            self._join(rows, name, table, where)

    def _frames(self, chunk: Chunk, units: Units, chosen: NDArray[np.int64]) -> list[tuple[_Place, Part]]:
        """Returns what the FRAMEs of some units say."""
        some = units._replace(start=units.start[chosen], end=units.end[chosen], kind=units.kind[chosen])
        frames = self._selection.frames.decode(some).tables.get(_FRAME)
        return [] if frames is None else [*_parts(chunk, frames, chosen)]

    def _tolerantly(
        self, chunk: Chunk, units: Units, unit: int
    ) -> Iterator[tuple[_Place, Part | _Unreadable]]:
        """Yields what a batch says that a strict decoder refuses: behind what it refuses may be more."""
        connection, forward = int(chunk.connection[unit]), bool(chunk.forward[unit])
        raw = units.data[units.start[unit] : units.end[unit]].tobytes()
        for message in self._scanner.watch.language.messages(raw):
            if not message.own and message.name in {"FRAME", "FRAGMENT"}:
                yield (unit, message.at), part_of(message, unit, connection, forward, bool(chunk.tcp[unit]))
            if message.refused:
                yield (unit, message.at + 1), _Unreadable(connection, forward)

    # What is no message -------------------------------------------------------------------------------

    def _damaged(self, chunk: Chunk, rows: dict[str, list[pa.RecordBatch]]) -> None:
        values = []
        for unit, error in chunk.damaged:
            start, end = int(chunk.units.start[unit]), int(chunk.units.end[unit])
            connection, forward = int(chunk.connection[unit]), bool(chunk.forward[unit])
            values.append(
                {
                    "packet": int(chunk.packet[unit]),
                    "time": int(chunk.time[unit]),
                    "connection": connection,
                    "forward": forward,
                    "batch": int(chunk.batch[unit]),
                    "pieces": 0,
                    "offset": error.offset,
                    "field": error.field,
                    "kind": type(error).__name__,
                    "found": error.found,
                    "rest": chunk.units.data[start:end].tobytes(),
                }
            )
        self._add(rows, ERRORS_TABLE, values)

    def _gaps(self, chunk: Chunk, rows: dict[str, list[pa.RecordBatch]]) -> None:
        values = [
            {
                "packet": gap.number,
                "time": gap.time,
                "connection": gap.way.link.number,
                "forward": gap.way.forward,
                "batch": batch,
                "missing": gap.missing,
                "skipped": gap.skipped,
                "why": gap.why,
            }
            for gap, batch in chunk.gaps
        ]
        self._add(rows, GAPS, values)


class _Unreadable(NamedTuple):
    """A strict decoder refuses something of a direction."""

    connection: int
    forward: bool


class _Passed(NamedTuple):
    """Not all that was said on some connections was looked at."""

    connections: set[int]


_Place = tuple[int, int]
"""A unit, and a byte in it or what ``scan.events`` says instead."""

_Change = tuple[_Place, "Event | _Unreadable"]
"""What changes what is known of sessions, with its place."""

_Step = tuple[_Place, "Event | _Unreadable | _Passed | Part"]
"""That, or what is said in them."""


def _events(chunk: Chunk) -> Iterator[_Change]:
    for unit, offset, event in chunk.events:
        yield (unit, offset), event


def _unreadable(chunk: Chunk, errors: pa.RecordBatch) -> Iterator[_Change]:
    """Yields what a strict decoder refuses, behind what stands in the same place."""
    found = zip(errors.column(_UNIT).to_pylist(), errors.column("offset").to_pylist(), strict=True)
    for unit, offset in {*found, *((one.unit, 0) for one in chunk.damaged)}:
        yield (unit, offset), _Unreadable(int(chunk.connection[unit]), bool(chunk.forward[unit]))


def _is_fragment(what: Part | _Unreadable) -> bool:
    return isinstance(what, Part) and what.data is not None


_DATA_LANE = 5


def _parts(
    chunk: Chunk, table: pa.RecordBatch, chosen: NDArray[np.int64] | None
) -> Iterable[tuple[_Place, Part]]:
    """Yields what FRAMEs or FRAGMENTs say with their places; ``chosen`` are the units that were decoded."""
    names_ = table.schema.names
    fragment = "data" in names_
    columns = {name: table.column(name).to_pylist() for name in (_UNIT, "offset", *_FRAME_COLUMNS)}
    empty = [None] * table.num_rows
    rest = {
        name: table.column(name).to_pylist() if name in names_ else empty for name in _FRAGMENT_COLUMNS[3:]
    }
    for unit, offset, r, sn, qos, m, first, drop, data in zip(*columns.values(), *rest.values(), strict=True):
        of = unit if chosen is None else int(chosen[unit])
        yield (
            (of, offset),
            Part(
                of,
                int(chunk.connection[of]),
                bool(chunk.forward[of]),
                bool(chunk.tcp[of]),
                bool(r),
                _DATA_LANE if qos is None else qos["priority"],
                sn,
                data if fragment else None,
                bool(m),
                bool(first),
                bool(drop),
            ),
        )


def _place(step: tuple[_Place, object]) -> _Place:
    return step[0]


def _in_order(made: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins rows that were made apart, in the order of their batches."""
    if len(made) == 1:
        return made[0]
    table = pa.Table.from_batches(made).combine_chunks()
    if "batch" in table.schema.names:
        order = np.argsort(table.column("batch").to_numpy(zero_copy_only=False), kind="stable")
        table = table.take(pa.array(order))
    batches = table.combine_chunks().to_batches()
    return batches[0]


_BITS = (8, 16, 32, 64)


def _connection(talk: Talk) -> dict[str, Any]:
    link, session, first = talk.link, talk.session, talk.first or (None, None)
    sides = (1, 0) if talk.flipped else (0, 1)
    zids = [session.zids[side] for side in sides]
    roles = [session.whatami[side] for side in sides]
    return {
        "connection": link.number,
        "tcp": link.tcp,
        "source": link.first.address,
        "sport": link.first.port,
        "target": link.second.address,
        "dport": link.second.port,
        "source_zid": zids[0],
        "target_zid": zids[1],
        "source_whatami": None if roles[0] is None else WhatAmI(roles[0]).name.lower(),
        "target_whatami": None if roles[1] is None else WhatAmI(roles[1]).name.lower(),
        "certain": talk.sure,
        "multicast": session.multicast,
        "lowlatency": session.lowlatency,
        "compression": session.compression,
        "qos": session.qos,
        "shm": session.shm,
        "multilink": session.multilink,
        "fsn_bits": None if session.fsn is None else _BITS[session.fsn],
        "rid_bits": None if session.rid is None else _BITS[session.rid],
        "batch_size": session.batch_size,
        "patch": session.patch,
        "first_packet": first[0],
        "first_time": first[1],
        "last_packet": talk.last[0] if talk.first else None,
        "last_time": talk.last[1] if talk.first else None,
        "batches_forward": talk.batches[0],
        "batches_backward": talk.batches[1],
        "bytes_forward": talk.bytes[0],
        "bytes_backward": talk.bytes[1],
        "disordered": link.late,
    }
