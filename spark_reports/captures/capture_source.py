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

``message``, ``body``
    Names with commas between: only these rows of ``messages``, and nothing else is made of the packets.
``count``
    ``true``: rows that are alike leave Python as one, with a further column ``count``, which says how many they
    are: ``groupBy("key_scope", "key_suffix").agg(sum("count"))`` is what ``agg(count("*"))`` would be, at a
    fraction of the cost. Rows with a list or struct in a wanted column cannot be counted. Of ``messages`` with
    ``batch``, ``pieces`` and ``offset`` those count as one that are alike but for these, with the place of the first,
    as long as no number of a key is declared or taken back between them: what ``traffic.keys`` says of it holds for
    all.
``pushdown``
    ``true``: filters on ``message``, ``body``, ``capture``, ``connection``, ``packet``, ``time`` and ``time_ns`` are
    applied before rows leave Python; on ``capture`` before a file is opened, on ``message`` and ``body`` before
    tables are made. Not by default: Spark 4.3 gives what was filtered last to everything else that is made of the
    same ``load()``, which then lacks rows. With this option use what one ``load()`` returns with one filter only.

Rows come in no particular order: ``capture, batch, pieces, offset`` is the one of the wire. The files must have the
same path on every worker.
"""

import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from scapy_layers import scan, tables
from scapy_layers.capture import CaptureError
from spark_reports.captures import messages
from spark_reports.captures.arrow import fit, fitting_schema
from spark_reports.captures.bounds import Bounds

SUFFIXES = tuple(
    kind + packed for kind in (".pcap", ".pcapng", ".cap", ".dump") for packed in ("", ".gz", ".bz2", ".xz")
)
"""What counts as a capture in a folder; a file that is named, or that a pattern matches, always does."""

MESSAGES, ERRORS = "messages", messages.ERRORS
PERMISSIVE, FAILFAST = "permissive", "failfast"
FULL, HEADER = "full", "header"

SPLIT = 64 << 20
LEAST_SPLIT = 1 << 20
LEAST_TASK = 4 << 20
"""Bytes; a task costs some milliseconds, whatever it reads."""

TASKS = 16
"""So many tasks are made of many small files when there is enough in them."""

_COUNT = pa.field("count", pa.int64())

_ADDRESSES = ("source", "target", "source_zid", "target_zid")

_PLACE = ("batch", "pieces", "offset")

_ALIASING = ("d_keyexpr", "u_keyexpr")


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
        message: Messages wanted, none for all.
        body: Bodies wanted, none for all, and for messages without one.
        count: Equal rows are counted.
        pushdown: Filters are taken from Spark.
    """

    paths: tuple[str, ...]
    table: str = MESSAGES
    columns: tuple[str, ...] = ()
    depth: str = FULL
    split: int = SPLIT
    mode: str = PERMISSIVE
    message: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    count: bool = False
    pushdown: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Checks options as Spark hands them over.

        Raises:
            ValueError: One of them cannot be used; says which, and what could be.
        """
        known = [option.name for option in fields(cls)]
        for option in given:
            if option.lower() not in {"path", *known}:
                raise ValueError(f"unknown option {option}; the options are {', '.join(known[1:])}")
        table = given.get("table", MESSAGES)
        _one_of("table", table, (MESSAGES, *tables.names()))
        _one_of("depth", given.get("depth", FULL), (FULL, HEADER))
        # Spark's own sources take FAILFAST as well.
        mode = given.get("mode", PERMISSIVE).lower()
        _one_of("mode", mode, (PERMISSIVE, FAILFAST))
        split = given.get("split", str(SPLIT))
        if not split.isdigit() or int(split) < LEAST_SPLIT:
            raise ValueError(
                f"option split is {split!r}; it must be a number of bytes, at least {LEAST_SPLIT}"
            )
        return cls(
            _paths(given),
            table,
            _several("columns", given, full_schema(table).names),
            given.get("depth", FULL),
            int(split),
            mode,
            _several("message", given, messages.MESSAGES),
            _several("body", given, [body for bodies in messages.BODIES.values() for body in bodies]),
            _switch("count", given),
            _switch("pushdown", given),
        )

    def columns_of(self) -> pa.Schema:
        """Returns the columns that are wanted, as Spark takes them."""
        whole = full_schema(self.table)
        found = pa.schema([whole.field(name) for name in self.columns or whole.names])
        return found.append(_COUNT) if self.count else found


def _switch(option: str, given: Mapping[str, str]) -> bool:
    value = given.get(option, "false").lower()
    _one_of(option, value, ("true", "false"))
    return value == "true"


def _several(option: str, given: Mapping[str, str], known: Iterable[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.get(option, "").split(",") if name.strip())
    for name in names:
        _one_of(option, name, known)
    return names


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
            raise ValueError(
                f"{path} is not a local path; captures are read from folders that every worker has"
            )
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
        return from_arrow_schema(self._options.columns_of())

    def reader(self, schema: StructType) -> "CaptureReader":
        """Returns what reads the columns of a schema."""
        made = FilteredReader if self._options.pushdown else CaptureReader
        return made(self._options, schema)


class Task(InputPartition):
    """Files, or one part of a file, for one task."""

    def __init__(self, parts: Sequence[tuple[str, scan.Split | None]]) -> None:
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
        if options.count and _COUNT not in list(self.schema):
            raise ValueError("option count needs the column count bigint in the given schema")
        self.bounds = Bounds()
        for name in ("message", "body"):
            if wanted := getattr(options, name):
                self.bounds.sets[name] = frozenset(wanted)
        from scapy_layers import catalogue

        # Workers get the shapes from here and need no Scapy, which the catalogue is made of.
        self.language = scan.Language(catalogue.shapes())
        whole = full_schema(options.table)
        if options.count:
            whole = whole.append(_COUNT)
        for column in self.schema:
            _one_of("schema", column.name, whole.names)
            wanted = whole.field(column.name).type
            if not wanted.equals(column.type):
                raise ValueError(f"column {column.name} is {wanted}, not {column.type}")
            if options.count and pa.types.is_nested(wanted):
                raise ValueError(
                    f"option count cannot be used with column {column.name}, which is {wanted}; "
                    "select the columns you want with the option columns"
                )
        self.made = pa.schema([column for column in self.schema if column != _COUNT])

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

    def _plan(self, path: str) -> list[scan.Split]:
        """Returns the parts of a file; none when it is damaged, which the one task that reads it will say."""
        try:
            return scan.plan(Path(path), self.options.split, language=self.language)
        except CaptureError:
            return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task.

        Raises:
            CaptureError: A file is damaged, in mode ``failfast``.
        """
        assert isinstance(partition, Task)
        selection: tables.Selection | None = None
        for path, split in partition.parts:
            rows: _Rows = _Messages(self, path) if self.options.table == MESSAGES else _Table(self, path)
            selection = selection or self._selection(rows)
            if selection is None:
                return
            for batch in self._read(rows, path, split, selection):
                kept = self.bounds.apply(batch)
                if kept.num_rows:
                    yield _counted(kept, self.schema, rows.turns) if self.options.count else kept

    def _selection(self, rows: "_Rows") -> tables.Selection | None:
        """Returns what has to be read of each capture; to prepare for it takes longer than to read a small one."""
        columns = rows.columns
        if columns and self.options.mode == FAILFAST:
            columns = columns | {ERRORS: sorted({"kind", "found", "packet", *columns.get(ERRORS, ())})}
        return tables.Selection(list(columns), columns, self.language) if columns else None

    def _read(
        self, rows: "_Rows", path: str, split: scan.Split | None, selection: tables.Selection
    ) -> Iterator[pa.RecordBatch]:
        try:
            if rows.needs_ends:
                rows.meet(self._ends(path, split))
            for found in tables.read(Path(path), selection=selection, split=split):
                if self.options.mode == FAILFAST:
                    _check(path, found)
                yield from rows.take(found)
        except (CaptureError, OSError) as error:
            if self.options.mode == FAILFAST:
                raise
            yield from rows.damaged(error)

    def _ends(self, path: str, split: scan.Split | None) -> Iterator[scan.Talk]:
        """Yields the connections of a part of a capture, better known ones later.

        It takes a look at the packets in advance, as the nodes of a connection show themselves in the midst of it.
        """
        try:
            for chunk in scan.chunks(Path(path), split=split, language=self.language):
                yield from chunk.open.values()
                yield from chunk.talks
        except CaptureError:
            # Who reads it will say so.
            return


