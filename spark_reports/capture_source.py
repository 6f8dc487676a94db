"""``spark.read.format("zenoh").load("captures/*.pcapng")``: captures as a Spark data source.

::

    traffic.register(spark)                                      # once in a session
    messages = spark.read.format("zenoh").load("captures")       # files, folders, patterns; several as a list
    puts = spark.read.format("zenoh").option("table", "put").option("columns", "capture,packet,data").load(...)

Options:

``table``
    ``messages`` (one row per message with common columns, see ``messages``; the default) or a table of
    ``scapy_layers.tables``: ``push``, ``put``, ``connections``, ``gaps``, ``errors`` ... All have ``capture``, the
    path as found, in front; tables with ``time`` have ``time_ns`` behind it, for Spark counts microseconds.
``columns``
    Names with commas between; only these are made. Spark does not tell a source which columns it needs, so this
    is what makes wide tables fast. A schema given by ``.schema(...)`` does the same.
``depth``
    ``full`` (the default), or ``header`` for messages of the transport and scouting only.
``split``
    Bytes of a file read by one task, default 64 MiB. Larger files are split, smaller ones share a task.
``mode``
    ``permissive`` (the default): of a file that is damaged or no capture all that is whole is read, and a row of
    ``messages`` (with ``error``) and of ``errors`` says what is wrong. ``failfast``: it fails the job.

Filters on ``message``, ``body``, ``capture``, ``connection``, ``packet``, ``time`` and ``time_ns`` are applied before
rows leave Python; on ``capture`` before a file is opened, on ``message`` and ``body`` before anything is decoded.
Rows come in no particular order: ``capture, batch, pieces, offset`` is the one of the wire. The files must have the
same path on every worker.
"""

import glob
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from scapy_layers import scan, tables
from scapy_layers.capture import CaptureError
from spark_reports import messages
from spark_reports.arrow import fit, fitting_schema

SUFFIXES = (".pcap", ".pcapng", ".pcap.gz", ".pcapng.gz", ".cap", ".dump")
"""What counts as a capture in a folder; a file that is named, or that a pattern matches, always does."""

MESSAGES = "messages"
PERMISSIVE, FAILFAST = "permissive", "failfast"
FULL, HEADER = "full", "header"

SPLIT = 64 << 20
LEAST_SPLIT = 1 << 20
LEAST_TASK = 4 << 20
"""Bytes; a task costs some milliseconds, whatever it reads."""

TASKS = 16
"""So many tasks are made of many small files when there is enough in them."""

_ADDRESSES = ("source", "target", "source_zid", "target_zid")


@dataclass(frozen=True)
class Options:
    """What ``.option`` says, checked.

    Attributes:
        paths: Files, folders, patterns.
        table: Name of a table.
        columns: Names of columns, none for all.
        depth: ``full`` or ``header``.
        split: Bytes.
        mode: ``permissive`` or ``failfast``.
    """

    paths: tuple[str, ...]
    table: str = MESSAGES
    columns: tuple[str, ...] = ()
    depth: str = FULL
    split: int = SPLIT
    mode: str = PERMISSIVE

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Checks options as Spark hands them over.

        Raises:
            ValueError: One of them cannot be used; says which, and what could be.
        """
        table = given.get("table", MESSAGES)
        _one_of("table", table, (MESSAGES, *tables.SCHEMAS))
        names = tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip())
        for name in names:
            _one_of("columns", name, full_schema(table).names)
        _one_of("depth", given.get("depth", FULL), (FULL, HEADER))
        _one_of("mode", given.get("mode", PERMISSIVE), (PERMISSIVE, FAILFAST))
        split = given.get("split", str(SPLIT))
        if not split.isdigit() or int(split) < LEAST_SPLIT:
            raise ValueError(f"option split is {split!r}; it must be a number of bytes, at least {LEAST_SPLIT}")
        return cls(
            _paths(given),
            table,
            names,
            given.get("depth", FULL),
            int(split),
            given.get("mode", PERMISSIVE),
        )


def _one_of(option: str, value: str, known: Iterable[str]) -> None:
    names = list(known)
    if value not in names:
        raise ValueError(f"option {option} is {value!r}; it must be one of {', '.join(names)}")


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    several = json.loads(given["paths"]) if "paths" in given else []
    one = [given["path"]] if "path" in given else []
    found = tuple(path.removeprefix("file://") for path in [*one, *several])
    if not found:
        raise ValueError("no captures named: give load() a file, a folder or a pattern")
    for path in found:
        if "://" in path:
            raise ValueError(f"{path} is not a local path; captures are read from folders that every worker has")
    return found


def full_schema(table: str) -> pa.Schema:
    """Returns all columns of a table, as Spark takes them."""
    if table == MESSAGES:
        return messages.COLUMNS
    fields = [pa.field("capture", pa.string())]
    for column in fitting_schema(tables.schema(table)):
        fields.append(pa.field(column.name, column.type))
        if column.name == "time":
            fields.append(pa.field("time_ns", pa.int64()))
    return pa.schema(fields)


class CaptureSource(DataSource):
    """Captures of Zenoh traffic; the documentation of this module says what it can do."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = Options.of(options)

    @classmethod
    def name(cls) -> str:
        """Returns what stands in ``format(...)``."""
        return "zenoh"

    def schema(self) -> StructType:
        """Returns the columns that are asked for."""
        whole = full_schema(self._options.table)
        names = self._options.columns or whole.names
        return from_arrow_schema(pa.schema([whole.field(name) for name in names]))

    def reader(self, schema: StructType) -> "CaptureReader":
        """Returns what reads the columns of a schema."""
        return CaptureReader(self._options, schema)


