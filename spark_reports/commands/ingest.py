"""``zenoh-reports ingest``: run folders into a store."""

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_reports.commands.common import check_not_empty, say, some_path, some_place
from spark_reports.engine.session import add_engine_options, engine_session
from spark_reports.engine.settings import FAST_LIMIT_BYTES
from spark_reports.errors import DataTrouble, EngineFailed
from spark_reports.folders import RunFolder, find_run_folders

if TYPE_CHECKING:
    from spark_reports.storage.ingest import Ingested

FORMATS = ("parquet", "delta", "iceberg")

MAX_APART = 1.0
"""Percent of the lines that may be kept apart: more is no accident of one file."""

FEW_APART = 10
"""So many lines kept apart are never too many: each run that was killed leaves one."""


def add(commands: Any) -> None:
    """Adds the parser."""
    ingest = commands.add_parser(
        "ingest",
        help="ingest run folders into a store",
        description="Ingests all run folders at and below the given folders into a store: Parquet files, one folder for "
        "each run and attempt, with a record of each. A run already in the store is skipped; if it has changed since, "
        "it becomes a new attempt. Invalid lines are set aside with file, line number and reason. Any number of "
        "processes can ingest into one store at the same time.",
    )
    ingest.add_argument(
        "runs", nargs="+", type=some_path, metavar="RUNS", help="a run folder, or a folder of run folders"
    )
    ingest.add_argument(
        "--store",
        required=True,
        type=some_place,
        metavar="URI",
        help="target store: a folder or URI (s3, gs, abfss, hdfs); created if missing",
    )
    ingest.add_argument(
        "--format",
        choices=FORMATS,
        help="format of a new store: parquet needs nothing extra, the others a Spark that has them (default: parquet)",
    )
    ingest.add_argument(
        "--keep-raw",
        action="store_true",
        help="also keep the original files, compressed (a tenth of their size)",
    )
    ingest.add_argument(
        "--max-apart",
        type=_percent,
        default=MAX_APART,
        metavar="PERCENT",
        help="exit with 3 if more than this percentage of the lines is invalid, and more than "
        f"{FEW_APART} lines are; the valid ones are in the store anyway (default: %(default)g)",
    )
    add_engine_options(ingest)
    ingest.set_defaults(function=run)


def _percent(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0 to 100")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Takes run folders in, and ends with what became of their lines."""
    folders = find_run_folders(arguments.runs)
    check_not_empty(folders, arguments.runs)
    try:
        from spark_reports.storage.ingest import Scans, in_words, ingest, scan_ahead
        from spark_reports.storage.store import Store
        from spark_reports.storage.upkeep import tidy
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    store = Store(arguments.store)
    if arguments.format is not None:
        store.create(arguments.format)
    size = sum(tail.size for folder in folders for tail in folder.files.values())
    scanned: list[Scans] = []
    with engine_session(
        arguments,
        # No line goes through Java, however many there are.
        input_bytes=min(size, FAST_LIMIT_BYTES - 1),
        say=say,
        meanwhile=lambda: scanned.append(scan_ahead(folders)),
    ) as spark:
        say(f"ingesting {_runs(folders)}, {size / 1e6:.1f} MB")
        done = ingest(spark, store, folders, say, keep_raw=arguments.keep_raw, ahead=scanned[0])
    if merged := tidy(store, say):
        say(f"merged the small files of {len(merged)} tables")
    for path in done.duplicates:
        say(f"warning: {path} holds the same run as another folder; skipped")
    for trouble in done.troubles:
        say(f"warning: not ingested: {trouble}")
    print(in_words(done.account))
    print(f"{_counted(done)}: {arguments.store}")
    _check(done, arguments.max_apart, arguments.store)
    return 0


def _runs(folders: Sequence[RunFolder]) -> str:
    return f"{len(folders)} run{'s' * (len(folders) != 1)}"


def _counted(done: "Ingested") -> str:
    words = [f"{len(done.commits)} ingested"]
    later = sum(commit.attempt > 1 for commit in done.commits)
    if later:
        words.append(f"{later} of them as a new attempt")
    for number, what in (
        (len(done.known), "already in the store"),
        (len(done.duplicates), "duplicates"),
        (len(done.troubles), "not ingested"),
    ):
        if number:
            words.append(f"{number} {what}")
    return ", ".join(words)


def _check(done: "Ingested", max_apart: float, store: str) -> None:
    """Refuses to call it a success if runs are missing, or too much is.

    Raises:
        DataTrouble: So it is.
    """
    if done.troubles:
        raise DataTrouble(f"{len(done.troubles)} of the runs could not be ingested: {done.troubles[0]}")
    account = done.account
    judged = account.good + account.apart
    if account.apart > FEW_APART and account.apart > judged * max_apart / 100:
        raise DataTrouble(
            f"{account.apart} of {judged} lines are invalid, more than {max_apart:g} %; "
            f"`zenoh-reports query 'FROM apart' --store {shlex.quote(store)}` shows them"
        )