class FilteredReader(CaptureReader):
    """Takes filters from Spark, all of which Spark applies again, for that costs little."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Takes note of filters, and hands all of them back."""
        for one in filters:
            self.bounds.take(one)
        return filters


def _check(path: str, found: messages.Tables) -> None:
    """Raises CaptureError when there is an error that is none of a message, but of the file."""
    rows = found.get(ERRORS)
    for row in rows.to_pylist() if rows is not None else []:
        if row["kind"] == CaptureError.__name__:
            raise CaptureError(f"{path}: {row['found']}", row["packet"])


class _Rows(Protocol):
    """Makes rows of one capture for Spark.

    Attributes:
        columns: Which columns of which tables are needed.
        needs_ends: Who is at the ends of connections is needed as well.
        turns: Batches in which numbers of keys change, in order, of what was read together; None if rows count as one
            only where they have the same place.
    """

    columns: dict[str, list[str]]
    needs_ends: bool
    turns: np.ndarray | None

    def meet(self, talks: Iterable[scan.Talk]) -> None:
        """Takes note of connections."""

    def take(self, found: messages.Tables) -> Iterator[pa.RecordBatch]:
        """Yields the rows of what was read together."""

    def damaged(self, error: Exception) -> Iterator[pa.RecordBatch]:
        """Yields the row that says that a file is damaged, if the table has such rows."""


