"""zenoh-reports: what conformance runs and fuzz campaigns recorded, or what captures hold, as one report.

Exit codes: 0 a report was written; 1 it was, and a gate failed; 2 wrong use; 3 nothing there that can be read, or
too little to judge by; 4 no Java, or Spark does not work; 130 interrupted. An error is one line on standard error.
"""

import argparse
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from scapy_layers.commands.terminal import add_version, end_at_once
from spark_reports.commands import build, demo, doctor, ingest, query, store, traffic, versions, warmup, watch
from spark_reports.commands.common import say
from spark_reports.errors import ReportError, WrongUse
from spark_reports.pages.text import visible

COMMANDS = (build, ingest, versions, store, query, watch, demo, traffic, doctor, warmup)
"""The modules of the commands, in the order of the help."""

CLOSED_PIPE = 141
"""Exit code where nobody reads the output any more, as shells have it for SIGPIPE."""

_EXAMPLES = """\
examples:
  zenoh-reports build runs --out report              all runs below a folder
  zenoh-reports build runs/A runs/B --out report     these two runs
  zenoh-reports build runs --store store --out report --fail-on new-failures,new-findings
  zenoh-reports build --store store --out report --baseline 1.9.0 --master spark://host:7077
  zenoh-reports query "SELECT node_version, count(*) FROM runs GROUP BY ALL" --store store
  zenoh-reports watch runs                           campaigns and suites while they run
  zenoh-reports demo --out demo                      300 runs with planted faults, and how many a report finds
  zenoh-reports versions runs                        where releases differ, and since when
  zenoh-reports traffic captures --out traffic       rates, keys and request times in captures
  zenoh-reports traffic 'day1/*.pcapng' big.pcap --out traffic --interval 100ms --format csv
  zenoh-reports doctor                               what is installed, and whether it works

exit codes:
  0 done   1 a gate failed   2 wrong use   3 the data is missing or damaged   4 no Java, or Spark does not work
"""


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    parser = _parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.exit(2, parser.format_help())
    if not logging.getLogger().handlers:
        # Py4J tells the root logger of every interrupt, with a traceback that helps nobody on a terminal.
        logging.getLogger().addHandler(logging.NullHandler())
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal need not have all letters, and a path need not be text.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        arguments = parser.parse_args(argv)
        with _ended_in_order():
            code = int(arguments.function(arguments))
            sys.stdout.flush()
    except ReportError as error:
        # Words of a node or of a file may be in it.
        say(f"zenoh-reports: {visible(str(error)).replace(chr(10), ' ')}")
        return error.exit_code
    except KeyboardInterrupt:
        say("zenoh-reports: interrupted")
        return 130
    except BrokenPipeError:
        # Python flushes once more when it exits and would complain about the same thing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as error:
        # A full disk, a name that is too long, a folder of somebody else: wherever it was, no gate has failed.
        say(f"zenoh-reports: {visible(str(error)).replace(chr(10), ' ')}")
        return WrongUse.exit_code
    return code


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Takes SIGTERM, by which pipelines cancel, for Ctrl-C: what was made for the time of the command goes away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zenoh-reports",
        description="Makes reports with Spark: report.html, summary.md and report.json from recorded runs; "
        "traffic.html, traffic.json and tables from captures.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser


def command() -> NoReturn:
    """Runs a command and ends the process."""
    end_at_once(main())


if __name__ == "__main__":
    command()
