"""Many small files of a store as a few, for the time of one command.

A store keeps a file for each run and rollup. Opening one costs Spark milliseconds, whatever is in it, and a report
asks about the same rollups again and again: over two hundred runs that is thousands of files. So each table that is
small is copied into one file next to Spark before it is asked about; which takes no Spark, and is done while that
starts. Merging for good is ``zenoh-reports store compact``.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_reports.errors import DataTrouble
from spark_reports.pages.text import one_line
from spark_reports.rows import STALE
from spark_reports.storage.commits import Commit, FileEntry
from spark_reports.storage.steady import ROLLUPS, Name, set_aside
from spark_reports.storage.store import APART, ROLLUP_TABLES, Store
from spark_reports.storage.tables import arrow_schema
from spark_reports.storage.views import FEW_FILES, Views, open_views, read_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = (*ROLLUP_TABLES, "coverage", "findings", "benchmarks", APART)
"""What reports read of all runs."""

MOST_BYTES = 256 << 20
"""What is larger stays where it is: then it is not opening files that takes the time."""

PARTS = 2
"""Row groups of a gathered file, so that more than one core can read it."""

WATCHED = {"checks": (("reason", STALE), ("outcome", "n/a"), ("outcome", "inconclusive"))}
"""Values that a question is about and that are rare: by table, the columns and what may be in them."""

SUMS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "case_outcomes": (
        ("run_id", "attempt", "campaign", "job", "verdict"),
        {"cases": "sum", "first_ns": "min", "last_end_ns": "max", "node_starts": "max"},
    )
}
"""Of tables that a report only adds up: by what, and how. All other columns are empty in such a copy."""

_SMALL = 1 << 12


@dataclass(frozen=True, slots=True)
class _Copy:
    """A table in one file.

    Attributes:
        file: Where; None if it stays where it is.
        seen: Which of the values of ``WATCHED`` are in it.
        few: What is left where rows are set aside; None if there are none of that.
        members: By the one that stands for them there, all of a kind.
    """

    file: FileEntry | None
    seen: frozenset[tuple[str, str]]
    few: FileEntry | None = None
    members: Mapping[Name, Sequence[Name]] = field(default_factory=dict)


class Gathered:
    """The small tables of some runs, each in one file of a folder.

    Args:
        store: Where they are.
        commits: The runs.
        folder: Where the copies go; Spark has to see it, and it goes away after the session.
        summed: Add up what a report adds up anyway, as ``SUMS`` has it.
    """

    def __init__(
        self, store: Store, commits: Sequence[Commit], folder: Path, *, summed: bool = False
    ) -> None:
        now, self._generations = store.snapshot()
        named = {commit.run_id for commit in commits}
        # Of a run that was taken in anew since, the new attempt, as the views have it.
        self._store, self._commits = store, [commit for commit in now if commit.run_id in named]
        self._copies = Store(folder, durable=False)
        self._folder = folder
        self._sums = SUMS if summed else {}
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="gather")
        # Those that take longest first.
        by_size = sorted(TABLES, key=lambda table: -sum(commit.rows(table) for commit in commits))
        self._made: dict[str, Future[_Copy | None]] = {
            table: self._pool.submit(self._gather, table) for table in by_size
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def views(self, spark: "SparkSession") -> Views:
        """Returns the views of the runs; without the columns ``extra`` of what was gathered."""
        whole = open_views(spark, self._store, self._commits)

        def opener(table: str) -> DataFrame:
            file = self._file(table)
            return whole.frame(table) if file is None else read_files(spark, self._copies, table, [file])

        def changing(table: str) -> DataFrame:
            copy = self._copy(table)
            if copy is None or copy.few is None:
                return views.frame(table)
            return read_files(spark, self._copies, table, [copy.few])

        views = Views(spark, opener, changing)
        return views

    def rows(self, table: str) -> int:
        """Returns how many rows the view of a table has; waits until it is there."""
        file = self._file(table)
        return sum(commit.rows(table) for commit in self._commits) if file is None else file.rows

    def changing_rows(self, table: str) -> int:
        """How many rows ``Views.changing`` has of a table; waits until it is there."""
        copy = self._copy(table)
        return self.rows(table) if copy is None or copy.few is None else copy.few.rows

    def members(self, table: str, name: Name) -> Sequence[Name]:
        """Returns those for which one stands in ``Views.changing``, itself among them; none if it is not one of those."""
        copy = self._copy(table)
        return () if copy is None else copy.members.get(name, ())

    def lacks(self, table: str, column: str, value: str) -> bool:
        """Whether no row has a value of ``WATCHED``; False where nobody looked."""
        copy = self._copy(table)
        watched = (column, value) in WATCHED.get(table, ())
        return watched and copy is not None and (column, value) not in copy.seen

    def _file(self, table: str) -> FileEntry | None:
        copy = self._copy(table)
        return None if copy is None else copy.file

    def _copy(self, table: str) -> _Copy | None:
        return self._made[table].result() if table in self._made else None

    def _gather(self, table: str) -> _Copy | None:
        """Copies a table into one file, if that is worth it; None if nobody looked into it."""
        files = self._store.files(table, self._commits, self._generations.get(table))
        entries = (*files.merged, *files.loose)
        watched, rollup = WATCHED.get(table, ()), ROLLUPS.get(table)
        copied = len(entries) > FEW_FILES or table in self._sums
        if not entries or sum(entry.bytes for entry in entries) > MOST_BYTES or files.mixed:
            return None
        if not copied and not watched and rollup is None:
            return None
        rows = self._read(table, entries, None if copied or rollup else list(dict(watched)))
        seen = frozenset(one for one in watched if _holds(rows, *one))
        file = self._write(table, rows) if copied else None
        if rollup is None:
            return _Copy(file, seen)
        left = set_aside(rows, rollup)
        return _Copy(file, seen, self._write(f"changing-{table}", left.rows), left.members)

    def _read(self, table: str, entries: Sequence[FileEntry], columns: list[str] | None) -> pa.Table:
        """Reads files of a table; all columns if none are named."""
        from pyarrow import dataset

        filesystem, _ = self._store.place.arrow("")
        paths = [self._store.place.arrow(entry.path)[1] for entry in entries]
        schema = arrow_schema(table)
        if table in self._sums:
            keys, sums = self._sums[table]
            columns = [*keys, *sums]
        try:
            found = dataset.dataset(paths, schema=schema, format="parquet", filesystem=filesystem)
            rows = found.to_table(columns)
        except (OSError, pa.ArrowException) as error:
            raise DataTrouble(
                f"a file of the store's table {table} is missing or damaged: {one_line(str(error))}; "
                "`zenoh-reports store check` may say which; docs/store.md says how to take its run in again"
            ) from None
        return _added_up(rows, schema, *self._sums[table]) if table in self._sums else rows

    def _write(self, name: str, rows: pa.Table) -> FileEntry:
        from pyarrow import parquet

        path = self._folder / f"{name}.parquet"
        parquet.write_table(
            rows, path, compression="none", row_group_size=max(_SMALL, -(-len(rows) // PARTS))
        )
        return FileEntry(path.name, len(rows), path.stat().st_size)


def _holds(rows: pa.Table, column: str, value: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.equal(rows[column], value)).as_py())


def _added_up(rows: pa.Table, schema: pa.Schema, keys: Sequence[str], sums: Mapping[str, str]) -> pa.Table:
    """Returns one row for each group, with the columns of a schema."""
    made = rows.group_by(list(keys), use_threads=False).aggregate(list(sums.items()))
    there = {
        **{key: made[key] for key in keys},
        **{name: made[f"{name}_{how}"] for name, how in sums.items()},
    }
    columns = [
        there[field.name].cast(field.type) if field.name in there else pa.nulls(len(made), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