class _Table:
    """Rows of a table of ``scapy_layers.tables``."""

    needs_ends = False
    turns: np.ndarray | None = None

    def __init__(self, reader: CaptureReader, path: str) -> None:
        self._name = reader.options.table
        self._schema = reader.made
        self._path = path
        needed = {"time" if name == "time_ns" else name for name in self._schema.names} - {"capture"}
        inside = {*messages.NETWORK, *(body for bodies in messages.BODIES.values() for body in bodies)}
        left_out = reader.options.depth == HEADER and self._name in inside
        self.columns = {} if left_out else {self._name: sorted(needed)}

    def meet(self, talks: Iterable[scan.Talk]) -> None:
        """Has no use for them."""

    def take(self, found: messages.Tables) -> Iterator[pa.RecordBatch]:
        rows = found.get(self._name)
        if rows is not None and rows.num_rows:
            yield _batch(self._schema, rows.num_rows, {"capture": self._path}, rows)

    def damaged(self, error: Exception) -> Iterator[pa.RecordBatch]:
        if self._name == ERRORS:
            said = {"capture": self._path, "kind": type(error).__name__, "found": str(error)}
            yield _batch(self._schema, 1, said)


class _Messages:
    """Rows of the table ``messages``."""

    def __init__(self, reader: CaptureReader, path: str) -> None:
        self._schema = reader.made
        self._path = path
        self._links = _Links()
        bounds, names = reader.bounds, reader.made.names
        known = messages.MESSAGES if reader.options.depth == FULL else messages.OUTER
        self._bodies = bounds.sets.get("body")
        self._wanted = [name for name in known if bounds.allows("message", name) and self._has_body(name)]
        self._errors = not {"message", "body"} & set(bounds.sets)
        self.needs_ends = any(name in _ADDRESSES for name in names)
        needed = messages.tables_for(self._wanted, names, self._bodies)
        self.columns = {table: messages.fields_for(table, names) for table in needed}
        if self._errors:
            self.columns[ERRORS] = messages.fields_for(ERRORS, names)
        self.turns: np.ndarray | None = None
        if reader.options.count and set(_PLACE).issubset(names):
            self.turns = np.zeros(0, np.int64)
            for table in _ALIASING:
                self.columns.setdefault(table, ["batch"])

    def _has_body(self, message: str) -> bool:
        return self._bodies is None or any(body in self._bodies for body in messages.BODIES.get(message, ()))

    def meet(self, talks: Iterable[scan.Talk]) -> None:
        self._links.meet(talks)

    def take(self, found: messages.Tables) -> Iterator[pa.RecordBatch]:
        if self.turns is not None:
            batches = [found[table].column("batch").to_numpy() for table in _ALIASING if table in found]
            self.turns = np.sort(np.concatenate([self.turns[:0], *batches]))
        for name in self._wanted:
            if name in found and found[name].num_rows:
                part = messages.Part(name, found)
                yield self._finish(part.rows, partial(messages.column, part))
        if self._errors and ERRORS in found and found[ERRORS].num_rows:
            rows = found[ERRORS]
            yield self._finish(rows, partial(messages.error_column, rows))

    def damaged(self, error: Exception) -> Iterator[pa.RecordBatch]:
        if self._errors:
            yield _batch(self._schema, 1, {"capture": self._path, "error": str(error)})

    def _finish(self, rows: pa.RecordBatch, make: Callable[[str], pa.Array]) -> pa.RecordBatch:
        columns = []
        for name in self._schema.names:
            if name == "capture":
                columns.append(pa.repeat(self._path, rows.num_rows))
            elif name == "source_zid" and "zid" in rows.schema.names:
                # HELLO comes without a session; it says whose it is.
                columns.append(rows.column("zid"))
            elif name in _ADDRESSES:
                columns.append(self._links.column(name, rows))
            else:
                columns.append(make(name))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _Links:
    """Who is at the ends of the connections of a capture."""

    def __init__(self) -> None:
        self._codes = np.zeros(1, np.int64)
        self._texts: dict[str, pa.Array] = {name: pa.nulls(2, pa.string()) for name in _ADDRESSES}

    def meet(self, talks: Iterable[scan.Talk]) -> None:
        """Takes note of connections; what is said of one later counts."""
        known = {talk.link.number: talk for talk in talks}
        # Behind the last one, and where there are holes, is what is not known.
        self._codes = np.zeros(max(known, default=-1) + 2, np.int64)
        texts: dict[str, list[str | None]] = {name: [None, None] for name in _ADDRESSES}
        for number, talk in known.items():
            self._codes[number] = len(texts["source"])
            ends = str(talk.link.first), str(talk.link.second)
            zids = talk.session.zids[::-1] if talk.flipped else talk.session.zids
            for forward in (True, False):
                source, target = (0, 1) if forward else (1, 0)
                texts["source"].append(ends[source])
                texts["target"].append(ends[target])
                texts["source_zid"].append(zids[source])
                texts["target_zid"].append(zids[target])
        self._texts = {name: pa.array(values, pa.string()) for name, values in texts.items()}

    def column(self, name: str, rows: pa.RecordBatch) -> pa.Array:
        """Returns one end of the connections that some messages came on, as the sender sees it."""
        connections = pc.fill_null(rows.column("connection"), -1).to_numpy(zero_copy_only=False)
        connections = np.minimum(connections, len(self._codes) - 1)
        forward = pc.fill_null(rows.column("forward"), True).to_numpy(zero_copy_only=False)
        return self._texts[name].take(pa.array(self._codes[connections] + ~forward))


