"""``zenoh-fuzz run``: campaigns against a node."""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fuzz.interrupts import Interrupts
from fuzz.progress import Glance, Progress, say
from spark_reports.rows import FUZZ_ENGINES, RUN

if TYPE_CHECKING:
    from conformance.config import Credentials
    from conformance.nodes.base import Node
    from conformance.recorder import NodeFacts
    from fuzz.jobs import Order
    from fuzz.plan import Numbered
    from fuzz.resume import Earlier
    from fuzz.runner import Summary
    from fuzz.summary import Outcome
    from spark_reports.rows import FindingRow, RunRow

OK, FINDINGS, USAGE, FAILED = 0, 1, 2, 3

TARGETS = ("scapy", "columns", "lua", "refnode")
"""Our own readers, and our own node."""

DEFAULT_NODE, REFNODE = "pypi", "ref"

ALL = "all"

USER = "--user"

SECONDS = 60.0
"""How long a run takes when nothing is said."""

MOST_JOBS = 4
"""So many processes play when nobody says how many: a machine that does something else as well stays usable."""

WEB_PORT = 26000
"""Where boofuzz shows its own page when no port is named."""

SQLITE = b"SQLite format 3\x00"
"""What the file of a database begins with."""

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub Actions shows on the page of a job."""

EXAMPLES = """
examples:
  zenoh-fuzz list
  zenoh-fuzz run all --node pypi --time 5m
  zenoh-fuzz run session,keys --node pypi:1.10.2 --cases 100000 --seed 1 --jobs 2
  zenoh-fuzz run handshake --node tcp/127.0.0.1:7447 --engine boofuzz --time 2m --run-dir runs/mine
  zenoh-fuzz run all --node pypi --time 1h --run-dir runs/night --resume

exit codes: 0 nothing new, 1 new findings, 2 usage error, 3 the node or the harness failed

