"""A streaming source over files of rows that are still being written: every whole line once, however often it is asked.

Spark's own file source takes a file once, as it is when it first sees it; rows that are appended later never arrive.
This one remembers for each file how far it was read, so that it follows files that grow and folders that appear. A
line that is half written is left until it is whole. Nothing is locked and nothing is written next to the rows, so the
writers do not notice.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_reports import folders, rows
from spark_reports.storage.parse import read_block

FORMAT = "zenoh_events"

GOOD, APART, BLANK, FOOTER = "good", "apart", "blank", "footers"
"""What a line is; as in ``parse``."""

_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "cases": {
        "campaign": "campaign",
        "outcome": "verdict",
        "bucket": "bucket",
        "time_ns": "time_ns",
        "case": "case",
        "text": "detail",
    },
    "verdicts": {"outcome": "outcome", "test": "test", "time_ns": "started_ns", "text": "seen"},
    "observations": {"outcome": "direction", "time_ns": "time_ns"},
    "findings": {"campaign": "campaign", "outcome": "status", "time_ns": "time_ns"},
    "benchmarks": {},
}
"""What the columns of an event are in the rows of each table."""

_TEXTS = ("folder", "file", "kind", "campaign", "outcome", "bucket", "test", "text")

_ARROW = pa.schema([*((name, pa.string()) for name in _TEXTS), ("time_ns", pa.int64()), ("case", pa.int64())])

SCHEMA = ", ".join(f"{name} string" for name in _TEXTS) + ", time_ns bigint, case bigint"
"""One row for each line, with the folder of its run. ``kind`` is what it is. Of good rows: ``outcome`` of a test, verdict of a case, direction of
what was seen on a link, status of a finding; ``bucket`` of a case; ``test`` that ended badly; ``text``, what was seen
in one of these two, or why a line is no row. Empty or 0 where there is nothing to say."""

LONGEST_TEXT = 300
"""Characters of ``text``."""

FOLLOWED = tuple(name for name in rows.type_of_file if name != rows.FUZZ_COVERAGE)
"""The files that are only appended to. Coverage is replaced as a whole, so its lines cannot be counted once."""

BATCH_BYTES = 64 << 20
"""What is handed on at once, so that the first numbers of a large folder come soon."""

TASK_BYTES = 16 << 20
"""What one task reads."""

READ_BYTES = 1 << 20
"""What is parsed at once."""

_BLOCK = 1 << 16

Offsets = dict[str, dict[str, int]]
"""By path of a file: its ``inode``, so that a file that takes the place of another is known for what it is, and where
the first line begins that was not read, ``end``."""


def scan(roots: Sequence[str]) -> list[str]:
    """Returns the files of rows at and below some folders, in order. What goes away meanwhile is passed over."""
    # By the path without links: one that moves on to the newest run must not make the others look new.
    found = {
        str(place.resolve() / name)
        for root in roots
        for place, files in folders.walk(root)
        for name in FOLLOWED
        if name in files
    }
    return sorted(found)


def advance(
    start: Offsets, paths: Sequence[str], budget: int | None, until: Offsets | None = None
) -> Offsets:
    """Returns how far the files can be read now.

    Args:
        start: How far they were read.
        paths: The files.
        budget: Bytes to read at most, but at least one line; None for no bound.
        until: Where to stop in each of them; a file that is not in it is not read. None to read all there is.
    """
    result = dict(start)
    left = budget
    for path in paths:
        if left is not None and left <= 0:
            break
        try:
            rows.check_regular(Path(path))
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
                size = status.st_size if until is None else min(status.st_size, _known(until, path, status))
                known = _known(start, path, status)
                end = _end_of_lines(file, known, size, left)
        except OSError:
            # Gone again, or not ours to read; it may come back.
            continue
        if end > known:
            result[path] = {"inode": status.st_ino, "end": end}
            left = None if left is None else left - (end - known)
    # Spark compares offsets as text.
    return dict(sorted(result.items()))


def _known(offsets: Offsets, path: str, status: os.stat_result) -> int:
    """Returns the offset in a file; another file of the same name, or one that was emptied, begins anew."""
    known = offsets.get(path)
    same = known is not None and known["inode"] == status.st_ino and known["end"] <= status.st_size
    return known["end"] if known and same else 0


def _end_of_lines(file: Any, start: int, size: int, budget: int | None) -> int:
    """Returns where the last whole line ends that lies within the budget, or the first line if that is longer."""
    bound = size if budget is None else min(size, start + budget)
    place = bound
    while place > start:
        begin = max(start, place - _BLOCK)
        file.seek(begin)
        at = file.read(place - begin).rfind(b"\n")
        if at >= 0:
            return int(begin + at + 1)
        place = begin
    # Not one line ends before the bound: the first one may end behind it.
    place = bound
    while place < size:
        file.seek(place)
        block = file.read(min(_BLOCK, size - place))
        at = block.find(b"\n")
        if at >= 0:
            return int(place + at + 1)
        if not block:
            break
        place += len(block)
    return start


class Piece(InputPartition):
    """Parts of files that one task reads: path, first byte, byte behind the last."""

    def __init__(self, ranges: Sequence[tuple[str, int, int]]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


def pieces(start: Offsets, end: Offsets, task_bytes: int = TASK_BYTES) -> list[Piece]:
    """Returns what lies between two offsets, in parts of about the same size; lines stay whole."""
    result: list[Piece] = []
    ranges: list[tuple[str, int, int]] = []
    room = task_bytes
    for path, reached in end.items():
        before = start.get(path)
        first = before["end"] if before and before["inode"] == reached["inode"] else 0
        # A file that was emptied under the same inode begins anew.
        first = first if first <= reached["end"] else 0
        while first < reached["end"]:
            stop = _line_end(path, first + room, reached["end"])
            ranges.append((path, first, stop))
            room -= stop - first
            first = stop
            if room <= 0:
                result.append(Piece(ranges))
                ranges, room = [], task_bytes
    return [*result, Piece(ranges)] if ranges else result


def _line_end(path: str, place: int, end: int) -> int:
    """Returns where the line ends that a place lies in."""
    if place >= end:
        return end
    try:
        with Path(path).open("rb") as file:
            file.seek(place)
            file.readline()
            return min(file.tell(), end)
    except OSError:
        return end


def blocks(ranges: Sequence[tuple[str, int, int]]) -> Iterator[tuple[Path, bytes]]:
    """Yields the whole lines in parts of files, many at a time. A file that is gone has none."""
    for name, start, end in ranges:
        try:
            with Path(name).open("rb") as file:
                file.seek(start)
                left = end - start
                while left > 0 and (block := file.read(min(left, READ_BYTES))):
                    if not block.endswith(b"\n"):
                        block += file.readline()
                    left -= len(block)
                    yield Path(name), block
        except FileNotFoundError:
            continue


def events(path: Path, block: bytes) -> Iterator[pa.RecordBatch]:
    """Yields what the lines of a file are, a row for each, with the columns of ``SCHEMA``."""
    table = rows.type_of_file[path.name].TABLE
    parsed = read_block(block, table, 1)
    here = {"folder": str(path.parent), "file": path.name}
    for good in parsed.good:
        yield _batch(good.num_rows, {**here, "kind": GOOD}, _good(table, good))
    for kind, count in ((BLANK, parsed.blank), (FOOTER, parsed.footers)):
        if count:
            yield _batch(count, {**here, "kind": kind}, {})
    if parsed.apart:
        reasons = pa.array([line.reason for line in parsed.apart])
        yield _batch(len(parsed.apart), {**here, "kind": APART}, {"text": reasons})


def _good(table: str, good: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Returns the columns of an event out of those of a row."""
    found = {name: good.column(source) for name, source in _COLUMNS[table].items()}
    if "text" in found:
        # What nobody asks about is not carried along.
        bad = pc.not_equal(found["bucket"] if "bucket" in found else found["test"], "")
        if "test" in found:
            bad = pc.is_in(found["outcome"], pa.array(["fail", "warning"]))
            found["test"] = pc.if_else(bad, found["test"], "")
        found["text"] = pc.if_else(bad, pc.utf8_slice_codeunits(found["text"], 0, LONGEST_TEXT), "")
    return found


