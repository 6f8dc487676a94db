"""``zenoh-reports versions``: what releases show differently, and since when."""

import argparse
import os
from pathlib import Path
from typing import Any

from spark_reports.commands.common import check_not_empty, say
from spark_reports.errors import EngineFailed
from spark_reports.folders import find_run_folders
from spark_reports.java import find_java
from spark_reports.rows import VERDICTS
from spark_reports.session import FAST_LIMIT_BYTES, LOCAL, is_local, spark_session


def add(commands: Any) -> None:
    """Adds the parser."""
    versions = commands.add_parser(
        "versions",
        help="say what releases show differently, and since when",
        description="Lists for each requirement the first release that differs from the release before it: a test "
        "that passes or fails where it did not, or that sees something else. Releases are compared in the order of "
        "their versions; `python -m conformance.matrix` runs the suite on many.",
    )
    versions.add_argument(
        "runs", nargs="+", type=Path, metavar="RUNS", help="a run folder, or a folder of them"
    )
    versions.add_argument(
        "--csv", action="store_true", help="print CSV, with the requirements in which no release differs"
    )
    versions.add_argument(
        "--master",
        default=LOCAL,
        metavar="URL",
        help=f"Spark master, as of build (default: this machine, {LOCAL})",
    )
    versions.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints what releases show differently."""
    roots, master = arguments.runs, arguments.master
    folders = find_run_folders(roots)
    check_not_empty(folders, roots)
    try:
        from spark_reports import load, page, render, report
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    java = find_java(os.environ)
    sizes = [tail.size for folder in folders for name, tail in folder.files.items() if name == VERDICTS]
    say(f"starting Spark {f'on {java}' if is_local(master) else f'with {master}'}")
    with spark_session(java, os.environ, master=master, fast=sum(sizes) < FAST_LIMIT_BYTES) as spark:
        say(f"reading {page.count(len(folders), 'run')}, {sum(sizes) / 1e6:.1f} MB")
        found = report.collect_differences(load.load(spark, folders))
    print(render.differences_csv(found) if arguments.csv else render.differences_text(found), end="")
    return 0