With the same seed, case N of a campaign sends the same bytes, except for values that differ per session
(ZenohID, cookie, sequence number). With --cases, the same cases are run; without it, that depends on timing.
A node started by the fuzzer is restarted after a finding; with a node that you started, the fuzzer waits for
it to recover. Known findings (fuzz/known_findings.toml and --known FILE) are counted and shown but do not
fail a run; once hit often they are avoided, unless --through-known is given. Ctrl-C ends a run cleanly.
"""

DESCRIPTION = """
Runs campaigns against a node and records every case in fuzz_cases.jsonl in the run folder. Whatever harms the
node is confirmed on fresh nodes, minimised, and saved in findings/ in the same folder.
"""


def add_run(commands: Any) -> None:
    """Adds the command."""
    run = commands.add_parser(
        "run",
        help="run one campaign, several, or all",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument(
        "campaigns",
        metavar="CAMPAIGN",
        help="campaign name, several separated by commas, or all; see: zenoh-fuzz list",
    )
    what = run.add_argument_group("target")
    what.add_argument(
        "--node",
        type=named_of,
        help="pypi[:VERSION] to start eclipse-zenoh (default: pypi), a locator like tcp/127.0.0.1:7447 (or tls/..., "
        "udp/..., ws/..., unixsock-stream/...), ref, cmd:'COMMAND {locator}', or cmd:'COMMAND {connect}' for a node that only connects",
    )
    what.add_argument(
        "--profile",
        metavar="NAME[:VERSION]",
        default="",
        help="describes a node that the fuzzer does not know: a built-in profile or a TOML file; known findings are "
        "matched by its name and version",
    )
    what.add_argument(
        "--also",
        metavar="NODE",
        type=named_of,
        help="second node that gets the same cases, for half of the time; differing answers are findings",
    )
    add_user(what)
    what.add_argument("--target", choices=TARGETS, help="fuzz one of the built-in readers instead of a node")
    what.add_argument(
        "--i-may-test-this-node",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )
    much = run.add_argument_group("limits")
    much.add_argument(
        "--time", metavar="TIME", type=seconds_of, help="how long to run, like 20s, 2m, 1h (default: 60s)"
    )
    much.add_argument(
        "--cases", metavar="N", type=count_of, help="stop after N cases; --time may stop the run earlier"
    )
    much.add_argument(
        "--jobs",
        metavar="N",
        type=jobs_of,
        help="number of parallel processes, each with its own node (default: one per core, at most "
        f"{MOST_JOBS}, against pypi or ref; 1 with --cases, --web or --boofuzz-db, and against other nodes)",
    )
    much.add_argument("--rate", metavar="N", type=rate_of, help="maximum number of cases per second")
    much.add_argument(
        "--max-disk",
        metavar="SIZE",
        type=size_of,
        default=None,
        help="stop when the run folder reaches this size, like 500M (default: 4G); the coverage table written at the "
        "end comes on top: up to 9M for all campaigns",
    )
    how = run.add_argument_group("fuzzing")
    how.add_argument(
        "--engine",
        choices=FUZZ_ENGINES,
        default=FUZZ_ENGINES[0],
        help="fast: many cases per session (default); boofuzz: a new session for each case",
    )
    how.add_argument(
        "--seed", metavar="N", type=seed_of, help="seed for the order of the cases (default: random, shown)"
    )
    how.add_argument(
        "--known",
        metavar="FILE",
        type=Path,
        help="TOML file with known findings, in addition to the built-in ones; see docs/findings.md",
    )
    how.add_argument(
        "--through-known",
        action="store_true",
        help="keep running cases that hit known findings again and again",
    )
    how.add_argument(
        "--minimise",
        metavar="TIME",
        type=spare_of,
        default=20.0,
        help="time for minimising each finding, and for retrying it after the run if there was no time before; 0 to "
        "disable (default: 20s)",
    )
    how.add_argument(
        "--corpus",
        metavar="DIR",
        type=folder_of,
        help="folder for messages with new answers, kept between runs",
    )
    how.add_argument(
        "--web",
        metavar="PORT",
        nargs="?",
        const=WEB_PORT,
        type=port_of,
        help=f"serve boofuzz's own web page on loopback (default port: {WEB_PORT})",
    )
    how.add_argument("--boofuzz-db", metavar="FILE", type=Path, help="file for boofuzz's own database")
    where = run.add_argument_group("output")
    where.add_argument(
        "--run-dir",
        metavar="DIR",
        type=folder_of,
        help="folder for rows, captures and findings (default: runs/<new id>)",
    )
    where.add_argument(
        "--resume", action="store_true", help="continue the run in --run-dir, or start it if there is none"
    )
    where.add_argument("--junit", metavar="FILE", type=Path, help="write the findings as JUnit XML")
    where.add_argument("--markdown", metavar="FILE", type=Path, help="write the summary as Markdown")
    run.set_defaults(function=run_command)


def add_user(parser: Any) -> None:
    """Adds the option that says who we are; ``replay`` and ``shrink`` have it too."""
    parser.add_argument(
        USER,
        metavar="NAME:PASSWORD",
        type=user_of,
        help="user of a node that asks for one; a node started from pypi or ref is made to. NAME alone takes the "
        "password from the variable ZENOH_PASSWORD. It is written nowhere",
    )


# Values of options ------------------------------------------------------------------------------------


def seconds_of(text: str) -> float:
    """Reads a time.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    seconds = spare_of(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; use something like 20s, 2m or 1h")
    return seconds


def spare_of(text: str) -> float:
    """Reads a time that may be 0.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|h)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a duration; use something like 20s, 2m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"]


def size_of(text: str) -> int:
    """Reads a size in bytes.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([kMGT]?)B?", text)
    size = int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " ")) if found else 0
    if size <= 0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a size; use something like 500M or 4G")
    return size


