"""What keeps a store small and quick: merging, cutting down old runs, sweeping up, looking whether all is there.

Nothing here changes or removes what a reader may have open: new files and new records come first, old files go when
nothing has named them for a time of grace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_reports.errors import DataTrouble, WrongUse
from spark_reports.pages.text import one_line
from spark_reports.rows import type_of_file
from spark_reports.storage.commits import Commit, FileEntry, Generation, age_s
from spark_reports.storage.places import Place
from spark_reports.storage.store import APART, BASE_TABLES, PARQUET, RAW, ROLLUP_TABLES, Store, TableFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

GRACE_S = 24 * 3600.0
"""How long files stay that no record names any more. Longer than any report and, in a remote store, any ingest takes."""

WRITING_S = 3600.0
"""Putting a record down takes no longer than this."""

FEW = 2
"""Merging fewer loose files than this is not worth a new generation."""

MANY = 32
"""From so many loose files on a table is merged without being asked; Spark opens a hundred in a second or two."""

SMALL = 1 << 20
"""Bytes of a file; larger ones are worth opening."""

NORMAL = ("accepted", "closed", "refused", "silent")
"""Verdicts of fuzz cases that need not be kept one by one; the rollups count them."""

THREADS = 2
"""So many tables are merged side by side; each holds a row group in memory."""

QUIET = ("pass", "n/a")
"""Outcomes of tests whose observations need not be kept."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging a table did: files before and after, and rows."""

    table: str
    before: int
    after: int
    rows: int


