"""The tables of a store as DataFrames: only what records name, with columns that are known beforehand."""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_reports.errors import DataTrouble
from spark_reports.storage import lake
from spark_reports.storage.places import BY_NAME, as_glob, is_pattern, plain_address
from spark_reports.storage.store import (
    APART,
    BASE_TABLES,
    PARQUET,
    ROLLUP_TABLES,
    Commit,
    FileEntry,
    Store,
    TableFiles,
)
from spark_reports.storage.tables import SCHEMAS, later_values

NAMES = (*BASE_TABLES, *ROLLUP_TABLES, APART)
"""Every view."""

FEW_FILES = 4
"""So many are opened as quickly as one."""

FEW_ROWS = 1_000_000
"""So many in few files one task reads: what follows stays in it, without a shuffle between its steps, each of which
would be another program to compile and another set of tasks."""


class Views:
    """One DataFrame for each table and rollup, as an attribute; none is opened before it is used.

    Args:
        spark: The session of all of them.
        opener: Opens one by its name, without a job.
        changing: Opens what may have changed of a rollup, where the rest was set aside.
    """

    def __init__(
        self,
        spark: SparkSession,
        opener: Callable[[str], DataFrame],
        changing: Callable[[str], DataFrame] | None = None,
    ) -> None:
        self.spark = spark
        self._open = opener
        self._changing = changing
        self._opened: dict[str, DataFrame] = {}
        # Threads that use the same one wait for it instead of opening it twice.
        self._lock = threading.Lock()

    def frame(self, name: str) -> DataFrame:
        """Returns the rows of a table or rollup.

        Raises:
            ValueError: There is none of that name.
        """
        if name not in NAMES:
            raise ValueError(f"no view {name}; there are {', '.join(NAMES)}")
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

    def changing(self, name: str) -> DataFrame:
        """Returns a rollup, where it can be without most of what only ever passed."""
        return self.frame(name) if self._changing is None else self._changing(name)

    def register(self) -> None:
        """Makes every view known to SQL by its name."""
        for name in NAMES:
            self.frame(name).createOrReplaceTempView(name)

    @property
    def runs(self) -> DataFrame:
        """RunRow with ``state`` and ``notes``."""
        return self.frame("runs")

    @property
    def verdicts(self) -> DataFrame:
        """VerdictRow."""
        return self.frame("verdicts")

    @property
    def observations(self) -> DataFrame:
        """ObservationRow."""
        return self.frame("observations")

    @property
    def cases(self) -> DataFrame:
        """FuzzCaseRow."""
        return self.frame("cases")

    @property
    def findings(self) -> DataFrame:
        """FindingRow."""
        return self.frame("findings")

    @property
    def coverage(self) -> DataFrame:
        """CoverageRow."""
        return self.frame("coverage")

    @property
    def benchmarks(self) -> DataFrame:
        """BenchmarkRow."""
        return self.frame("benchmarks")

    @property
    def requirements(self) -> DataFrame:
        """Requirements and the worst outcome of each."""
        return self.frame("requirements")

    @property
    def checks(self) -> DataFrame:
        """Verdicts without their long texts."""
        return self.frame("checks")

    @property
    def case_outcomes(self) -> DataFrame:
        """How many cases of each kind ended how."""
        return self.frame("case_outcomes")

    @property
    def case_times(self) -> DataFrame:
        """Histograms of the time to the answer of a case."""
        return self.frame("case_times")

    @property
    def buckets(self) -> DataFrame:
        """What the cases of a bucket in a campaign have in common, and the smallest of them."""
        return self.frame("buckets")

    @property
    def traffic(self) -> DataFrame:
        """Batches of the tests."""
        return self.frame("traffic")

    @property
    def reply_times(self) -> DataFrame:
        """Histograms of the time from a stimulus of a test to the reply."""
        return self.frame("reply_times")

    @property
    def apart(self) -> DataFrame:
        """Lines that are no rows."""
        return self.frame("apart")