def count_of(text: str) -> int:
    """Reads a number of cases.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not text.isdecimal() or len(text) > 19 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of cases; use something like 500")
    return int(text)


def rate_of(text: str) -> float:
    """Reads a rate.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a rate; give cases per second, like 100")
    return float(text)


def jobs_of(text: str) -> int:
    """Reads a number of processes.

    Raises:
        argparse.ArgumentTypeError: It is none, or too many.
    """
    most = 4 * (os.cpu_count() or 1)
    if not text.isdecimal() or len(text) > 4 or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of jobs; use 1 to {most}")
    return int(text)


def named_of(text: str) -> str:
    """Reads the name of a node.

    Raises:
        argparse.ArgumentTypeError: It is empty, as that of a variable which is not set: another node would be tested.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; give a name or leave out the option")
    return text


def user_of(text: str) -> Credentials:
    """Reads a user and its password.

    Raises:
        argparse.ArgumentTypeError: One of them is missing.
    """
    from conformance.config import Credentials
    from conformance.errors import UsageError

    try:
        return Credentials.parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(f"{USER}: ")) from None


def folder_of(text: str) -> Path:
    """Reads the path of a folder.

    Raises:
        argparse.ArgumentTypeError: It is empty, as that of a variable which is not set: the current one is ``.``.
    """
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a folder")
    return Path(text)


def port_of(text: str) -> int:
    """Reads a port.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a port; use 1 to 65535")
    return int(text)


def seed_of(text: str) -> int:
    """Reads a seed. Rows hold 64 bits; a longer one would make the run unreadable for reports.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not text.isdecimal() or len(text) > 19 or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a seed; use a whole number like 1")
    return int(text)


# The command ------------------------------------------------------------------------------------------


def fail(message: str, code: int) -> int:
    """Says in one line what is wrong; returns the exit code."""
    from conformance.page.words import visible

    say(f"zenoh-fuzz: {visible(' '.join(message.split()))}", file=sys.stderr)
    return code


def _leave() -> NoReturn:
    """Ends the process, whatever its threads do; its nodes end with it."""
    # A signal may come in the middle of a print.
    os.write(sys.stderr.fileno(), b"\nzenoh-fuzz: interrupted; everything recorded so far was kept\n")
    os._exit(FAILED)


class Early(Exception):
    """Somebody has asked for the end of a run before its first case."""


@contextmanager
def _early() -> Iterator[None]:
    """Is for what comes before the first case.

    Raises:
        Early: Somebody has asked for the end meanwhile.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Early from None