@dataclass(frozen=True, slots=True)
class Retention:
    """How many days after its start a run keeps what is large; None keeps it for good.

    Runs, verdicts, findings, coverage, benchmarks, all rollups, cases that are not NORMAL and observations of tests
    that are not QUIET stay in any case.

    Attributes:
        raw_days: The files as they were.
        cases_days: All cases.
        observations_days: All observations.
    """

    raw_days: float | None = None
    cases_days: float | None = None
    observations_days: float | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed: files and their bytes, and leftovers of killed writers."""

    files: int
    bytes: int
    leftovers: int


def compact(
    store: Store,
    tables: Iterable[str] = (*BASE_TABLES, *ROLLUP_TABLES, APART),
    *,
    least: int = FEW,
    spark: SparkSession | None = None,
) -> list[Merged]:
    """Merges the files of all runs, table by table, into a new generation of few; the records too, into a checkpoint.

    The files that were merged stay until ``sweep``; who has them open goes on reading.

    Args:
        store: The store.
        tables: Those that are meant.
        least: So many loose files, and runs in merged files that do not count any more, make it worth while.
        spark: Merge base tables by this session, which may be a cluster; None does it here, one file at a time.

    Raises:
        DataTrouble: Another process merges the same table.
    """
    store.require_parquet()
    # Says so if there is no store, before a claim makes its folder.
    store.commits()
    store.checkpoint()
    done = []
    for table in tables:
        with store.merging(table) as merging:
            # Read under the claim, so that what another process has just merged is not merged again.
            commits, generations = store.snapshot()
            files = store.files(table, commits, generations.get(table))
            if len(files.loose) + len(files.held - files.live) < least:
                continue
            old = generations.get(table)
            carried = _as_they_are(files, old)
            again = tuple(file for file in files.merged if file not in carried)
            rest = dataclasses.replace(files, merged=again)
            if spark is not None and table in BASE_TABLES:
                _merge_by_spark(spark, store, table, rest, merging.folder())
            else:
                _merge_here(store.place, table, rest, merging.arrow())
            generation = merging.publish(commits, carried, old)
            rows = sum(file.rows for file in generation.files)
            done.append(Merged(table, len(files.merged) + len(files.loose), len(generation.files), rows))
    return done


def _as_they_are(files: TableFiles, old: Generation | None) -> tuple[FileEntry, ...]:
    """Returns the merged files that need not be written again: large ones in which every row counts."""
    from spark_reports.storage.merging import MERGED_BYTES

    sources = old.sources if old is not None else ()
    dead = {
        part
        for source in sources
        if (source.run_id, source.attempt) not in files.live
        for part in source.parts
    }
    return tuple(file for file in files.merged if file.bytes >= MERGED_BYTES // 2 and file.path not in dead)


def tidy(store: Store, say: Say) -> list[Merged]:
    """Merges the tables of which there are MANY loose files, SMALL ones on average: what makes opening slow.

    It is what an ingest does when it is done. A table that another process is merging, or that only Spark can merge,
    is left as it is.

    Args:
        store: The store; one of another format than Parquet is left alone.
        say: Is told of tables that are left.
    """
    store.checkpoint()
    done: list[Merged] = []
    if store.format != PARQUET:
        return done
    commits, generations = store.snapshot()
    loose = {
        table: store.files(table, commits, generations.get(table)).loose
        for table in (*BASE_TABLES, *ROLLUP_TABLES, APART)
    }
    sizes = {table: sum(file.bytes for file in files) for table, files in loose.items()}
    wanted = [
        table for table, files in loose.items() if len(files) >= MANY and sizes[table] <= SMALL * len(files)
    ]

    def one(table: str) -> list[Merged]:
        try:
            return compact(store, [table])
        except (DataTrouble, WrongUse) as error:
            say(f"{table} stays in {len(loose[table])} files: {error}")
            return []

    # The largest takes as long as all others.
    wanted.sort(key=lambda table: -sizes[table])
    with ThreadPoolExecutor(THREADS, thread_name_prefix="merge") as pool:
        for merged in pool.map(one, wanted):
            done += merged
    return done


def retain(store: Store, retention: Retention, now: dt.datetime | None = None) -> list[Commit]:
    """Cuts down runs that are older than the retention says; returns their new records.

    Their files go with the next ``sweep``, those of merged tables after the next ``compact``.

    Args:
        store: The store.
        retention: What is kept for how long.
        now: The time to count from; None is the present.

    Raises:
        DataTrouble: Another process is at work on the same run.
    """
    store.require_parquet()
    now = now or dt.datetime.now(dt.UTC)
    revised = []
    for seen in store.commits():
        if not _due(seen, retention, now):
            continue
        with store.revising(seen) as staging:
            # Looked at anew for each run: with many of them this takes long, and others go on meanwhile.
            commits, generations = store.snapshot()
            commit = next(commit for commit in commits if commit.run_id == seen.run_id)
            if commit != seen:
                continue
            due = _due(commit, retention, now)
            for table in due:
                if table != RAW:
                    wanted = _loud(store, commit, generations, table)
                    _cut_down(store, commit, generations.get(table), table, wanted, staging.arrow(table))
            revised.append(staging.replace(commit, due))
    return revised


def _due(commit: Commit, retention: Retention, now: dt.datetime) -> list[str]:
    """Returns the tables of a run that are to be cut down."""
    days = (now - _start(commit)).total_seconds() / 86400
    limits = {
        RAW: retention.raw_days,
        "cases": retention.cases_days,
        "observations": retention.observations_days,
    }
    return [
        table
        for table, limit in limits.items()
        if limit is not None and days > limit and table in commit.tables and table not in commit.trimmed
    ]


def sweep(store: Store, grace_s: float = GRACE_S) -> Swept:
    """Removes what killed writers left, and files that no record has named for a time.

    Args:
        store: The store.
        grace_s: For how long, in seconds. A report that takes longer may lose its files under its hands.
    """
    store.require_parquet()
    store.commits()
    leftovers = len(store.clean())
    place = store.place
    folders = ("tables", "rollups", APART, RAW, "compact")
    # The order matters. A file that is seen here and is no part of a record read later has no writer either,
    # unless that writer still holds its claim when the claims are read in between.
    seen = [found for folder in folders for found in place.walk(folder)]
    busy = store.busy()
    history = store.history()
    generations = store.all_generations()
    replaced = [one for one, later in _with_next(generations) if later and age_s(later.created_at) >= grace_s]
    kept = _named(history, generations, grace_s)
    now = dt.datetime.now(dt.UTC).timestamp()
    gone = [
        found
        for found in seen
        if found.path not in kept
        and now - found.modified >= grace_s
        and not any(found.path.startswith(folder) for folder in busy)
    ]
    # First the records of generations whose files go, so that none names what is not there.
    store.forget_generations(replaced)
    gone += [found for found in store.unfinished() if now - found.modified >= max(grace_s, WRITING_S)]
    place.remove(found.path for found in gone)
    return Swept(len(gone), sum(found.bytes for found in gone), leftovers)


def check(store: Store, *, read: bool = False) -> list[str]:
    """Returns what is wrong with a store, one sentence each.

    That is files that are not there or not whole, records that only a checkpoint has, and lines that became no row,
    or two.

    Args:
        store: The store.
        read: Read every file to its end too, so that bytes that changed in place are found.
    """
    place = store.place
    # Before the files: what is published in between is no part of it, and what it names stays for a while.
    commits, generations = store.snapshot()
    sizes = {
        found.path: found.bytes
        for folder in ("tables", "rollups", APART, RAW, "compact")
        for found in place.walk(folder)
    }
    needed: dict[str, FileEntry] = {}
    raw: set[str] = set()
    for table in (*BASE_TABLES, *ROLLUP_TABLES, APART, RAW):
        files = store.files(table, commits, generations.get(table))
        mine = {file.path: file for file in (*files.merged, *files.loose)}
        needed |= mine
        if table == RAW:
            raw.update(mine)
    wrong = [
        f"{path} is missing"
        if path not in sizes
        else f"{path} has {sizes[path]} bytes, the record says {file.bytes}"
        for path, file in sorted(needed.items())
        if sizes.get(path) != file.bytes
    ]
    if read:
        whole = [file for path, file in sorted(needed.items()) if sizes.get(path) == file.bytes]
        wrong += filter(None, (_misread(place, file, raw=file.path in raw) for file in whole))
    wrong += store.damaged_records()
    for commit in commits:
        wrong += [f"{commit.run_id}: {text}" for text in _miscounted(commit)]
    return wrong


def _misread(place: Place, file: FileEntry, *, raw: bool) -> str:
    """Reads a file to its end; returns what is wrong with it, nothing when nothing is."""
    from pyarrow import ArrowException

    from spark_reports.storage import merging

    try:
        if raw:
            merging.drain(place, file)
            return ""
        rows = merging.count(place, file)
    except (ArrowException, OSError) as error:
        return f"{file.path} cannot be read: {one_line(str(error))}"
    return "" if rows == file.rows else f"{file.path} has {rows} rows, the record says {file.rows}"


def _miscounted(commit: Commit) -> Iterator[str]:
    for file, account in sorted(commit.accounts.items()):
        if not account.balanced:
            yield (
                f"{file} has {account.lines} lines, but {account.good} good, {account.apart} set aside, "
                f"{account.blank} blank and {account.footers} footers"
            )
        if file in type_of_file:
            table = type_of_file[file].TABLE
            if table not in commit.trimmed and commit.rows(table) != account.good:
                yield f"{file} has {account.good} good lines, {table} has {commit.rows(table)} rows"


def _merge_here(place: Place, table: str, files: TableFiles, target: tuple[Any, str]) -> None:
    from spark_reports.storage import merging

    schema = merging.schema_of(place, table, (*files.merged, *files.loose))
    writer = merging.Writer(target)
    keys = merging.keys_of(files.live) if files.mixed else None
    with contextlib.closing(writer):
        for file in files.merged:
            for batch in merging.batches(place, file, keys=keys):
                writer.write(merging.fit(batch, schema))
        for file in files.loose:
            for batch in merging.batches(place, file):
                writer.write(merging.fit(batch, schema))


def _merge_by_spark(spark: SparkSession, store: Store, table: str, files: TableFiles, folder: str) -> None:
    from spark_reports.storage.merging import MERGED_BYTES
    from spark_reports.storage.views import frame_of

    size = sum(file.bytes for file in (*files.merged, *files.loose))
    parts = max(1, round(size / MERGED_BYTES))
    frame = frame_of(spark, store, table, files)
    spread = frame.coalesce(1) if parts == 1 else frame.repartitionByRange(parts, "run_id")
    inside = spread.sortWithinPartitions("run_id", "attempt")
    inside.write.mode("append").option("compression", "zstd").parquet(folder)


def _loud(
    store: Store, commit: Commit, generations: Mapping[str, Generation], table: str
) -> Callable[[pa.RecordBatch], pa.Array]:
    """Returns what says of each row of a table whether it stays."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if table == "cases":
        normal = pa.array(NORMAL)
        return lambda batch: pc.invert(pc.is_in(batch.column("verdict"), value_set=normal))
    told: set[str] = set()
    quiet = set(QUIET)
    for batch in _rows(store, commit, generations.get("verdicts"), "verdicts", ["test", "outcome"]):
        told |= {row["test"] for row in batch.to_pylist() if row["outcome"] not in quiet}
    tests = pa.array(sorted(told), pa.string())
    return lambda batch: pc.is_in(batch.column("test"), value_set=tests)


