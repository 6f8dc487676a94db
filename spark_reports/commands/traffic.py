"""``zenoh-reports traffic``: a report over captures."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.commands.common import say, some_path, some_place
from spark_reports.commands.times import seconds
from spark_reports.engine.session import add_engine_options, engine_session
from spark_reports.errors import EngineFailed, NothingToReport, WrongUse

if TYPE_CHECKING:
    from spark_reports.captures.traffic_page import Page


def add(commands: Any) -> None:
    """Adds the parser."""
    traffic = commands.add_parser(
        "traffic",
        help="write a report on the traffic in captures",
        description="Writes traffic.html, traffic.json and complete tables (keys, nodes, rates, requests, sessions, "
        "gaps, errors; one folder each, replacing that of an earlier report) for pcap and pcapng captures, plain or "
        "compressed (gzip, bzip2, xz). Damaged captures are used up to the damage, and the report says so.",
    )
    traffic.add_argument(
        "captures",
        nargs="+",
        type=some_place,
        metavar="CAPTURES",
        help="a file, a folder, or a pattern such as 'day1/*.pcapng'",
    )
    traffic.add_argument(
        "--out", required=True, type=some_path, metavar="DIR", help="output folder; created if missing"
    )
    traffic.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="TIME",
        help="interval in which rates are counted: 1s, 100ms, 5m, 1h (default: 1s)",
    )
    traffic.add_argument(
        "--format",
        choices=("parquet", "csv"),
        default="parquet",
        help="format of the tables (default: %(default)s)",
    )
    add_engine_options(traffic)
    traffic.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes a report over captures, tells what is in it, and ends with the path of the page."""
    out: Path = arguments.out
    try:
        from spark_reports.captures import capture_source, traffic_page, traffic_report
        from spark_reports.pages import render
        from spark_reports.pages.page import count
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    try:
        captures = capture_source.find(arguments.captures)
    except ValueError as error:
        raise WrongUse(str(error)) from error
    if not captures:
        raise NothingToReport(f"no captures in {', '.join(arguments.captures)}")
    size = sum(Path(capture).stat().st_size for capture in captures)
    render.check_writable(out)
    # A byte of a capture is as much work as several of rows.
    with engine_session(arguments, input_bytes=8 * size, say=say) as spark:
        say(f"reading {count(len(captures), 'capture')}, {size / 1e6:.1f} MB")
        with traffic_report.frames(*traffic_report.read(spark, captures)) as made:
            result = traffic_report.collect(made, arguments.interval, say, captures)
            say("tables")
            traffic_report.write_tables(made, arguments.interval, out.absolute(), arguments.format)
    path = traffic_page.write(result, out)
    _tell(traffic_page.make_page(result), path)
    return 0


def _tell(page: "Page", path: Path) -> None:
    """Prints what a traffic report says, in a few lines."""
    from spark_reports.pages.charts import duration
    from spark_reports.pages.text import one_line, short, visible

    for line in page.traffic.captures:
        if line.damage is not None:
            say(visible(one_line(f"warning: {line.capture}: {line.damage}")))
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