class Task(InputPartition):
    """Files, or one part of a file, for one task."""

    def __init__(self, parts: Sequence[tuple[str, "scan.Split | None"]]) -> None:
        super().__init__(None)
        self.parts = tuple(parts)


class CaptureReader(DataSourceReader):
    """Plans which task reads what, and reads it.

    Raises:
        ValueError: A schema was given that has columns which the table has not.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self.bounds = Bounds()
        whole = full_schema(options.table)
        for column in self.schema:
            _one_of("schema", column.name, whole.names)
            wanted = whole.field(column.name).type
            if not wanted.equals(column.type):
                raise ValueError(f"column {column.name} is {wanted}, not {column.type}")

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Takes note of filters; Spark applies all of them again, which costs little."""
        for one in filters:
            self.bounds.take(one)
        return filters

    def partitions(self) -> Sequence[Task]:
        """Returns the tasks: parts of large files, several small files together.

        Raises:
            ValueError: There is no such file.
        """
        files = [(path, Path(path).stat().st_size) for path in find(self.options.paths)]
        files = [(path, size) for path, size in files if self.bounds.allows("capture", path)]
        together = min(self.options.split, max(LEAST_TASK, sum(size for _, size in files) // TASKS))
        tasks: list[Task] = []
        waiting: list[str] = []
        weight = 0
        for path, size in files:
            if size > self.options.split and (splits := self._plan(path)):
                tasks += [Task([(path, split)]) for split in splits]
                continue
            if waiting and weight + size > together:
                tasks.append(Task([(name, None) for name in waiting]))
                waiting, weight = [], 0
            waiting.append(path)
            weight += size
        if waiting:
            tasks.append(Task([(name, None) for name in waiting]))
        # Spark makes a task of its own when there is none.
        return tasks or [Task([])]

    def _plan(self, path: str) -> "list[scan.Split]":
        """Returns the parts of a file; none when it is damaged, which the one task that reads it will say."""
        try:
            return scan.plan(Path(path), self.options.split)
        except CaptureError:
            return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task.

        Raises:
            CaptureError: A file is damaged, in mode ``failfast``.
        """
        assert isinstance(partition, Task)
        for path, split in partition.parts:
            for batch in self._read(path, split):
                kept = self.bounds.apply(batch)
                if kept.num_rows:
                    yield kept

    def _read(self, path: str, split: "scan.Split | None") -> Iterator[pa.RecordBatch]:
        rows = _Messages(self, path) if self.options.table == MESSAGES else _Table(self, path)
        try:
            for found in tables.read(Path(path), tables=rows.tables, columns=rows.columns, split=split):
                yield from rows.take(found)
        except (CaptureError, OSError) as error:
            if self.options.mode == FAILFAST:
                raise
            yield from rows.damaged(error)
