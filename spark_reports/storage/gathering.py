"""Many small files of a store as a few, for the time of one command.

A store keeps a file for each run and rollup. Opening one costs Spark milliseconds, whatever is in it, and a report
asks about the same rollups again and again: over two hundred runs that is thousands of files. So each table that is
small is copied into one file next to Spark before it is asked about; which takes no Spark, and is done while that
starts. Merging for good is ``zenoh-reports store compact``.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_reports.errors import DataTrouble
from spark_reports.pages.text import one_line
from spark_reports.storage.commits import Commit, FileEntry
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

_SMALL = 1 << 12


class Gathered:
    """The small tables of some runs, each in one file of a folder.

    Args:
        store: Where they are.
        commits: The runs.
        folder: Where the copies go; Spark has to see it, and it goes away after the session.
    """

    def __init__(self, store: Store, commits: Sequence[Commit], folder: Path) -> None:
        now, self._generations = store.snapshot()
        named = {commit.run_id for commit in commits}
        # Of a run that was taken in anew since, the new attempt, as the views have it.
        self._store, self._commits = store, [commit for commit in now if commit.run_id in named]
        self._copies = Store(folder, durable=False)
        self._folder = folder
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="gather")
        # Those that take longest first.
        by_size = sorted(TABLES, key=lambda table: -sum(commit.rows(table) for commit in commits))
        self._made: dict[str, Future[FileEntry | None]] = {
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
            copy = self._made[table].result() if table in self._made else None
            return whole.frame(table) if copy is None else read_files(spark, self._copies, table, [copy])

        return Views(spark, opener)

    def _gather(self, table: str) -> FileEntry | None:
        """Copies a table into one file; None if that is not worth it."""
        from pyarrow import dataset, parquet

        files = self._store.files(table, self._commits, self._generations.get(table))
        entries = (*files.merged, *files.loose)
        size = sum(entry.bytes for entry in entries)
        if len(entries) <= FEW_FILES or size > MOST_BYTES or files.mixed:
            return None
        filesystem, _ = self._store.place.arrow("")
        paths = [self._store.place.arrow(entry.path)[1] for entry in entries]
        schema = arrow_schema(table)
        try:
            rows = dataset.dataset(paths, schema=schema, format="parquet", filesystem=filesystem).to_table()
        except (OSError, pa.ArrowException) as error:
            raise DataTrouble(
                f"a file of the store's table {table} is missing or damaged: {one_line(str(error))}; "
                "`zenoh-reports store check` may say which; docs/store.md says how to take its run in again"
            ) from None
        path = self._folder / f"{table}.parquet"
        parquet.write_table(
            rows, path, compression="none", row_group_size=max(_SMALL, -(-len(rows) // PARTS))
        )
        return FileEntry(path.name, len(rows), path.stat().st_size)
