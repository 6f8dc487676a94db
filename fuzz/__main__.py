"""zenoh-fuzz: runs campaigns against a node."""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from conformance.config import RunConfig
    from conformance.nodes.base import Node
    from fuzz.boo import Budget, Summary
    from fuzz.campaigns import Campaign

OK, FINDINGS, USAGE, FAILED = 0, 1, 2, 3

TERMINAL_SECONDS, LOG_SECONDS = 0.2, 5.0
"""How often the progress is shown: on a terminal, where it overwrites itself, and elsewhere."""

EXAMPLES = """
examples:
  zenoh-fuzz list
  zenoh-fuzz run handshake --node pypi --time 20s
  zenoh-fuzz run session --node pypi:1.10.2 --cases 500 --seed 1
  zenoh-fuzz run session --node tcp/127.0.0.1:7447 --time 2m --run-dir runs/mine

exit codes: 0 no finding, 1 findings, 2 wrong use, 3 the node or the harness failed

The same seed sends the same bytes, but for what each session has of its own (ZenohID, cookie, sequence
number). A node that we start is started again behind a finding; for one that you started we wait until it
is well again. A campaign may share its run folder with other campaigns and with a conformance run.
"""


def main(argv: list[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else USAGE
    try:
        with _signals_interrupt():
            code: int = options.function(options, sys.argv[1:] if argv is None else argv)
    except ImportError as error:
        return _fail(f"{error}; install the extra 'fuzz': pip install 'zenoh-harness[fuzz]'", FAILED)
    except KeyboardInterrupt:
        return _fail("stopped before the campaign came to its end", FAILED)
    return code


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP do what Ctrl-C does, so that a run that is ended from outside is whole."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            # One that is ignored (nohup) stays ignored.
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zenoh-fuzz",
        description="Sends a node what it does not expect, and sees whether it goes on serving.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="show the campaigns")
    listing.set_defaults(function=_list)
    run = commands.add_parser(
        "run",
        help="run a campaign",
        description="Runs one campaign against a node and records every case.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("campaign", metavar="CAMPAIGN", help="its name, see: zenoh-fuzz list")
    run.add_argument(
        "--node",
        required=True,
        help="a locator like tcp/127.0.0.1:7447, or pypi[:VERSION] to start eclipse-zenoh",
    )
    run.add_argument(
        "--time", metavar="TIME", type=_seconds, help="how long, like 20s, 2m, 1h (default: 60s)"
    )
    run.add_argument(
        "--cases", metavar="N", type=_count, help="end after so many cases; --time may end it earlier"
    )
    run.add_argument(
        "--seed", metavar="N", type=_whole, help="of the order of the cases (default: random, shown)"
    )
    run.add_argument(
        "--run-dir", metavar="DIR", type=Path, help="where rows and captures go (default: runs/<new id>)"
    )
    run.add_argument(
        "--i-may-test-this-node",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )
    run.set_defaults(function=_run)
    return parser


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text)
    if not found or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write one like 20s, 2m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"]


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 19 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of cases; write one like 500")
    return int(text)


def _whole(text: str) -> int:
    # The rows hold 64 bits; a longer one would make the run unreadable for reports.
    if not text.isdecimal() or len(text) > 19 or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no seed; write a whole number like 1")
    return int(text)


def _fail(message: str, code: int) -> int:
    _print(f"zenoh-fuzz: {message}", file=sys.stderr)
    return code


def _print(text: str, end: str = "\n", file: TextIO | None = None) -> None:
    """Prints; goes on when nobody reads any more (``| head``): what counts is in the run folder."""
    stream = sys.stdout if file is None else file
    try:
        print(text, end=end, file=stream, flush=True)
    except OSError:
        # Python flushes once more when it exits and would complain about the same thing again.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _list(options: argparse.Namespace, argv: list[str]) -> int:  # noqa: ARG001  (called like the others)
    from fuzz.campaigns import CAMPAIGNS

    for campaign in CAMPAIGNS.values():
        _print(f"{campaign.name}: {campaign.purpose}")
        _print(f"  states    {', '.join(campaign.states)}")
        _print(f"  messages  {'; '.join(campaign.messages)}")
        _print(f"  oracles   {', '.join(campaign.oracles)}")
    return OK


def _run(options: argparse.Namespace, argv: list[str]) -> int:
    from conformance.config import RunConfig, prepare_run_dir
    from conformance.errors import HarnessError, Unmet, UsageError
    from conformance.nodes import node_of
    from fuzz.boo import Budget
    from fuzz.campaigns import CAMPAIGNS
    from spark_reports.rows import FUZZ_CASES, RowsError, check_appendable, new_run_id

    campaign = CAMPAIGNS.get(options.campaign)
    if campaign is None:
        return _fail(f"there is no campaign {options.campaign!r}; there are: {', '.join(CAMPAIGNS)}", USAGE)
    run_dir = options.run_dir or Path("runs") / new_run_id()
    config = RunConfig(
        node=options.node,
        run_dir=run_dir,
        run_id=run_dir.resolve().name,
        seed=random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed,
        may_test=options.i_may_test_this_node,
    )
    seconds = 60.0 if options.time is None and options.cases is None else options.time
    new = not run_dir.exists()
    try:
        node = node_of(config, f"fuzz-{campaign.name}")
        prepare_run_dir(run_dir)
        # Before the node starts and run.json is written: a refused folder stays as it is.
        check_appendable(run_dir / FUZZ_CASES)
        return run_campaign(config, node, campaign, Budget(seconds, options.cases), command(argv))
    except (UsageError, RowsError) as error:
        return _fail(str(error), USAGE)
    except Unmet as error:
        return _fail(f"the node does not serve to begin with: {error}", FAILED)
    except HarnessError as error:
        return _fail(str(error), FAILED)
    except OSError as error:
        return _fail(
            f"cannot write to {run_dir}: {error.strerror}; what was recorded so far is there", FAILED
        )
    finally:
        if new:
            _remove_empty(run_dir)


def _remove_empty(folder: Path) -> None:
    """Removes a run folder in which nothing was recorded."""
    with suppress(OSError):
        (folder / "captures").rmdir()
    with suppress(OSError):
        folder.rmdir()


def command(argv: list[str]) -> str:
    """Returns what was typed, without paths of this machine."""
    words = [word if "tcp/" in word else word.rstrip("/").rpartition("/")[2] for word in argv]
    return shlex.join(["zenoh-fuzz", *words])


def run_campaign(config: RunConfig, node: Node, campaign: Campaign, budget: Budget, typed: str) -> int:
    """Runs a campaign against a node and shows what it found.

    Args:
        config: The run; its folder is there.
        node: Not started yet.
        campaign: The plan.
        budget: When to end.
        typed: The command, for the record.

    Returns:
        The exit code.

    Raises:
        HarnessError: The node cannot be had, or is not to be had any more.
        OSError: The rows cannot be written.
    """
    from conformance.recorder import close_run, open_run
    from fuzz.boo import Runner, forget_cores
    from fuzz.recorder import Recorder

    forget_cores()
    try:
        node.start()
        node.ask(config.reply)
        row = open_run(config, node, "fuzz", typed)
        failed = True
        try:
            with Recorder(config, campaign.name) as recorder:
                runner = Runner(config, node, campaign, budget, recorder, Progress())
                where = f"{node.impl} {node.version} at {node.locator}"
                _say(f"{campaign.name} against {where}, seed {config.seed}")
                try:
                    summary = runner.run()
                    if node.owned and summary.triage.findings and not summary.interrupted:
                        _say("sending the smallest case of each finding again, to fresh nodes")
                        runner.replay()
                finally:
                    _end_line()
                    show(runner.summary, config)
            failed = False
        finally:
            close_run(config, row, failed=failed)
    finally:
        node.stop()
    return FINDINGS if summary.triage.findings else OK


def _say(text: str) -> None:
    _print(text, file=sys.stderr)


def _end_line() -> None:
    if sys.stderr.isatty():
        _print("", file=sys.stderr)


class Progress:
    """Shows how far a campaign is: one line that refreshes on a terminal, else a line now and then."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next = now()

    def __call__(self, summary: Summary) -> None:
        """Shows it when it is time to."""
        now = self._now()
        if now < self._next:
            return
        terminal = sys.stderr.isatty()
        self._next = now + (TERMINAL_SECONDS if terminal else LOG_SECONDS)
        line = (
            f"{summary.seconds:.0f} s: {summary.cases} cases, {summary.rate:.0f}/s, "
            f"{len(summary.triage.findings)} findings, {summary.restarts} restarts"
        )
        _print(f"\r{line}\x1b[K" if terminal else line, end="" if terminal else "\n", file=sys.stderr)


def show(summary: Summary, config: RunConfig) -> None:
    """Prints what a campaign did and found."""
    from fuzz.recorder import relative

    ended = " (stopped)" if summary.interrupted else ""
    rates = f"{summary.rate:.0f} a second, {summary.healthy_rate:.0f} while the node was well"
    _print(f"{summary.cases} cases in {summary.seconds:.1f} s: {rates}{ended}")
    _print(
        f"{len(summary.messages)} of {summary.all_messages} messages, {len(summary.fields)} of {summary.all_fields} fields"
        f"; {summary.singles} cases with one lie exist"
    )
    if summary.inconclusive:
        _print(f"{summary.inconclusive} cases inconclusive: the node did not come into their state")
    if summary.restarts:
        _print(f"{summary.restarts} restarts, the longest {summary.slowest_restart:.2f} s")
    if summary.capture_is_full:
        _print("the capture of the campaign is full; the last cases are in the rows only")
    for finding in summary.triage.findings.values():
        tries, hits = finding.confirmed
        _print(f"finding: {finding.bucket}")
        _print(
            f"  {finding.hits} cases, first {finding.first}, smallest {finding.smallest} ({finding.size} bytes)",
            end="",
        )
        _print(f", again on a fresh node {hits} of {tries} times" if tries else "")
        # What triggers it stays in the run folder: this output may end in the log of a public CI.
        _print(f"  field {finding.case.field}")
        if finding.masked:
            _print(f"  {finding.masked} cases like it were left out")
    if not summary.triage.findings:
        _print("no finding")
    _print(f"rows and captures: {relative(config.run_dir.resolve())}")


if __name__ == "__main__":
    sys.exit(main())