def _batch(size: int, said: Mapping[str, str], found: Mapping[str, Any]) -> pa.RecordBatch:
    columns = []
    for column in _ARROW:
        if column.name in said:
            columns.append(pa.repeat(pa.scalar(said[column.name], column.type), size))
        elif column.name in found:
            values = found[column.name]
            columns.append(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)
        else:
            empty: object = "" if column.type == pa.string() else 0
            columns.append(pa.repeat(pa.scalar(empty, column.type), size))
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


class EventStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far files can be read, and reads them. Holds no state but the end of a single look."""

    def __init__(self, roots: Sequence[str], batch_bytes: int) -> None:
        self._roots = tuple(roots)
        self._batch_bytes = batch_bytes
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802 (Spark's name)
        """Returns the beginning of all files."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns how much is handed on at once."""
        return ReadMaxBytes(self._batch_bytes)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Returns how far can be read from an offset on."""
        budget = None if isinstance(limit, ReadAllAvailable) else self._batch_bytes
        return advance(start, scan(self._roots), budget, self._target)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Notes how far the files go now; a single look ends there."""
        self._target = advance({}, scan(self._roots), None)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Returns the parts of files between two offsets."""
        return pieces(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields what the lines in some parts of files are."""
        assert isinstance(partition, Piece)
        for path, block in blocks(partition.ranges):
            yield from events(path, block)


class EventSource(DataSource):
    """``spark.readStream.format("zenoh_events").option("roots", ...)``: the lines of runs, as they come.

    Options:
        roots: Folders, as a list in JSON.
        batch_bytes: What is handed on at once (default: ``BATCH_BYTES``).
    """

    @classmethod
    def name(cls) -> str:
        """Returns what ``format`` is given."""
        return FORMAT

    def schema(self) -> StructType | str:
        """Returns the columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> EventStream:  # noqa: ARG002, N802
        """Returns the reader."""
        roots = json.loads(self.options["roots"])
        return EventStream(roots, int(self.options.get("batch_bytes", BATCH_BYTES)))
