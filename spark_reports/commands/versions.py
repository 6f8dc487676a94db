"""``zenoh-reports versions``: what releases show differently, and since when."""

import argparse
from typing import Any

from spark_reports.commands.common import check_not_empty, say, some_path, some_place
from spark_reports.commands.opening import opened
from spark_reports.engine.session import add_engine_options
from spark_reports.errors import EngineFailed, WrongUse
from spark_reports.folders import find_run_folders


def add(commands: Any) -> None:
    """Adds the parser."""
    versions = commands.add_parser(
        "versions",
        help="list where releases differ, and since when",
        description="Lists for each requirement the first release that differs from the one before: a test changed "
        "between pass and fail, or saw something else. Releases are compared in version order; "
        "`python -m conformance.matrix` runs the suite on many releases.",
    )
    versions.add_argument(
        "runs", nargs="*", type=some_path, metavar="RUNS", help="a run folder, or a folder of run folders"
    )
    versions.add_argument("--store", type=some_place, metavar="URI", help="a store, as for build")
    versions.add_argument(
        "--csv", action="store_true", help="print CSV, including requirements in which no release differs"
    )
    add_engine_options(versions)
    versions.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints what releases show differently."""
    if not arguments.runs and arguments.store is None:
        raise WrongUse("give run folders, a store with --store, or both")
    folders = find_run_folders(arguments.runs)
    if arguments.store is None:
        check_not_empty(folders, arguments.runs)
    try:
        from spark_reports import collect
        from spark_reports.pages import render
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    with opened(arguments, folders) as opened_runs:
        found = collect.collect_differences(opened_runs.views, opened_runs.commits, say)
    print(render.differences_csv(found) if arguments.csv else render.differences_text(found), end="")
    return 0