def open_views(spark: SparkSession, store: Store, commits: Sequence[Commit] | None = None) -> Views:
    """Returns the views of a store as it is now; what is published later is not in them.

    Args:
        spark: The session.
        store: The store.
        commits: The runs that are wanted; all if None.
    """
    now, generations = store.snapshot()
    # Of a run that was taken in anew since, the new attempt: the files of the other one may be gone.
    named = None if commits is None else {commit.run_id for commit in commits}
    wanted = [commit for commit in now if named is None or commit.run_id in named]

    table_format = store.format

    def opener(table: str) -> DataFrame:
        if table_format != PARQUET:
            held = [(commit.run_id, commit.attempt) for commit in wanted if table in commit.tables]
            if not held:
                return _empty(spark, table)
            address = store.place.address(f"{table_format}/{table}")
            return lake.read(spark, table_format, address, table).where(_of(held))
        return frame_of(spark, store, table, store.files(table, wanted, generations.get(table)))

    return Views(spark, opener)


def frame_of(spark: SparkSession, store: Store, table: str, files: TableFiles) -> DataFrame:
    """Returns the rows of a table that count."""
    frames = []
    if files.merged:
        merged = read_files(spark, store, table, files.merged)
        frames.append(merged.where(_of(files.live)) if files.mixed else merged)
    if files.loose:
        frames.append(read_files(spark, store, table, files.loose))
    if not frames:
        return _empty(spark, table)
    return reduce(DataFrame.unionByName, frames)


def read_files(spark: SparkSession, store: Store, table: str, files: Sequence[FileEntry]) -> DataFrame:
    """Returns the rows of files of one table; what older files lack has the value that stands for it.

    Raises:
        DataTrouble: A file is gone from a store where Spark does not look for itself.
    """
    addresses = [store.place.address(file.path) for file in files]
    reader = spark.read.schema(SCHEMAS[table])
    if any(map(is_pattern, addresses)) and lake.heeds_names(spark):
        _check_there(store, table, files)
        # One by one: of several, Spark 4.3 would read each as often as there are patterns among them.
        by_name = reader.options(**BY_NAME)
        frame = reduce(DataFrame.union, (by_name.parquet(plain_address(one)) for one in addresses))
    else:
        frame = reader.parquet(*map(as_glob, addresses))
    if len(addresses) <= FEW_FILES and sum(file.rows for file in files) <= FEW_ROWS:
        frame = frame.coalesce(1)
    later = {name: sf.coalesce(sf.col(name), _literal(value)) for name, value in later_values(table).items()}
    return frame.withColumns(later) if later else frame


def _check_there(store: Store, table: str, files: Sequence[FileEntry]) -> None:
    from pyarrow import fs

    filesystem, _ = store.place.arrow("")
    paths = [store.place.arrow(file.path)[1] for file in files]
    gone = [found.path for found in filesystem.get_file_info(paths) if found.type == fs.FileType.NotFound]
    if gone:
        raise DataTrouble(
            f"a file of the store's table {table} is missing: {gone[0]}; `zenoh-reports store check` says which; "
            "docs/store.md says how to take its run in again"
        )


def _literal(value: object) -> Column:
    # Of lists Spark takes only Python's own.
    return sf.lit(list(value) if isinstance(value, tuple) else value)


def _empty(spark: SparkSession, table: str) -> DataFrame:
    # createDataFrame would send nothing at all through Python, which takes longer than a whole query.
    nothing = (sf.lit(None).cast(field.dataType).alias(field.name) for field in SCHEMAS[table])
    return spark.range(0).select(*nothing)


def _of(runs: Iterable[tuple[str, int]]) -> Column:
    """Returns whether a row is of one of these runs and attempts."""
    by_attempt: dict[int, list[str]] = {}
    for run_id, attempt in sorted(runs):
        by_attempt.setdefault(attempt, []).append(run_id)
    each = [
        (sf.col("attempt") == attempt) & sf.col("run_id").isin(names) for attempt, names in by_attempt.items()
    ]
    return reduce(Column.__or__, each, sf.lit(False))
