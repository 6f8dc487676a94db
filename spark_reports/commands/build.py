"""``zenoh-reports build``: a report over run folders."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.commands.common import check_not_empty, say
from spark_reports.errors import EngineFailed
from spark_reports.folders import COMPLETE, find_run_folders
from spark_reports.java import find_java
from spark_reports.session import FAST_LIMIT_BYTES, LOCAL, is_local, spark_session

if TYPE_CHECKING:
    from spark_reports.page import Page


def add(commands: Any) -> None:
    """Adds the parser."""
    build = commands.add_parser(
        "build",
        help="write a report over run folders",
        description="Writes a report over all run folders at and below the given folders. Runs that were cut "
        "off or still go on are used as far as they got, and the report says so.",
    )
    build.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="a run folder, or a folder of them")
    build.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="where to write; made if missing"
    )
    build.add_argument(
        "--master",
        default=LOCAL,
        metavar="URL",
        help="Spark master, for example spark://host:7077; the run folders must have the same path on every "
        f"worker (default: this machine, {LOCAL})",
    )
    build.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes a report, tells what is in it, and ends with the path of the page."""
    roots, out, master = arguments.runs, arguments.out, arguments.master
    folders = find_run_folders(roots)
    check_not_empty(folders, roots)
    try:
        from spark_reports import load, page, render, report
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    render.check_writable(out)
    java = find_java(os.environ)
    size = sum(tail.size for folder in folders for tail in folder.files.values())
    where = f"on {java}" if is_local(master) else f"with {master}"
    say(f"starting Spark {where}")
    with spark_session(java, os.environ, master=master, fast=size < FAST_LIMIT_BYTES) as spark:
        say(f"reading {page.count(len(folders), 'run')}, {size / 1e6:.1f} MB")
        result = report.collect(load.load(spark, folders), folders, say)
    path = render.write_report(result, out)
    _tell(page.make_page(result), path)
    return 0


def _tell(page: "Page", path: Path) -> None:
    """Prints what the report says, in a few lines."""
    from spark_reports.page import count
    from spark_reports.report import NEW
    from spark_reports.text import one_line, visible

    states = [run.state for run in page.report.runs if run.state != COMPLETE]
    for state in sorted(set(states)):
        say(f"warning: {count(states.count(state), 'run')} {state}; see data health in the report")
    if page.bad_lines:
        say(f"warning: {count(page.bad_lines, 'line')} not a row, kept apart; see data health in the report")
    lines = [f"{page.span}: {page.headline}"]
    for version in page.versions:
        counts = ", ".join(f"{number} {name}" for name, number in version.counts.items() if number)
        lines.append(f"{version.label}: {counts}")
    found = page.report.findings
    fresh = sum(finding.status == NEW for finding in found)
    if page.cases:
        lines.append(f"{count(len(found), 'finding')} ({fresh} new) in {count(page.cases, 'fuzz case')}")
    for line in lines:
        print(visible(one_line(line)))
    print(path)
