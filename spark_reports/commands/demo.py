"""``zenoh-reports demo``: a store of runs that never took place, its report, and what of the truth is in it."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.commands.common import say, some_path
from spark_reports.engine.session import add_engine_options, engine_session
from spark_reports.errors import EngineFailed, GateFailed, WrongUse
from spark_reports.folders import find_run_folders
from spark_reports.synthetic import LEAST_RUNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_reports.recall import Score
    from spark_reports.report import Report

RUNS = 300
SHOWN = 20


def add(commands: Any) -> None:
    """Adds the parser."""
    demo = commands.add_parser(
        "demo",
        help="create a store of synthetic runs and report on it",
        description="Generates runs of several nodes and releases with planted faults, ingests them into a store and "
        "reports on it. Then prints how much of what was planted the report found (recall) and how much of what it "
        "found was planted (precision). Exits with 1 if either is below 1.",
    )
    demo.add_argument(
        "--out",
        required=True,
        type=some_path,
        metavar="DIR",
        help="output folder for runs, store and report; created if missing",
    )
    demo.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        metavar="N",
        help=f"approximate number of runs, at least {LEAST_RUNS} (default: %(default)s)",
    )
    demo.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="the same seed gives the same runs (default: %(default)s)",
    )
    add_engine_options(demo)
    demo.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Makes all of it, and ends with the path of the page.

    Raises:
        WrongUse: There is something in the folder already, or the runs are too few.
        GateFailed: The report lacks something, or says something that is not so.
    """
    out: Path = arguments.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise WrongUse(f"{out} is not an empty folder; choose a new one")
    if arguments.runs < LEAST_RUNS:
        raise WrongUse(f"--runs: {arguments.runs} is too few; at least {LEAST_RUNS} are needed")
    try:
        from spark_reports import recall, synthetic
        from spark_reports.pages import page, render
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    say(f"generating {arguments.runs} runs")
    try:
        truth = synthetic.make(out / "runs", arguments.runs, arguments.seed)
    except OSError as error:
        raise WrongUse(f"cannot write to {out} ({error.strerror})") from error
    with engine_session(arguments, say=say) as spark:
        report = reported(spark, out)
    path = render.write_report(page.make_page(report), out / "report")
    scores = recall.score(truth, recall.found_in(report, truth))
    print(f"{truth.runs} run folders with {truth.rows} rows, seed {arguments.seed}")
    print(recall.table(scores))
    for line in differences(scores):
        print(line)
    print(path)
    if any(one.missed or one.wrong for one in scores):
        raise GateFailed("the report does not match what was planted")
    return 0


def reported(spark: "SparkSession", out: Path) -> "Report":
    """Takes the runs below a folder into a store beside them, and returns the report on it."""
    from spark_reports import collect
    from spark_reports.storage.ingest import ingest
    from spark_reports.storage.store import Store
    from spark_reports.storage.views import open_views

    folders = find_run_folders([out / "runs"])
    store = Store(out / "store")
    ingest(spark, store, folders, say)
    commits = store.commits()
    duplicates = [folder for folder in folders if folder.duplicate_of is not None]
    return collect.collect(open_views(spark, store, commits), commits, "previous", say, duplicates=duplicates)


def differences(scores: Iterable["Score"]) -> Iterator[str]:
    """Yields what was missed and what was not planted, a line for each."""
    for one in scores:
        for title, facts in (("missed", one.missed), ("not planted", one.wrong)):
            for fact in facts[:SHOWN]:
                yield f"{title}: {one.name}: {', '.join(fact)}"
            if len(facts) > SHOWN:
                yield f"{title}: {one.name}: {len(facts) - SHOWN} more"
