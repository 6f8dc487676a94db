"""Rows of many files into few, or fewer of them into one, without Spark: streamed, so memory does not grow with them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from spark_reports.errors import WrongUse
from spark_reports.storage.commits import FileEntry
from spark_reports.storage.places import Place
from spark_reports.storage.tables import EXTRA, SCHEMAS, arrow_schema

MERGED_BYTES = 128 << 20
"""A merged file ends when it has this size; Spark reads it as one or two tasks."""

_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20
_BATCH_ROWS = 1 << 15
_BATCH_BYTES = 16 << 20
_SMALL = 1 << 20
_READ_BYTES = 1 << 20
_UNSHREDDED = {"value", "metadata"}

Keys = Mapping[int, frozenset[str]]
"""Runs by attempt."""


@dataclass(slots=True)
class Writer:
    """Writes rows of one table into ``part-*.parquet`` files of a folder, as many as are needed.

    Rows with other columns than those before them begin a new file.

    Args:
        target: File system of pyarrow and folder in it.
    """

    target: tuple[Any, str]
    _schema: pa.Schema | None = None
    _files: int = 0
    _writer: Any = None
    _sink: Any = None
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_rows: int = 0
    _waiting_bytes: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows; they are written in the order in which they come."""
        if not batch.num_rows:
            return
        if self._schema is None or not batch.schema.equals(self._schema):
            self.close()
            self._schema = batch.schema
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Writes what is left."""
        self._flush()
        self._end()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            filesystem, folder = self.target
            self._sink = filesystem.open_output_stream(
                f"{folder}/part-{self._files}.parquet", compression=None
            )
            self._writer = parquet.ParquetWriter(
                self._sink, self._schema, compression="zstd", write_page_checksum=True
            )
            self._files += 1
        self._writer.write_table(
            pa.Table.from_batches(self._waiting, self._schema), row_group_size=_GROUP_ROWS
        )
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if self._sink.tell() >= MERGED_BYTES:
            self._end()

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
            self._writer = self._sink = None


def schema_of(place: Place, table: str, files: Iterable[FileEntry]) -> pa.Schema:
    """Returns the columns that files of a table have together.

    Raises:
        WrongUse: Spark has taken the column ``extra`` of one apart, so that only Spark can merge it.
    """
    if EXTRA not in SCHEMAS[table].names:
        return arrow_schema(table)
    found = [batch_schema(place, file) for file in files]
    extras = [schema.field(EXTRA).type for schema in found if EXTRA in schema.names]
    for extra in extras:
        if {part.name for part in extra} != _UNSHREDDED:
            raise WrongUse(f"{table} was written by Spark and has to be merged by Spark: give a --master")
    return arrow_schema(table, extra=bool(extras))


def batch_schema(place: Place, file: FileEntry) -> pa.Schema:
    """Returns the columns of a file as it has them."""
    filesystem, path = place.arrow(file.path)
    return parquet.read_schema(path, filesystem=filesystem).remove_metadata()


def batches(
    place: Place, file: FileEntry, *, keys: Keys | None = None, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Returns the rows of a file in order, as the file has them.

    Args:
        place: Where it lies.
        file: The file.
        keys: The runs that are wanted, with attempt; all if None. Row groups without any are not read.
        columns: The columns that are wanted; all if None.
    """
    filesystem, path = place.arrow(file.path)
    # Handing small files from thread to thread takes longer than reading them.
    threads = file.bytes > _SMALL
    with parquet.ParquetFile(path, filesystem=filesystem, pre_buffer=threads) as opened:
        groups = [
            group
            for group in range(opened.num_row_groups)
            if keys is None or _may_hold(opened.metadata.row_group(group), keys)
        ]
        wanted = None if columns is None or keys is None else [*columns, "run_id", "attempt"]
        rows = _batch_rows(opened.metadata)
        for batch in opened.iter_batches(
            rows, row_groups=groups, columns=wanted or columns, use_threads=threads
        ):
            yield batch if keys is None else batch.filter(_of(batch, keys))


def count(place: Place, file: FileEntry) -> int:
    """Reads a file to its end, and returns how many rows it has.

    Raises:
        pyarrow.ArrowException: Its bytes are not those that were written: Arrow and Spark put a checksum in front of
            each page.
        OSError: The same, or it cannot be read.
    """
    filesystem, path = place.arrow(file.path)
    with parquet.ParquetFile(path, filesystem=filesystem, page_checksum_verification=True) as opened:
        return sum(batch.num_rows for batch in opened.iter_batches(_batch_rows(opened.metadata)))


def drain(place: Place, file: FileEntry) -> None:
    """Reads a compressed raw file to its end; raises as ``count`` does."""
    filesystem, path = place.arrow(file.path)
    with filesystem.open_input_stream(path, compression="zstd") as stream:
        while stream.read(_READ_BYTES):
            pass


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows with other columns: those it lacks are null."""
    names = set(batch.schema.names)
    return pa.record_batch(
        [
            _column(batch.column(wanted.name), wanted)
            if wanted.name in names
            else _nothing(batch.num_rows, wanted)
            for wanted in schema
        ],
        schema=schema,
    )


def runs_in(place: Place, file: FileEntry) -> set[tuple[str, int]]:
    """Returns the runs, with attempt, that have rows in a file."""
    found: set[tuple[str, int]] = set()
    for batch in batches(place, file, columns=["run_id", "attempt"]):
        distinct = pa.table(batch.columns, batch.schema.names).group_by(["run_id", "attempt"]).aggregate([])
        found |= {(row["run_id"], row["attempt"]) for row in distinct.to_pylist()}
    return found


def keys_of(runs: Iterable[tuple[str, int]]) -> Keys:
    """Returns runs with attempt, by attempt."""
    result: dict[int, set[str]] = {}
    for run_id, attempt in runs:
        result.setdefault(attempt, set()).add(run_id)
    return {attempt: frozenset(names) for attempt, names in result.items()}


def _column(values: pa.Array, wanted: pa.Field) -> pa.Array:
    if wanted.name != EXTRA:
        return values.cast(wanted.type)
    # The two halves stand in either order, depending on who wrote them.
    halves = [pc.fill_null(pc.struct_field(values, part.name), b"") for part in wanted.type]
    return pa.StructArray.from_arrays(halves, fields=list(wanted.type), mask=values.is_null())


def _nothing(count: int, wanted: pa.Field) -> pa.Array:
    if wanted.name != EXTRA:
        return pa.nulls(count, wanted.type)
    # What is inside may not be null, even where all of it is.
    halves = [pa.array([b""] * count, part.type) for part in wanted.type]
    return pa.StructArray.from_arrays(halves, fields=list(wanted.type), mask=pa.array([True] * count))


def _of(batch: pa.RecordBatch, keys: Keys) -> pa.Array:
    mask = pa.array([False] * batch.num_rows)
    for attempt, names in keys.items():
        these = pc.is_in(batch.column("run_id"), value_set=pa.array(sorted(names), pa.string()))
        mask = pc.or_(mask, pc.and_(these, pc.equal(batch.column("attempt"), attempt)))
    return mask


def _batch_rows(about: Any) -> int:
    """Returns how many rows to read at a time: one may hold four MiB, and mostly they hold a hundred bytes."""
    size: int = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    rows: int = about.num_rows
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(size, 1)))


def _may_hold(group: Any, keys: Keys) -> bool:
    """Whether a row group may have rows of these runs, by its smallest and largest run id."""
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == "run_id":
            known = column.statistics
            if known is None or not known.has_min_max:
                return True
            return any(known.min <= name <= known.max for names in keys.values() for name in names)
    return True