def _cut_down(
    store: Store,
    commit: Commit,
    generation: Generation | None,
    table: str,
    wanted: Callable[[pa.RecordBatch], pa.Array],
    target: tuple[Any, str],
) -> None:
    from spark_reports.storage.merging import Writer

    with contextlib.closing(Writer(target)) as writer:
        for batch in _rows(store, commit, generation, table):
            writer.write(batch.filter(wanted(batch)))


def _rows(
    store: Store, commit: Commit, generation: Generation | None, table: str, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Returns the rows of a table of one run."""
    from spark_reports.storage.merging import batches, keys_of

    files = store.files(table, [commit], generation)
    keys = keys_of([(commit.run_id, commit.attempt)])
    for file in files.merged:
        yield from batches(store.place, file, keys=keys, columns=columns)
    for file in files.loose:
        yield from batches(store.place, file, columns=columns)


def _named(history: Sequence[Commit], generations: Sequence[Generation], grace_s: float) -> set[str]:
    """Returns the files that a record names now, or named less than the grace ago."""
    kept: set[str] = set()
    for at, commit in enumerate(history):
        later = history[at + 1 : at + 2]
        if later and later[0].run_id == commit.run_id and age_s(later[0].committed_at) >= grace_s:
            continue
        kept |= {file.path for files in commit.tables.values() for file in files}
    merged_long_ago: set[str] = set()
    held_now: set[str] = set()
    for generation, later_one in _with_next(generations):
        held = {path for source in generation.sources for path in source.paths}
        if later_one is None or age_s(later_one.created_at) < grace_s:
            kept |= {file.path for file in generation.files}
        if later_one is None:
            held_now |= held
        if age_s(generation.created_at) >= grace_s:
            merged_long_ago |= held
    return kept - (merged_long_ago & held_now)


def _with_next(generations: Sequence[Generation]) -> Iterator[tuple[Generation, Generation | None]]:
    """Yields each generation with the one of the same table that replaced it."""
    for at, generation in enumerate(generations):
        later = generations[at + 1] if at + 1 < len(generations) else None
        yield generation, later if later is not None and later.table == generation.table else None


def _start(commit: Commit) -> dt.datetime:
    """Returns when a run started; when it was taken in if it does not say."""
    try:
        found = dt.datetime.fromisoformat(commit.started_at)
    except ValueError:
        found = dt.datetime.fromisoformat(commit.committed_at)
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