def _counted(rows: pa.RecordBatch, schema: pa.Schema, turns: np.ndarray | None) -> pa.RecordBatch:
    """Makes one row of rows that are alike, with their number; with turns, those between two of them have one place."""
    names = [name for name in rows.schema.names if turns is None or name not in _PLACE]
    table = pa.table([rows.column(name) for name in names], names)
    if turns is not None:
        table = table.append_column("turn", pa.array(_turn(rows.column("batch"), turns)))
    alike = (
        table.append_column("row", pa.array(np.arange(rows.num_rows)))
        .group_by(table.schema.names, use_threads=False)
        .aggregate([("row", "min"), ([], "count_all")])
    )
    first = rows.take(alike["row_min"].combine_chunks())
    columns = {
        **dict(zip(first.schema.names, first.columns, strict=True)),
        _COUNT.name: alike["count_all"].combine_chunks(),
    }
    return pa.RecordBatch.from_arrays([columns[column.name] for column in schema], schema=schema)


def _turn(batches: pa.Array, turns: np.ndarray) -> np.ndarray:
    """Returns a number for each message: the same for those between two turns, one of its own in a batch with one."""
    mine = pc.fill_null(batches, -1).to_numpy(zero_copy_only=False)
    behind = np.searchsorted(turns, mine, side="right")
    within = np.searchsorted(turns, mine) != behind
    return np.where(within, len(turns) + 1 + np.arange(len(mine)), behind)


def _batch(
    schema: pa.Schema, size: int, said: Mapping[str, object], rows: pa.RecordBatch | None = None
) -> pa.RecordBatch:
    """Makes rows for Spark: what is said of all of them, the columns of some rows, and null for the rest."""
    columns = []
    for column in schema:
        source = "time" if column.name == "time_ns" else column.name
        if column.name in said:
            columns.append(pa.repeat(pa.scalar(said[column.name], column.type), size))
        elif rows is None or source not in rows.schema.names:
            columns.append(pa.nulls(size, column.type))
        elif column.name == "time_ns":
            columns.append(rows.column("time").cast(pa.timestamp("ns", "UTC")).view(pa.int64()))
        else:
            columns.append(fit(rows.column(column.name), column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def find(paths: Sequence[str]) -> list[str]:
    """Returns the captures that are named, in folders, or match patterns; each once, in order of their names.

    Raises:
        ValueError: Something is named that is not there; a pattern or folder may have none.
    """
    found: set[str] = set()
    for path in paths:
        if Path(path).is_dir():
            inside = (str(one) for one in Path(path).rglob("*") if one.is_file())
            found.update(one for one in inside if one.lower().endswith(SUFFIXES))
        elif Path(path).is_file():
            found.add(path)
        elif glob.has_magic(path):
            found.update(one for one in glob.glob(path, recursive=True) if Path(one).is_file())  # noqa: PTH207
        else:
            raise ValueError(f"no such capture: {path}")
    return sorted(found)