def run_command(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Runs campaigns; returns the exit code."""
    # To load the other modules takes about as long as to think better of it.
    with Interrupts() as interrupts:
        try:
            return _run_command(options, argv, interrupts)
        except Early:
            return fail("stopped before the first case", OK)


def _run_command(options: argparse.Namespace, argv: Sequence[str], interrupts: Interrupts) -> int:
    from conformance.errors import HarnessError, NotApplicable, Unmet, UsageError
    from spark_reports.rows import RowsError, new_run_id

    run_dir = options.run_dir or Path("runs") / new_run_id()
    new = not run_dir.exists()
    try:
        _check(options)
        return _run(options, argv, run_dir, interrupts)
    except (UsageError, RowsError) as error:
        return fail(str(error), USAGE)
    except (Unmet, NotApplicable) as error:
        return _not_begun(options, f"the node failed the check before the first case: {error}")
    except HarnessError as error:
        if interrupts.asked:
            # A terminal tells all processes, also one that fetches a release.
            raise Early from None
        return _not_begun(options, str(error))
    except OSError as error:
        where = relative(Path(os.fsdecode(error.filename))) if error.filename else run_dir
        return fail(f"cannot write to {where}: {error.strerror}; everything recorded so far was kept", FAILED)
    finally:
        if new:
            _remove_empty(run_dir)


def _not_begun(options: argparse.Namespace, why: str) -> int:
    """Says why nothing was played, also where a machine looks for what came of it; returns the exit code."""
    from fuzz.summary import Outcome, as_junit, as_markdown

    outcome = Outcome(failed=why)
    title = f"{options.campaigns} against {options.target or node_named(options)}"
    if options.junit:
        _write(options.junit, as_junit(outcome, title, "unknown", options.seed or 0))
    if options.markdown:
        _write(options.markdown, as_markdown(outcome, title, ""))
    return fail(why, FAILED)


def _write(path: Path, page: str, mode: str = "w") -> None:
    """Writes a summary; says when it cannot be written. What came of the run is the same without it."""
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        say(f"zenoh-fuzz: cannot write {path}: {error.strerror}", file=sys.stderr)


def _check(options: argparse.Namespace) -> None:
    """Refuses options that do not fit together.

    Raises:
        UsageError: They do not; says what to do.
    """
    from conformance.errors import UsageError

    if options.node and options.target:
        raise UsageError("--node and --target cannot be combined; choose one")
    several = options.jobs is not None and options.jobs > 1
    if options.target not in {None, "refnode"} and (several or options.also or options.resume):
        raise UsageError(f"--jobs, --also and --resume need a node; --target {options.target} is not one")
    if options.target not in {None, "refnode"}:
        node_only = {"--engine": options.engine != FUZZ_ENGINES[0], "--rate": options.rate is not None}
        node_only |= {"--profile": options.profile, "--known": options.known is not None}
        node_only |= {"--through-known": options.through_known, USER: options.user is not None}
        given = [name for name, there in node_only.items() if there]
        if given:
            raise UsageError(f"{', '.join(given)}: for nodes only; --target {options.target} is not one")
    if options.engine != "boofuzz" and (options.web is not None or options.boofuzz_db):
        raise UsageError("--web and --boofuzz-db need --engine boofuzz")
    if several and (options.web is not None or options.boofuzz_db):
        raise UsageError("--web and --boofuzz-db work with a single process only; leave out --jobs")
    if options.resume and options.run_dir is None:
        raise UsageError("--resume needs the --run-dir of the run to continue")
    _check_files(options)


def _check_files(options: argparse.Namespace) -> None:
    """Refuses places where nothing can be written in the end.

    Raises:
        UsageError: One of them is none.
    """
    from conformance.errors import UsageError

    for path in (options.junit, options.markdown, options.boofuzz_db):
        if path is not None and not path.resolve().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} to")
        if path is not None and path.is_dir():
            raise UsageError(f"{path} is a folder; name a file in it")
    if options.boofuzz_db is not None and not _is_database(options.boofuzz_db):
        raise UsageError(f"{options.boofuzz_db} exists and is not a database; choose another file")
    if options.web is not None and not _is_free(options.web):
        raise UsageError(f"--web: port {options.web} is in use; choose another one")
    if options.corpus is not None and options.corpus.exists() and not options.corpus.is_dir():
        raise UsageError(f"{options.corpus} is a file; a corpus is a folder")


def _is_database(path: Path) -> bool:
    """Tells whether SQLite can go on with a file, or begin it."""
    if not path.exists():
        return True
    if not path.is_file():
        # A device takes everything and keeps nothing.
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) in {SQLITE, b""}


def _is_free(port: int) -> bool:
    """Tells whether something can be served at a port on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def campaigns_of(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Reads names of campaigns.

    Raises:
        UsageError: There is no campaign of that name.
    """
    from conformance.errors import UsageError

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names or (text,):
        if name not in known and name != ALL:
            raise UsageError(f"unknown campaign {name!r}; choose from: {', '.join(known)}, or {ALL}")
    return tuple(known) if ALL in names else names


def jobs_for(options: argparse.Namespace, node: Node) -> int:
    """Returns how many processes play.

    When nobody says it, it is one with each core: a process and its node wait for each other most of the time. It is a single
    one when a number of cases is to be the same on each machine, and on a node of which nobody knows whether it runs twice.
    """
    if options.jobs is not None:
        return int(options.jobs)
    alone = options.cases is not None or options.web is not None or options.boofuzz_db is not None
    if alone or not node.configured:
        return 1
    return min(MOST_JOBS, len(os.sched_getaffinity(0)))


def node_named(options: argparse.Namespace) -> str:
    """Returns the node that is meant: the one that was named, our own for ``--target refnode``, or the real one."""
    if options.target:
        return REFNODE
    return str(options.node or DEFAULT_NODE)


def _run(options: argparse.Namespace, argv: Sequence[str], run_dir: Path, interrupts: Interrupts) -> int:
    with ExitStack() as stack:
        with _early():
            run, node = _prepared(options, argv, run_dir, stack)
            interrupts.check()
        return run.run(node, interrupts)


def _prepared(
    options: argparse.Namespace, argv: Sequence[str], run_dir: Path, stack: ExitStack
) -> tuple[_Run, Any]:
    """Returns the run that was asked for and its node, not started; the lock of its folder is in the stack."""
    from conformance.config import RunConfig, prepare_run_dir
    from conformance.nodes import node_of
    from fuzz.campaigns import CAMPAIGNS
    from fuzz.jobs import Order, check_jobs
    from fuzz.known import KnownFindings
    from fuzz.recorder import MAX_DISK
    from fuzz.resume import check_fresh, locked

    names = campaigns_of(options.campaigns, list(CAMPAIGNS))
    reader = options.target if options.target != "refnode" else ""
    config = RunConfig(
        node=f"target:{reader}" if reader else node_named(options),
        run_dir=run_dir,
        run_id=run_dir.resolve().name,
        seed=random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed,
        profile=options.profile,
        may_test=options.i_may_test_this_node,
        user=options.user,
    )
    node: Any = reader or node_of(config, "fuzz")
    order = Order(
        config,
        names,
        seconds=SECONDS if options.time is None and options.cases is None else options.time,
        cases=options.cases,
        engine=options.engine,
        jobs=1 if reader else jobs_for(options, node),
        also=options.also or "",
        known=options.known,
        through_known=options.through_known,
        minimise=options.minimise,
        rate=options.rate,
        max_disk=options.max_disk or MAX_DISK,
        corpus=options.corpus,
        web=options.web,
        database=options.boofuzz_db,
    )
    if not reader:
        check_jobs(order, node)
        # A mistake in it is one of whoever typed this, not of a node or of one of several processes.
        KnownFindings.of_run(order.known)
    if order.also:
        _check_also(order)
    prepare_run_dir(run_dir)
    stack.enter_context(locked(run_dir))
    before: Earlier | None = None
    if options.resume:
        order, before = _resumed(order, options)
    else:
        # Before the node starts and run.json is written: a refused folder stays as it is.
        check_fresh(run_dir, order.campaigns, resumable=not reader)
    kind = _TargetRun if reader else _Run
    return kind(order, before, options, command(argv)), node


def _check_also(order: Order) -> None:
    """Refuses another node that cannot get the same.

    Raises:
        UsageError: There is no such node, or no link to it; names the option that named it.
    """
    from conformance.errors import UsageError
    from conformance.nodes import node_of
    from fuzz.jobs import other

    try:
        node_of(other(order), "also")
    except UsageError as error:
        raise UsageError(re.sub(r"^--node\b", "--also", str(error))) from None


def _resumed(order: Order, options: argparse.Namespace) -> tuple[Order, Earlier]:
    """Returns what is left to do of a run."""
    from fuzz.findings import FOLDER, unfinished
    from fuzz.recorder import Recorder
    from fuzz.resume import Numbers, check_numbers, check_same, earlier, jobs_of_run, mend, unrecorded

    folder = order.config.run_dir
    numbers = Numbers()
    before = earlier(folder, numbers.add)
    if options.jobs is None:
        order = replace(order, jobs=jobs_of_run(before, order.campaigns, order.jobs))
    seed = check_same(before, list(order.campaigns), options.seed, order.jobs, folder)
    if seed is not None:
        check_numbers(folder, before, order.campaigns, numbers, _cases_of(order.campaigns, seed))
    cut = mend(folder)
    if seed is not None and (lost := unrecorded(folder)):
        with Recorder(order.config, part=before.part - 1, max_disk=None) as recorder:
            for finding in lost:
                recorder.found(finding, order.engine)
    if seed is None:
        say(f"nothing to resume in {folder.name}; starting a new run", file=sys.stderr)
        return order, before
    cut_off = f", {cut} of them truncated and set aside" if cut else ""
    say(f"resuming after {before.cases.total()} cases{cut_off}", file=sys.stderr)
    cases = order.cases
    if cases is not None:
        cases = max(0, cases - sum(before.cases[name] for name in order.campaigns))
    config = replace(order.config, seed=seed)
    left = tuple(unfinished(folder / FOLDER))
    return replace(order, config=config, cases=cases, part=before.part, done=before.done, left=left), before


def _cases_of(campaigns: Sequence[str], seed: int) -> Iterator[Numbered]:
    """Yields the cases of a run as they come."""
    from fuzz.campaigns import CAMPAIGNS, Setting
    from fuzz.plan import Plan, merged

    return merged([Plan(CAMPAIGNS[name], Setting(seed)) for name in campaigns], seed)


class _Run:
    """One run, from the first node that serves to the summary.

    Args:
        order: What is run.
        before: Earlier parts of it.
        options: Where the summary goes.
        typed: What was typed, for the record.
    """

    def __init__(self, order: Order, before: Earlier | None, options: argparse.Namespace, typed: str) -> None:
        self._order = order
        self._before = before
        self._options = options
        self._typed = typed
        self._row: RunRow | None = None
        self._facts: NodeFacts | None = None
        self._begun = False
        self._interrupts: Interrupts | None = None

    def run(self, node: Any, interrupts: Interrupts) -> int:
        """Runs it and returns the exit code.

        Raises:
            Early: It was stopped before its first case.
            HarnessError: The node cannot be had.
            OSError: The rows cannot be written.
        """
        from conformance.recorder import close_run
        from fuzz.resume import complete

        failed = True
        self._interrupts = interrupts
        try:
            outcome, facts = self._recorded(node, interrupts)
            failed = bool(outcome.failed)
        except KeyboardInterrupt:
            if self._begun:
                raise
            failed = False
            if self._row is not None:
                complete(self._order.config.run_dir)
            raise Early from None
        finally:
            if self._row is not None:
                close_run(self._order.config, self._row, failed=failed)
        self._write_summaries(outcome, facts)
        if outcome.failed:
            return fail(outcome.failed, FAILED)
        return FINDINGS if outcome.new else OK

    def _recorded(self, node: Any, interrupts: Interrupts) -> tuple[Outcome, NodeFacts]:
        """Plays and shows what came of it; all rows are there then."""
        from conformance.errors import NodeDidNotStart
        from fuzz.findings import FOLDER, left_open
        from fuzz.recorder import Recorder
        from fuzz.resume import complete
        from fuzz.summary import as_text

        order = self._order
        with Progress(order.seconds, order.cases, look=interrupts.check) as progress:
            outcome = self._play(node, progress, interrupts)
        if self._facts is None and outcome.interrupted and not outcome.failed:
            raise KeyboardInterrupt
        if self._facts is None:
            raise NodeDidNotStart(outcome.failed or "no node was started")
        complete(order.config.run_dir)
        self._add_earlier(outcome)
        outcome.notes += [
            f"not analysed before its process was killed: zenoh-fuzz replay {relative(path.resolve())}"
            for path in left_open(order.config.run_dir / FOLDER)
        ]
        with Recorder(order.config, max_disk=None) as recorder:
            recorder.coverage(outcome.coverage.rows(order.config.run_id))
        say(as_text(outcome, relative(order.config.run_dir.resolve())))
        return outcome, self._facts

    def _play(self, node: Any, progress: Progress, interrupts: Interrupts) -> Outcome:
        from conformance.recorder import NodeFacts
        from fuzz.jobs import awake, play, side_by_side, whole

        def told(summary: Summary) -> None:
            self._begin()
            progress(summary)

        order = self._order
        if order.jobs > 1:
            return whole(side_by_side(order, progress, self._served, interrupts), order.jobs)
        try:
            awake(node, order.config.reply)
            self._served(
                NodeFacts.of(node), f" at {node.locator}" if node.listens else " that connects to the fuzzer"
            )
            return play(order, 0, node, told)
        finally:
            node.stop()

    def _begin(self) -> None:
        """Takes note of the first case: from now on rows are there as soon as their cases have ended."""
        self._begun = True
        if self._interrupts is not None:
            self._interrupts.at_once = _leave

    def _served(self, facts: NodeFacts, where: str = "") -> None:
        """Begins the record, now that a node serves."""
        from conformance.recorder import open_run
        from fuzz.known import KnownFindings
        from fuzz.resume import share

        order = self._order
        # Others play as soon as they were told, and tell of it later.
        if order.jobs > 1:
            self._begin()
        self._row = open_run(order.config, facts, "fuzz", self._typed, order.judging)
        share(order.config.run_dir, order.campaigns, order.jobs)
        self._facts = facts
        where = where or f", {order.jobs} nodes"
        names = (
            f"{len(order.campaigns)} campaigns" if len(order.campaigns) > 3 else ", ".join(order.campaigns)
        )
        known = facts.impl not in {"", "unknown"}
        node = f"{facts.impl} {facts.version}" if known else order.config.node
        say(f"{names} against {node}{where}, seed {order.config.seed}", file=sys.stderr)
        if order.known is not None and (
            unfit := KnownFindings.load(order.known).unfit(facts.impl, facts.version)
        ):
            say(f"note: {unfit}", file=sys.stderr)

    def _write_summaries(self, outcome: Outcome, facts: NodeFacts) -> None:
        """Writes what the run did and found where it was asked for."""
        from fuzz.summary import as_junit, as_markdown

        order = self._order
        folder = relative(order.config.run_dir.resolve())
        node = f"{facts.impl} {facts.version}"
        title = f"{', '.join(order.campaigns)} against {node} ({order.config.node}), seed {order.config.seed}"
        page = as_markdown(outcome, title, folder)
        if self._options.junit:
            _write(self._options.junit, as_junit(outcome, title, node, order.config.seed))
        if self._options.markdown:
            _write(self._options.markdown, page)
        if step := os.environ.get(STEP_SUMMARY):
            _write(Path(step), page, "a")

    def _add_earlier(self, outcome: Outcome) -> None:
        """Adds what earlier parts of the run did, and what a process did that died, from the rows."""
        from fuzz.campaigns import CAMPAIGNS, Setting
        from fuzz.coverage import Coverage
        from fuzz.resume import earlier, findings_before
        from fuzz.summary import by_bucket

        order, before = self._order, self._before
        lost = bool(outcome.failed) and order.jobs > 1
        resumed = before is not None and bool(before.cases)
        if outcome.coverage.planned and not resumed:
            return
        setting = Setting(order.config.seed, order.corpus)
        coverage = Coverage({name: list(CAMPAIGNS[name].make(setting)) for name in order.campaigns})
        if resumed or lost:
            found = earlier(order.config.run_dir, coverage.add_row)
            outcome.cases = found.cases - (before.cases if before is not None else Counter())
        else:
            coverage.merge(outcome.coverage)
        outcome.coverage = coverage
        if before is not None and resumed:
            outcome.earlier = before.cases
        if resumed or lost:
            # Of a process that died only the rows are left.
            rows = findings_before(order.config.run_dir, None if lost else order.part)
            rows = self._recognised(rows)
            outcome.findings = by_bucket(rows if lost else [*rows, *outcome.findings])

    def _recognised(self, rows: Sequence[FindingRow]) -> list[FindingRow]:
        """Returns findings of earlier parts with what is known of them by now, and writes that down where it is news."""
        from fuzz.findings import Finding, NoFinding
        from fuzz.known import KnownFindings
        from fuzz.recorder import Recorder

        config = self._order.config
        known = KnownFindings.of_run(self._order.known)
        told = []
        with Recorder(config, max_disk=None) as recorder:
            for row in rows:
                try:
                    finding = Finding.load(config.run_dir / row.folder) if row.folder else None
                except NoFinding:
                    finding = None
                if finding is None or finding.bucket != row.bucket:
                    told.append(row)
                    continue
                entry = known.of(finding.signature, row.node_impl, row.node_version)
                now = entry.id if entry else ""
                if now != row.known:
                    finding.enter_known(now)
                size = finding.size
                if (now, *size) != (row.known, row.messages, row.size):
                    row = replace(  # noqa: PLW2901
                        row,
                        known=now,
                        fails=finding.fails,
                        messages=size[0],
                        size=size[1],
                        time_ns=time.time_ns(),
                    )
                    recorder.finding(row)
                told.append(row)
        return told


class _TargetRun(_Run):
    """A run against one of our own readers."""

    def _play(self, node: Any, progress: Progress, interrupts: Interrupts) -> Outcome:
        from conformance.recorder import NodeFacts
        from fuzz.campaigns import CAMPAIGNS
        from fuzz.summary import Outcome
        from fuzz.targets import run_target
        from fuzz.targets.base import Limit
        from scapy_layers.commands.terminal import installed_version

        order = self._order
        last = Outcome()

        def look() -> Glance:
            states, pairs = last.coverage.glance()
            buckets = tuple((row.bucket, row.fails) for row in last.findings)
            return Glance(last.seconds, last.total, states, pairs, buckets, doing=last.doing)

        def report(outcome: Outcome) -> None:
            nonlocal last
            last = outcome
            self._begin()
            interrupts.check()
            progress.offer(look, outcome.doing)

        self._served(NodeFacts(f"zenoh-harness {node}", installed_version(), "", ""), " in this process")
        run_target(
            node,
            order.config,
            Limit(order.seconds, order.cases, order.max_disk),
            order.config.seed,
            report,
            campaigns=[CAMPAIGNS[name] for name in order.campaigns],
            corpus=order.corpus,
        )
        return last


def _remove_empty(folder: Path) -> None:
    """Removes a run folder in which nothing was recorded, and no node had anything to say."""
    for log in (folder / "nodes").glob("*"):
        if log.is_file() and not log.stat().st_size and not (folder / RUN).exists():
            log.unlink(missing_ok=True)
    for name in ("captures", "nodes", "."):
        with suppress(OSError):
            (folder / name).resolve().rmdir()


_NODES = ("--node", "--also")


def command(argv: Sequence[str]) -> str:
    """Returns what was typed, without paths of this machine and without a password."""
    words = []
    for before, word in zip(["", *argv], argv, strict=False):
        if _is_user(before) or _is_user(word):
            words.append(word.partition(":")[0])
            continue
        # A node is named as in the rest of the record.
        whole = before in _NODES or word.partition("=")[0] in _NODES
        words.append(word if whole else word.rstrip("/").rpartition("/")[2])
    return shlex.join(["zenoh-fuzz", *words])


def _is_user(word: str) -> bool:
    """Tells whether a word is the option with the password, which may be cut short."""
    name = word.partition("=")[0]
    return len(name) > len("--") and USER.startswith(name)


def relative(path: Path) -> str:
    """Returns a path as people see it: relative to where they are, when it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
